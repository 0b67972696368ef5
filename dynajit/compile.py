"""The page where everything meets: from a call that no entry fits to a cache entry, one named step per line."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

import torch
from torch.autograd import forward_ad

from dynajit import content, events, frame, reasons
from dynajit.building import BackendFailedError, Watch, build_graph
from dynajit.bytecode import NOWHERE, Position
from dynajit.bytecode.flow import reachable, successors
from dynajit.errors import CompileError, InternalError, Skip
from dynajit.evaluate import Machine
from dynajit.evaluate.plan import Plan, Replan
from dynajit.evaluate.program import Program, program_of
from dynajit.evaluate.skip import is_library
from dynajit.guards.build import build
from dynajit.guards.guard import Guard
from dynajit.marks import function_mark
from dynajit.misses import broke_error, explain_miss, give_up, may_compile
from dynajit.options import Options
from dynajit.records import Break, CacheEntry, GraphRecord, Record, record_of
from dynajit.report import Stage
from dynajit.rewrite import body
from dynajit.rewrite.reload import NotRebuildable
from dynajit.source import Known
from dynajit.trace import Broke, Trace
from dynajit.values import ambient

_COMPILING = threading.RLock()  # tracing switches process-wide settings (the warning filters)
MAX_RETRIES = 8
SAMPLES = 12


def on_miss(func: FunctionType, args: tuple[Any, ...], options: Options) -> frame.Entry | None:
    """No entry of `func` fits this call. Returns one that does, or None: the frame runs as it is."""
    code = func.__code__
    program = program_of(code)
    root = program.resumed.program.original if program.resumed is not None else code
    record = record_of(root)
    if id(code) in record.full or _is_ambient() or not may_compile(func, args, options):
        return None
    if not record.explicit and program.resumed is None:
        # Handlers of PyTorch's functions, where PyTorch calls them, meet another function each time.
        if is_library(code) or code.co_name == "__torch_function__":
            frame.skip(code)
            return None
        if _is_importing():
            return None
    try:
        # Classes that handle PyTorch's functions must not hear of what the compiler asks of their tensors.
        with _COMPILING, _unhooked(), torch._C.DisableTorchFunctionSubclass():
            return _made_meanwhile(func, args, options) or _compile(func, args, options, program, record)
    except Skip as error:
        _skip(code, record, error.reason.title, error.detail)
        events.emit(events.FrameSkipped(root, error.reason.code, error.detail))
    except (CompileError, KeyboardInterrupt) as error:
        raise error.with_traceback(None) from None  # the way through the compiler tells the user nothing
    except BackendFailedError as failed:
        raise failed.error from None
    except Exception as error:
        _internal(code, root, record, error)
    return None


frame.hide(on_miss.__code__)


@contextlib.contextmanager
def _unhooked() -> Iterator[None]:
    """Hooks on saved tensors (those of checkpointing, too) must not hear of meta tensors."""
    before = torch._C._autograd._saved_tensors_hooks_set_tracing(True)
    try:
        yield
    finally:
        torch._C._autograd._saved_tensors_hooks_set_tracing(before)


def _is_importing() -> bool:
    """Whether a module is being imported on this thread: what runs then runs once."""
    here: Any = sys._getframe(1)
    while here is not None:
        if here.f_code.co_filename.startswith("<frozen importlib"):
            return True
        here = here.f_back
    return False


def _made_meanwhile(func: FunctionType, args: tuple[Any, ...], options: Options) -> frame.Entry | None:
    """The entry that another thread made while this one waited."""
    for entry in frame.entries(func.__code__):
        if entry.options is options and entry.check.run(func, args) is not None:
            return entry
    return None


def _skip(code: CodeType, record: Record, title: str, detail: str) -> None:
    frame.skip(code)
    record.status, record.reason = "eager", f"{title}: {detail}" if detail else title


def _internal(code: CodeType, root: CodeType, record: Record, error: Exception) -> None:
    """A fault of ours must not become the user's: the frame runs eagerly, and says so."""
    text = "".join(traceback.format_exception(error))
    record.error = text
    if os.environ.get("DYNAJIT_STRICT"):
        where = f"{root.co_filename}:{root.co_firstlineno}"
        raise InternalError("capture", where, f"{type(error).__name__}: {error}", "report this") from error
    _skip(code, record, reasons.INTERNAL.title, f"{type(error).__name__}: {error}")
    events.emit(events.FrameSkipped(root, reasons.INTERNAL.code, text))


# Which level of forward-mode derivatives this thread is at; -1 for none.
_forward_level = functools.partial(getattr, forward_ad, "_current_level")


def _is_ambient() -> bool:
    """Modes that change what every operation does are not captured."""
    return bool(
        _forward_level() >= 0
        or torch._C._len_torch_function_stack()
        or torch._C._len_torch_dispatch_stack()
        or not torch._C._is_torch_function_enabled()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._get_tracing_state() is not None
    )


def _compile(
    func: FunctionType, args: tuple[Any, ...], options: Options, program: Program, record: Record
) -> frame.Entry | None:
    code = func.__code__
    mine = [e for e in frame.entries(code) if e.options is options]
    if not mine:
        kept = content.restore(func, args, options, record)
        if kept is not None:
            return kept
    cause = explain_miss(func, args, mine, record, options)
    if len([e for e in frame.entries(code) if e.options is options]) >= options.limit:
        give_up(code, record, options)
        return None
    root = record.code()
    assert root is not None
    events.emit(events.CaptureStarted(root))
    watch = Watch(root)
    watch("capture", "", None)
    started = time.perf_counter()
    trace, made = _capture(func, args, options, program, record)
    watch("capture", f"{len(trace.visited)} lines", time.perf_counter() - started)
    if options.fullgraph and isinstance(trace.end, Broke):
        if trace.end.reason is reasons.UNCAUGHT:
            return None  # the user's own error: Python raises it
        raise broke_error(func, trace.end)
    graph = build_graph(trace, made, options, root, watch)
    compiled = time.perf_counter()
    watch("guards", "", None)
    replacement, inputs = body.assemble(made, graph.call if graph is not None else None, _first_position(trace))
    built = build(_ordered([*trace.guards, _ambient_guard(trace)]), inputs)
    watch("guards", f"{len(trace.guards)} guards", time.perf_counter() - compiled)
    kept_entry = _record_entry(program, trace, graph, built, watch.stages, replacement)
    kept_entry.cause, kept_entry.check_seconds = cause, _check_seconds(built.check, func, args)
    entry = frame.Entry(built.check, replacement, options, isinstance(trace.end, Broke), kept_entry)
    kept_entry.entry = entry
    record.entries.append(kept_entry)
    if code is not root:
        record.extra.append(weakref.ref(code))
    frame.add(code, entry)
    content.keep(func, options, entry, record)
    if graph is not None and events.are_heard():
        graph.sample(SAMPLES)  # somebody watches: the first runs are timed
    events.emit(events.EntryAdded(root, len(record.entries), kept_entry))
    return entry


def _capture(
    func: FunctionType, args: tuple[Any, ...], options: Options, program: Program, record: Record
) -> tuple[Trace, body.Draft]:
    """Evaluate the frame. A value that cannot be made again moves the break to where it was made."""
    force: set[int] = set()
    chains = True
    plan = _plan(func, options, program, record)
    for _ in range(MAX_RETRIES):
        trace = _evaluate(func, args, plan, frozenset(force), options, chains)
        try:
            return trace, body.draft(func, program, trace)
        except NotRebuildable as error:
            if isinstance(trace.end, Broke) and trace.end.chain:
                chains = False  # what the inlined functions hold cannot be rebuilt: break before the call
                continue
            at = trace.born.get(error.key) if error.key is not None else None
            if at is None or at in force:
                raise Skip(reasons.NO_OPERATION, f"rebuilding {error.detail}") from None
            force.add(at)
    raise Skip(reasons.NO_OPERATION, "values that cannot be rebuilt")


def _plan(func: FunctionType, options: Options, program: Program, record: Record) -> Plan:
    """What is symbolic: what differed between calls, and what the options say."""
    if options.dynamic is False:
        return Plan()
    return Plan(
        record.numbers.get(id(func.__code__), ()), record.sizes.get(id(func.__code__)),
        every_number=options.dynamic is True or _goes_round(program), every_size=options.dynamic is True,
    )  # fmt: skip


def _evaluate(
    func: FunctionType, args: tuple[Any, ...], plan: Plan, force_break: frozenset[int], options: Options, chains: bool
) -> Trace:
    """One evaluation with which the plan agrees.

    A program that asks whether it is compiled goes eager's way, so that its results are eager's, unless the other way
    needs fewer breaks.
    """
    while True:
        try:
            machine, trace = _run(func, args, plan, force_break, options, chains, says_compiling=False)
            if not machine.asked_whether_compiling or not isinstance(trace.end, Broke):
                return trace
            _, other = _run(func, args, plan, force_break, options, chains, says_compiling=True)
            further = not isinstance(other.end, Broke) or _operations(other) > _operations(trace)
            return other if further else trace
        except Replan:
            continue


def _run(
    func: FunctionType, args: tuple[Any, ...], plan: Plan, force_break: frozenset[int], options: Options, chains: bool,
    says_compiling: bool,
) -> tuple[Machine, Trace]:  # fmt: skip
    machine = Machine(func, args, force_break=force_break, mark_of=function_mark, plan=plan,
                      unbacked_sizes=options.fullgraph, chains=chains, says_compiling=says_compiling)  # fmt: skip
    return machine, machine.run()


def _operations(trace: Trace) -> int:
    return sum(node.op != "placeholder" for node in trace.graph.nodes)


def _goes_round(program: Program) -> bool:
    """Whether a resume function starts inside a loop: numbers that it is handed change from turn to turn."""
    if program.resumed is None:
        return False
    root, at = program.resumed.program, program.resumed.at
    follow = successors(root.code)
    return at in reachable(root.code, follow[at])


def _check_seconds(check: Any, func: FunctionType, args: tuple[Any, ...]) -> float:
    """What looking at the guards costs each call: the best of a few."""
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        check.run(func, args)
        best = min(best, time.perf_counter() - started)
    return best


def _first_position(trace: Trace) -> Position:
    for node in trace.graph.nodes:
        origin = node.meta.get("position")
        if node.op != "placeholder" and origin is not None and not origin.callers:
            return origin.position  # type: ignore[no-any-return]
    return NOWHERE


def _ambient_guard(trace: Trace) -> Guard:
    state = (
        (torch.is_grad_enabled, trace.grad_mode[0]),
        (torch.is_inference_mode_enabled, torch.is_inference_mode_enabled()),
        *_autocast_state(),
        (torch._C._len_torch_function_stack, 0),
        (_forward_level, -1),
        (torch._C._len_torch_dispatch_stack, 0),
        (torch.get_default_dtype, torch.get_default_dtype()),
    )
    return Guard(Known(None), "STATE", state)


def _autocast_state() -> tuple[tuple[Any, Any], ...]:
    if not torch._C._is_any_autocast_enabled():
        return ((torch._C._is_any_autocast_enabled, False),)
    return ((ambient.current_autocast, ambient.current_autocast()),)


def _ordered(guards: Sequence[Guard]) -> list[Guard]:
    """The ambient state is looked at first: it costs least and decides most."""
    return sorted(guards, key=lambda guard: guard.kind != "STATE")


def _record_entry(
    program: Program, trace: Trace, graph: GraphRecord | None, built: Any, stages: list[Stage], code: CodeType
) -> CacheEntry:
    end = trace.end
    stop = Break(end.position.line, end.reason, end.detail, end.where) if isinstance(end, Broke) else None
    return CacheEntry(_start_line(program), stop, tuple(trace.guards), built, graph, trace.visited, stages, code)


def _start_line(program: Program) -> int | None:
    """The line where a resume function takes over; None for the function itself."""
    if program.resumed is None:
        return None
    rest = program.resumed.program.body[program.resumed.at :]
    lines = (getattr(item, "position", NOWHERE).line for item in rest)
    return next((line for line in lines if line is not None), None)
