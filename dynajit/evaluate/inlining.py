"""Calling a Python function inside the trace: binding its arguments and evaluating its body."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dynajit import reasons
from dynajit.bytecode import Instr
from dynajit.errors import GraphBreak, Raised
from dynajit.evaluate import wrappers
from dynajit.evaluate.program import program_of
from dynajit.evaluate.state import Frame, Suspended
from dynajit.source import Known
from dynajit.values.base import Value
from dynajit.values.cell import CellValue
from dynajit.values.constant import Constant
from dynajit.values.function import Callee, FunctionValue, NestedFunction
from dynajit.values.iterator import GeneratorValue
from dynajit.values.mapping import new_dict
from dynajit.values.module import ModuleValue
from dynajit.values.sequence import TupleValue

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine

_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
UNTRACED_MODULES = ("torch._dynamo", "torch._inductor", "torch.fx.", "torch.jit", "torch.distributed", "torch.compiler",
                    "torch.onnx", "torch.export", "torch.library", "torch.utils.data")  # fmt: skip


# DistributedDataParallel: its bookkeeping is called, the module inside is evaluated.
_DATA_PARALLEL = "torch.nn.parallel.distributed"
_AROUND_THE_MODULE = frozenset({"forward", "_run_ddp_forward"})
_MARKS = frozenset({"mark_static_address", "mark_dynamic", "maybe_mark_dynamic", "mark_static", "mark_unbacked"})


def inline(m: Machine, fn: Value, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """Evaluate the function's body in a frame of its own."""
    assert isinstance(fn, (FunctionValue, NestedFunction))
    if isinstance(fn, FunctionValue):
        module = fn.fn.__module__ or ""
        if module == "torch._dynamo.decorators" and fn.fn.__name__ in _MARKS:
            return Constant(None)  # advice to another compiler
        around = wrappers.of(fn.fn.__code__)
        if around is not None:
            m.guard(fn.source or Known(fn.fn), "CODE", fn.fn.__code__)
            return around(m, fn.fn, args, kwargs)
        if module.startswith(UNTRACED_MODULES) or (
            module == _DATA_PARALLEL and fn.fn.__name__ not in _AROUND_THE_MODULE
        ):
            raise GraphBreak(reasons.OPAQUE_CALL, fn.describe())
    callee = fn.callee(m)
    code = callee.code
    if code.co_flags & _ASYNC:
        raise GraphBreak(reasons.ASYNC, callee.qualname)
    frame = Frame(program_of(code), callee)
    frame.locals = bind(m, callee, args, kwargs)
    if args and isinstance(args[0], ModuleValue) and args[0].source is not None:
        frame.module = args[0].source.text
    m.inlined.setdefault(id(code), code)
    frame.direct, m.direct = m.direct, False
    if code.co_flags & inspect.CO_GENERATOR:
        return _make_generator(m, frame)
    return m.run_frame(frame)


def bind(m: Machine, callee: Callee, args: Sequence[Value], kwargs: Mapping[str, Value]) -> dict[str, Value]:
    """Parameters by name, as CPython binds them (Python/ceval.c, initialize_locals). Errors are its TypeErrors."""
    code = callee.code
    names = code.co_varnames
    positional, kwonly = names[: code.co_argcount], names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    bound: dict[str, Value] = dict(zip(positional, args, strict=False))
    place = code.co_argcount + code.co_kwonlyargcount
    extra = args[code.co_argcount :]
    if code.co_flags & inspect.CO_VARARGS:
        bound[names[place]] = TupleValue(tuple(extra))
        place += 1
    elif extra:
        _refuse(m, callee, f"takes {code.co_argcount} positional arguments but {len(args)} were given")
    rest: list[tuple[Value, Value]] = []
    for name, value in kwargs.items():
        if name in kwonly or name in positional[code.co_posonlyargcount :]:
            if name in bound:
                m.throw(TypeError, f"{callee.qualname}() got multiple values for argument '{name}'")
            bound[name] = value
        elif code.co_flags & inspect.CO_VARKEYWORDS:
            rest.append((Constant(name), value))
        else:
            m.throw(TypeError, f"{callee.qualname}() got an unexpected keyword argument '{name}'")
    if code.co_flags & inspect.CO_VARKEYWORDS:
        bound[names[place]] = new_dict(m, rest)
    for name, value in zip(reversed(positional), reversed(callee.defaults), strict=False):
        bound.setdefault(name, value)
    for name in kwonly:
        if name not in bound and name in callee.kwdefaults:
            bound[name] = callee.kwdefaults[name]
    missing = [name for name in (*positional, *kwonly) if name not in bound]
    if missing:
        _refuse(m, callee, f"misses arguments: {', '.join(missing)}")
    return bound


def _refuse(m: Machine, callee: Callee, text: str) -> None:
    """CPython's wording has many cases: let Python itself say it."""
    raise GraphBreak(reasons.UNCAUGHT, f"TypeError: {callee.qualname}() {text}")


# ---- generators -----------------------------------------------------------------------------------------------------
def _make_generator(m: Machine, frame: Frame) -> Value:
    key = m.new_key()
    m.heap.new(key, _suspend(frame, started=False), existing=False)
    return GeneratorValue(key, frame.callee.qualname)


def _suspend(frame: Frame, started: bool) -> Suspended:
    return Suspended(
        frame=True, at=frame.at, stack=tuple(frame.stack), locals=dict(frame.locals), cells=dict(frame.cells),
        callee=frame.callee, started=started, handled=tuple(frame.handled),
    )  # fmt: skip


def run_generator(m: Machine, state: Suspended, sent: Value, error: Any) -> tuple[Value | None, Any, Value | None]:
    """Resume a generator. Returns (yielded value or None, its new state, its return value)."""
    frame = Frame(program_of(state.callee.code), state.callee)
    frame.at, frame.stack, frame.locals = state.at, list(state.stack), dict(state.locals)
    frame.cells, frame.generator, frame.handled = dict(state.cells), True, list(state.handled)
    if error is not None:
        _raise_at_yield(m, frame, state, error)
    elif state.started:
        frame.stack.append(sent)
    elif not (isinstance(sent, Constant) and sent.value is None):
        m.throw(TypeError, "can't send non-None value to a just-started generator")
    try:
        value = m.run_frame(frame)
    except Raised as raised:
        if issubclass(raised.value.python_type(), StopIteration):
            m.throw(RuntimeError, "generator raised StopIteration")
        raise
    if frame.yielded:
        return value, _suspend(frame, started=True), None
    return None, None, value


def _raise_at_yield(m: Machine, frame: Frame, state: Suspended, error: Value) -> None:
    """Go on with an exception at the `yield` where the generator waits."""
    if not state.started:
        raise Raised(error)
    here = frame.program.body[state.at]
    if isinstance(here, Instr) and here.op == "RESUME" and here.arg & 3 != AFTER_YIELD:
        raise GraphBreak(reasons.ASYNC, f"an exception thrown through {state.callee.qualname} into what it yields from")
    frame.at = state.at - 1
    waiting = frame.program.body[frame.at]
    assert isinstance(waiting, Instr)
    frame.instr = waiting
    if not m.handle(frame, error):
        raise Raised(error)


AFTER_YIELD = 1  # argument of RESUME, Include/opcode.h


def cell_of(m: Machine, frame: Frame, name: str) -> CellValue:
    """The cell of a cell or free variable of a frame."""
    found = frame.cells.get(name)
    if found is not None:
        return found
    index = frame.callee.code.co_freevars.index(name)
    if frame.callee.closure:
        cell = m.realize(frame.callee.closure[index])
        assert isinstance(cell, CellValue)
    else:
        cell = m.free_cell(name, index)
    frame.cells[name] = cell
    return cell
