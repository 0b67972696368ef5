"""Calls: a row of the builtins table, a torch function that is recorded as it stands, or what the value itself does."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode

from dynajit import frame, marks, reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate import construction, overrides, torch_calls
from dynajit.evaluate.arguments import is_process_group
from dynajit.evaluate.preview import preview
from dynajit.graph import autocast
from dynajit.graph import meta as metas
from dynajit.guards.explain import current
from dynajit.source import Known
from dynajit.values import ambient
from dynajit.values.base import Handle, Value
from dynajit.values.builtin import BuiltinValue
from dynajit.values.constant import UNKNOWN, Constant, as_plain, is_plain
from dynajit.values.function import FunctionValue, MethodValue, NestedFunction
from dynajit.values.instance import InstanceValue
from dynajit.values.klass import ClassValue
from dynajit.values.module import ModuleValue
from dynajit.values.partial import PartialValue
from dynajit.values.tensor import TensorValue, call_tensor_method

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine

F = TypeVar("F", bound=Callable[..., Any])
BUILTINS: dict[Any, Callable[..., Any]] = {}


def builtin(*functions: Any) -> Callable[[F], F]:
    """Register what a call of a builtin (or of any callable known by identity) does."""

    def register(run: F) -> F:
        for function in functions:
            assert function not in BUILTINS, function
            BUILTINS[function] = run
        return run

    return register


def call(m: Machine, fn: Value, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    fn = _enabled(m, m.realize(fn))
    m.direct = m.direct and isinstance(fn, _RETURN_AS_THEY_ARE)
    target = _target(fn)
    if target is None:
        return fn.call(m, args, kwargs)
    mark = m.mark_of(target)
    if mark is not None:
        return _run_marked(m, mark, target, fn, args, kwargs)
    if overrides.wanted(m, [*args, *kwargs.values()]):
        handled = _by_class(m, target, fn, args, kwargs)
        if handled is not None:
            return handled
    if isinstance(target, types.MethodWrapperType) and len(args) == 1 and target.__name__ == "__get__":
        getter: Any = target.__self__
        return m.getattr(args[0], getter.__name__)  # a getter, as `__torch_function__` is handed it
    row = _row(target)
    if row is not None:
        return _run_row(m, row, fn, args, kwargs)
    if torch_calls.is_method_descriptor(target):
        owner = m.realize(args[0]) if args else None
        if isinstance(owner, TensorValue):
            return call_tensor_method(m, owner, target.__name__, args[1:], kwargs)
    if torch_calls.is_recorded(target) and not (
        isinstance(fn, FunctionValue) and (_is_recast(m, target) or _takes_objects(m, [*args, *kwargs.values()]))
    ):
        return torch_calls.record_function(m, target, args, kwargs)
    if isinstance(fn, ClassValue):
        return construction.construct(m, fn.cls, args, kwargs)
    return fn.call(m, args, kwargs)


def _by_class(m: Machine, target: Any, fn: Value, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """A call with an argument whose class handles PyTorch's functions. None where that makes no difference."""
    if overrides.asks(target):
        return overrides.dispatch(m, target, args, kwargs)
    row = _row(target)
    if ambient.state(m).modes and _may_ask_modes(target, row):
        raise GraphBreak(reasons.USER_CONTEXT, f"{fn.describe()} in a mode of your own")
    if isinstance(fn, FunctionValue) and row is None and torch_calls.is_recorded(target):
        return fn.call(m, args, kwargs)  # it does not ask: what it calls does
    direct = [arg for arg in map(m.realize, args) if isinstance(arg, TensorValue) and overrides.handles(m, arg)]
    asks_itself = row is None or target in _ASK_THEMSELVES or getattr(target, "__module__", "") == "_operator"
    if direct and not asks_itself:
        raise GraphBreak(reasons.TENSOR_KIND, f"{fn.describe()} of {direct[0].describe()}")
    return None


def _may_ask_modes(target: Any, row: Any) -> bool:
    """Whether it is something of PyTorch that the evaluator does without running its Python code."""
    if isinstance(target, types.MethodWrapperType):
        return False
    home = target.__module__ if isinstance(getattr(target, "__module__", None), str) else "torch"
    of_torch = home == "torch" or home.startswith("torch.")
    if isinstance(target, (FunctionType, type)) and row is None and not torch_calls.is_recorded(target):
        return of_torch and isinstance(target, type) and not issubclass(target, (torch.nn.Module, TorchFunctionMode))
    return of_torch and target not in _ASK_THEMSELVES and target not in _MODES


_MODES = frozenset({torch._C._push_on_torch_function_stack, torch._C._pop_torch_function_stack,
                    torch._C._len_torch_function_stack, torch._C._is_torch_function_mode_enabled,
                    torch.overrides.has_torch_function, torch.overrides.has_torch_function_unary,
                    torch.overrides.has_torch_function_variadic})  # fmt: skip


# Functions that look at the type, or whose row asks the class by itself.
_ASK_THEMSELVES = frozenset({isinstance, type, getattr, hasattr, setattr, callable, len, iter, abs, float, int, bool,
                             pow, torch.is_tensor, *overrides.OF_TENSOR})  # fmt: skip


# Kinds whose call returns what the Python function behind it returns.
_RETURN_AS_THEY_ARE = (FunctionValue, NestedFunction, MethodValue, ModuleValue, InstanceValue, PartialValue)


def _run_marked(
    m: Machine, mark: str, target: Any, fn: Value, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """A call that the user has said how to capture."""
    if mark == marks.IN_GRAPH:
        return m.record("call_function", target, tuple(args), dict(kwargs))
    if mark == marks.CONSTANT:
        values = [_real(m, arg) for arg in args]
        named = {name: _real(m, value) for name, value in kwargs.items()}
        with overrides.ENABLED():
            result = frame.with_interception_off(target, *values, **named)
        return Constant(result) if is_plain(result) else m.wrap(result, Known(result))
    raise GraphBreak(reasons.DISABLED, fn.describe())


def _real(m: Machine, value: Value) -> Any:
    """The object behind an argument of a call that is made while capturing."""
    value = m.specialise(m.realize(value))
    known = as_plain(m, value)
    if known is not UNKNOWN:
        return known
    if isinstance(value, TensorValue):
        return preview(m, value.node)
    written = isinstance(value, Handle) and value.key in m.heap.changed()
    if value.source is None or written:
        raise GraphBreak(reasons.DISABLED, f"a constant result that depends on {value.describe()}")
    return current(value.source, m.function, tuple(m.args))


def _enabled(m: Machine, fn: Value) -> Value:
    """The function behind the wrapper of torch.compile, or of one that torch._dynamo puts around some of PyTorch's.

    What the user has kept from being compiled stays a call.
    """
    if not isinstance(fn, FunctionValue):
        return fn
    behind = getattr(fn.fn, "_torchdynamo_orig_callable", None)
    if not isinstance(behind, FunctionType):
        return fn
    known = _row(behind) is not None or torch_calls.is_recorded(behind)
    known = known or (behind.__module__ or "").startswith("torch.optim.")  # kept from another compiler by itself
    if getattr(fn.fn, "_torchdynamo_disable", False) and not known:
        raise GraphBreak(reasons.DISABLED, fn.describe())
    assert fn.source is not None
    m.guard(fn.source, "IS", fn.fn)
    return FunctionValue(behind, source=Known(behind))


def _is_recast(m: Machine, target: Any) -> bool:
    """Whether autocast is on and a Python function may be made of operations that it casts."""
    modes = ambient.state(m).autocast
    return any(on and not autocast.policy(metas.name_of(target), device) for device, (on, _) in modes.items())


def _takes_objects(m: Machine, args: Sequence[Value]) -> bool:
    """Whether a Python function gets what a graph cannot hold: its body is evaluated instead."""
    values = [m.realize(arg) for arg in args]
    objects = (InstanceValue, FunctionValue, NestedFunction, MethodValue)
    return any(isinstance(value, objects) and not is_process_group(value) for value in values)


def _target(fn: Value) -> Any:
    if isinstance(fn, FunctionValue):
        return fn.fn
    if isinstance(fn, BuiltinValue):
        return fn.fn
    if isinstance(fn, ClassValue):
        return fn.cls
    return None


def _row(target: Any) -> Callable[..., Any] | None:
    try:
        return BUILTINS.get(target)
    except TypeError:  # not hashable
        return None


def _run_row(
    m: Machine, row: Callable[..., Any], fn: Value, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    m.direct = False
    values = [m.realize(arg) for arg in args]
    named = {name: m.realize(value) for name, value in kwargs.items()}
    try:
        result = row(m, *values, **named)
    except TypeError as error:
        traceback = error.__traceback__
        if traceback is not None and traceback.tb_next is None:  # the row does not take these arguments
            raise GraphBreak(reasons.NO_OPERATION, f"{fn.describe()} with these arguments") from None
        raise
    return result if isinstance(result, Value) else Constant(result)
