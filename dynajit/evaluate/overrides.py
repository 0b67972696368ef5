"""Classes that handle PyTorch's functions themselves (`__torch_function__`): who is asked, and with what.

Which function a call hands over, and which arguments, is asked of PyTorch itself: the call is made on a probe, an
object whose `__torch_function__` tells what it was given. Whom PyTorch asks, in which order, is in torch/overrides.py
(`_get_overloaded_args`) and torch/csrc/utils/python_arg_parser.cpp.
"""

from __future__ import annotations

import contextlib
import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch.overrides import TorchFunctionMode, get_default_nowrap_functions, handle_torch_function

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate import torch_calls
from dynajit.source import Known
from dynajit.values import ambient
from dynajit.values.base import Value
from dynajit.values.constant import Constant, as_plain, is_plain
from dynajit.values.function import FunctionValue, MethodValue
from dynajit.values.instance import InstanceValue
from dynajit.values.klass import ClassValue, lookup
from dynajit.values.mapping import new_dict, pairs
from dynajit.values.sequence import ListValue, TupleValue, new_list
from dynajit.values.subclass import PLAIN, is_loud, is_muted
from dynajit.values.tensor import TensorValue
from dynajit.values.unknown import demand_known

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
ENABLED: Any = torch._C._EnableTorchFunction
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_OF_TENSOR: Any = torch.Tensor.__torch_function__
OF_TENSOR = (_OF_TENSOR.__func__, torch._C._disabled_torch_function_impl)
_ABSENT = object()  # kwargs that were not handed over


class _Asked(Exception):
    """Raised by a probe: what it was asked for."""

    def __init__(self, function: Any, types: tuple[type, ...], args: tuple[Any, ...], kwargs: Any) -> None:
        super().__init__()
        self.function, self.types, self.given, self.named = function, types, args, kwargs


def _tell(function: Any, types: tuple[type, ...], args: tuple[Any, ...], kwargs: Any) -> NoReturn:
    raise _Asked(function, types, args, kwargs)


class _TensorProbe(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = _ABSENT) -> Any:
        _tell(func, types, args, kwargs)


class _ObjectProbe:
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = _ABSENT) -> Any:
        _tell(func, types, args, kwargs)


class _ModeProbe(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = _ABSENT) -> Any:
        _tell(func, types, args, kwargs)


def handles(m: Machine, value: Value) -> bool:
    """Whether the class of this object handles PyTorch's functions in a way of its own."""
    if isinstance(value, TensorValue):
        return value.cls not in PLAIN and is_loud(value.cls)
    return _is_asked(value)


def _is_asked(value: Value) -> bool:
    """Whether PyTorch asks the class of this object, if only to hear what Tensor would do."""
    if isinstance(value, TensorValue):
        return value.cls not in PLAIN and not is_muted(value.cls)
    if not isinstance(value, InstanceValue) or not hasattr(value.cls, "__torch_function__"):
        return False
    return not is_muted(value.cls)


def _each(m: Machine, values: Sequence[Value]) -> Iterator[Value]:
    for value in values:
        value = m.realize(value)
        if isinstance(value.bare(), (TupleValue, ListValue)):
            yield from map(m.realize, m.unpack(value.bare()))
        else:
            yield value


def wanted(m: Machine, values: Sequence[Value]) -> bool:
    """Whether a mode handles PyTorch's functions here, or the class of some object among these does and may."""
    if ambient.state(m).modes:
        return True
    return not ambient.state(m).muted and any(handles(m, value) for value in _each(m, values))


def asks(target: Any) -> bool:
    """Whether PyTorch looks at the classes of what this function is given."""
    if isinstance(target, types.FunctionType):
        names = target.__code__.co_names
        return target.__code__.co_filename.startswith(_TORCH) and "handle_torch_function" in names
    return torch_calls.is_recorded(target) or torch_calls.is_method_descriptor(target)


def _mirrored(classes: Iterable[type]) -> dict[type, type]:
    """A class of probes for each of these, derived from one another as they are."""
    made: dict[type, type] = {}
    for cls in sorted(classes, key=lambda cls: len(cls.__mro__)):
        above = [base for base in cls.__mro__[1:] if base in made]
        bases = [base for base in above if not any(issubclass(other, base) for other in above if other is not base)]
        first = _TensorProbe if issubclass(cls, torch.Tensor) else _ObjectProbe
        made[cls] = type(cls.__name__, tuple(made[base] for base in bases) or (first,), {})
    return made


class _Probes:
    """Arguments for the call that is made to be told of, and the way back."""

    def __init__(self, m: Machine, values: Sequence[Value]) -> None:
        self.m = m
        self.known: dict[int, tuple[Any, Value]] = {}
        asked = [] if ambient.state(m).muted else [value for value in _each(m, values) if _is_asked(value)]
        self.made = _mirrored(dict.fromkeys(value.python_type() for value in asked))
        self.classes = {probe: cls for cls, probe in self.made.items()}

    def real(self, value: Value) -> Any:
        value = self.m.specialise(self.m.realize(value))
        made = self._make(value)
        self.known.setdefault(id(made), (made, value))
        return made

    def _make(self, value: Value) -> Any:
        if isinstance(value, TensorValue):
            return self._tensor(value)
        if isinstance(value, InstanceValue) and value.cls in self.made:
            return self.made[value.cls]()
        if isinstance(value, (TupleValue, ListValue)):
            items = [self.real(item) for item in self.m.unpack(value)]
            return items if isinstance(value, ListValue) else value.cls(items)
        known = as_plain(self.m, value)
        if is_plain(known) or isinstance(known, type):
            return known
        demand_known(value)
        raise GraphBreak(reasons.TENSOR_KIND, f"{value.describe()} beside a class that handles PyTorch's functions")

    def _tensor(self, value: TensorValue) -> torch.Tensor:
        if value.cls is torch.nn.Parameter:
            return torch.nn.Parameter(value.meta.detach(), value.meta.requires_grad)
        return value.meta.as_subclass(self.made[value.cls]) if value.cls in self.made else value.meta

    def value(self, obj: Any) -> Value:
        """The value behind an argument that was handed over."""
        found = self.known.get(id(obj))
        if found is not None:
            return found[1]
        if isinstance(obj, tuple):
            return TupleValue(tuple(map(self.value, obj)), type(obj))
        if isinstance(obj, list):
            return new_list(self.m, [self.value(item) for item in obj])
        if isinstance(obj, torch.Tensor) or not is_plain(obj):
            raise GraphBreak(reasons.TENSOR_KIND, f"an argument that PyTorch made, {type(obj).__name__}")
        return self.m.constant(obj)


def dispatch(
    m: Machine, call: Callable[..., Any] | str, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value | None:
    """What modes and the classes of the arguments make of `call(*args, **kwargs)`; None if PyTorch asks nobody.

    call: a function, or the name of a method of the first argument.
    """
    probes = _Probes(m, [*args, *kwargs.values()])
    real, named = [probes.real(arg) for arg in args], {name: probes.real(value) for name, value in kwargs.items()}
    modes = ambient.state(m).modes
    instr = m.frame.instr
    spread = instr.op == "CALL_FUNCTION_EX" and bool(instr.arg & 1)
    asked = _asked_for(call, real, named if named or spread else None, bool(modes))
    if asked is None:
        return None
    if not _is_direct(asked):
        raise GraphBreak(reasons.TENSOR_KIND, f"{asked.function} inside another function of PyTorch")
    function = m.realize(m.wrap(asked.function, Known(asked.function)))
    classes = [probes.classes.get(cls, cls) for cls in asked.types]
    handed: list[Value] = [
        function,
        TupleValue(tuple(ClassValue(cls, source=Known(cls)) for cls in classes)),
        TupleValue(tuple(map(probes.value, asked.given))),
    ]
    if asked.named is not _ABSENT:
        handed.append(new_dict(m, [(Constant(name), probes.value(item)) for name, item in asked.named.items()]))
    m.direct = False
    if modes:
        result = _by_mode(m, modes, handed)
        if not _is_refusal(result):
            return result
    for cls in classes:
        result = m.realize(m.call(_handler(m, cls), handed, {}))
        if not _is_refusal(result):
            return result
    raise GraphBreak(reasons.UNCAUGHT, f"TypeError: no implementation of {asked.function} for these classes")


def _asked_for(
    call: Callable[..., Any] | str, args: Sequence[Any], kwargs: Mapping[str, Any] | None, mode: bool
) -> _Asked | None:
    """kwargs: None where the program hands over none; after `**{}` PyTorch hands on an empty dict."""
    try:
        with ENABLED(), _ModeProbe() if mode else contextlib.nullcontext():
            function = getattr(args[0], call) if isinstance(call, str) else call
            given = args[1:] if isinstance(call, str) else args
            function(*given) if kwargs is None else function(*given, **kwargs)
    except _Asked as found:
        return found
    except Exception as error:
        raise GraphBreak(reasons.META_FAILED, f"{str(error).splitlines()[:1]}") from None
    return None


def _by_mode(m: Machine, modes: tuple[Value, ...], handed: Sequence[Value]) -> Value:
    """What the innermost mode says. While it does, those around it are asked (csrc/utils/python_arg_parser.cpp)."""
    mode = m.realize(modes[-1])
    method = mode.method(m, "__torch_function__") if isinstance(mode, InstanceValue) else None
    if method is None:
        raise GraphBreak(reasons.TENSOR_KIND, f"the mode {mode.describe()}")
    set_modes(m, modes[:-1])
    try:
        return m.realize(m.call(method, [mode, *handed], {}))
    finally:
        set_modes(m, modes)


def set_modes(m: Machine, modes: tuple[Value, ...]) -> None:
    m.heap.put(ambient.KEY, replace(ambient.state(m), modes=modes))


def _is_refusal(result: Value) -> bool:
    return isinstance(result, Constant) and result.value is NotImplemented


def _is_direct(asked: _Asked) -> bool:
    """Whether it is the function that was called which asks, not one that it calls."""
    entry, names = asked.__traceback__, []
    while entry is not None:
        names.append(entry.tb_frame.f_code)
        entry = entry.tb_next
    inside = [code for code in names if not code.co_filename.startswith(_OWN)]
    return not inside or (len(inside) == 2 and inside[1] is handle_torch_function.__code__)


def _handler(m: Machine, cls: type) -> Value:
    raw = lookup(m, cls, "__torch_function__")
    if isinstance(raw, classmethod) and isinstance(raw.__func__, types.FunctionType):
        function = raw.__func__
        return MethodValue(FunctionValue(function, source=Known(function)), ClassValue(cls, source=Known(cls)))
    if isinstance(raw, staticmethod) and isinstance(raw.__func__, types.FunctionType):
        return FunctionValue(raw.__func__, source=Known(raw.__func__))
    raise GraphBreak(reasons.TENSOR_KIND, f"{cls.__qualname__}.__torch_function__ that is not a class method")


def of_tensor(
    m: Machine, cls: ClassValue, function: Value, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """`Tensor.__torch_function__`: the function, and what it returns made one of the class (torch/_tensor.py)."""
    before = ambient.state(m).muted
    _mute(m, True)
    try:
        result = m.call(function, args, kwargs)
        plain_function = getattr(function, "fn", None)
        if plain_function in get_default_nowrap_functions():
            return result
        return _converted(m, m.realize(result), cls)
    finally:
        _mute(m, before)


def _mute(m: Machine, muted: bool) -> None:
    if ambient.state(m).muted != muted:
        m.heap.put(ambient.KEY, replace(ambient.state(m), muted=muted))


def _converted(m: Machine, result: Value, cls: ClassValue) -> Value:
    if cls.cls is torch.Tensor:
        return result
    demand_known(result)
    if isinstance(result, TensorValue) and not issubclass(result.cls, cls.cls):
        return m.as_subclass(result, cls)
    if isinstance(result, (TupleValue, ListValue)):
        items = [_converted(m, m.realize(item), cls) for item in m.unpack(result)]
        return new_list(m, items) if isinstance(result, ListValue) else TupleValue(tuple(items), result.cls)
    return result


def named_arguments(m: Machine, kwargs: Value | None) -> dict[str, Value]:
    """A dict of arguments, which may be None."""
    if kwargs is None or (isinstance(kwargs, Constant) and kwargs.value is None):
        return {}
    found = {as_plain(m, key): value for key, value in pairs(m, kwargs)}
    if not all(isinstance(name, str) for name in found):
        raise GraphBreak(reasons.TENSOR_KIND, "arguments of __torch_function__ without names")
    return found
