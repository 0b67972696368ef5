"""`str`, `repr` and `format` of values, by the methods of their classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.frame import MISSING
from dynajit.source import Known
from dynajit.values.base import Value
from dynajit.values.constant import Constant, fold, is_known, plain
from dynajit.values.container_instance import ContainerInstance
from dynajit.values.exception import ExceptionValue
from dynajit.values.function import FunctionValue
from dynajit.values.instance import InstanceValue, raw_attr
from dynajit.values.klass import lookup
from dynajit.values.mapping import DictValue
from dynajit.values.sequence import ListValue, TupleValue
from dynajit.values.tensor import TensorValue
from dynajit.values.value_instance import ValueInstance

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine

_RUNNING: list[Any] = []  # the objects whose repr is being made: one that contains itself shows as dots


def text(m: Machine, value: Value) -> Value:
    """`str(value)`."""
    value = m.realize(value)
    if isinstance(value, ExceptionValue):
        return value.text(m)
    if not isinstance(value, InstanceValue) or isinstance(value, TensorValue):
        return represented(m, value) if isinstance(value, _CONTAINERS) else _folded(m, str, value)
    own = _own(m, value, "__str__")
    if own is not None:
        return _certainly(m, m.call(own, [value], {}), value)
    if isinstance(value, ValueInstance) and issubclass(value.cls, str):
        return value.storage
    return represented(m, value)


def represented(m: Machine, value: Value) -> Value:
    """`repr(value)`."""
    value = m.realize(value)
    if isinstance(value, InstanceValue) and not isinstance(value, TensorValue):
        return _of_instance(m, value)
    if isinstance(value, _CONTAINERS) and not is_known(m, value):
        return _of_items(m, value)
    return _folded(m, repr, value)


def formatted(m: Machine, value: Value, spec: Value | None) -> Value:
    """`format(value, spec)`."""
    value = m.realize(value)
    empty = spec is None or plain(m, spec) == ""
    if isinstance(value, InstanceValue) and not isinstance(value, TensorValue):
        own = _own(m, value, "__format__")
        if own is not None:
            return _certainly(m, m.call(own, [value, spec or Constant("")], {}), value)
        if isinstance(value, ValueInstance) and not issubclass(value.cls, tuple) and not empty:
            return fold(m, format, [value.storage, spec or Constant("")])
    elif not isinstance(value, (*_CONTAINERS, ExceptionValue)) or is_known(m, value):
        return fold(m, format, [value, spec or Constant("")])
    if not empty:
        m.throw(TypeError, f"unsupported format string passed to {value.python_type().__name__}.__format__")
    return text(m, value)


def converted(m: Machine, how: int, value: Value) -> Value:
    """The conversion of an f-string: 1 is !s, 2 is !r, 3 is !a."""
    if how in (0, 1):
        return text(m, value) if how else value
    made = represented(m, value)
    return made if how == 2 else fold(m, lambda shown: shown.encode("ascii", "backslashreplace").decode(), [made])


_CONTAINERS = (ListValue, TupleValue, DictValue)


def _folded(m: Machine, function: Callable[..., str], value: Value) -> Value:
    if isinstance(value, TensorValue):
        raise GraphBreak(reasons.TENSOR_DATA, f"the text of {value.describe()}")
    return fold(m, function, [value])


def _own(m: Machine, value: InstanceValue, name: str) -> Value | None:
    """The class's own method; None: that of object or of the builtin class below."""
    found = raw_attr(value.cls, name)
    method = value.method(m, name)
    if method is None and found is not MISSING and found not in _BUILTIN:
        raise GraphBreak(reasons.NO_OPERATION, f"{name} of {value.describe()}")
    return method


_BUILTIN = frozenset(
    raw_attr(cls, name)
    for cls in (object, list, dict, tuple, str, int, float)
    for name in ("__repr__", "__str__", "__format__")
)


def _certainly(m: Machine, made: Value, value: Value) -> Value:
    made = m.realize(made)
    if not issubclass(made.python_type(), str):
        raise GraphBreak(reasons.NO_OPERATION, f"the text of {value.describe()}")
    return made


def _of_instance(m: Machine, value: InstanceValue) -> Value:
    method = _own(m, value, "__repr__")
    if method is not None:
        raw = raw_attr(value.cls, "__repr__")
        if _guards_recursion(raw):
            lookup(m, value.cls, "__repr__")
            return _once(m, value, "...", lambda: m.call(_function(raw.__wrapped__), [value], {}))
        return _certainly(m, m.call(method, [value], {}), value)
    if isinstance(value, ContainerInstance) and raw_attr(value.cls, "__repr__") is not object.__repr__:
        return represented(m, value.storage)
    raise GraphBreak(reasons.NO_OPERATION, f"the text of {value.describe()}")  # it has the address


def _guards_recursion(raw: Any) -> bool:
    """Whether it is a repr as `dataclasses` makes it: a function in a wrapper that notes who is asked."""
    wrapped = getattr(raw, "__wrapped__", None)
    return isinstance(wrapped, FunctionType) and raw.__globals__.get("__name__") in ("dataclasses", "reprlib")


def _function(function: FunctionType) -> FunctionValue:
    return FunctionValue(function, source=Known(function))


def _once(m: Machine, value: Value, dots: str, act: Callable[[], Value]) -> Value:
    identity = value.identity()
    if identity in _RUNNING:
        return Constant(dots)
    _RUNNING.append(identity)
    try:
        return act()
    finally:
        _RUNNING.pop()


def _of_items(m: Machine, value: Value) -> Value:
    if isinstance(value, TupleValue):
        return _of_tuple(m, value)
    if raw_attr(value.python_type(), "__repr__") not in (list.__repr__, dict.__repr__):
        raise GraphBreak(reasons.NO_OPERATION, f"the text of {value.describe()}")
    if isinstance(value, ListValue):
        return _once(m, value, "[...]", lambda: _joined(m, "[", value.items_now(m), "]"))
    assert isinstance(value, DictValue)
    return _once(m, value, "{...}", lambda: _of_dict(m, value))


def _of_tuple(m: Machine, value: TupleValue) -> Value:
    if value.cls is not tuple:
        raise GraphBreak(reasons.NO_OPERATION, f"the text of {value.describe()}")
    return _joined(m, "(", value.items, ",)" if len(value.items) == 1 else ")")


def _of_dict(m: Machine, value: DictValue) -> Value:
    pairs = [_joined(m, "", pair, "", ": ") for pair in value.items_now(m).values()]
    return fold(m, lambda *texts: "{" + ", ".join(texts) + "}", pairs)


def _joined(m: Machine, head: str, items: Sequence[Value], tail: str, between: str = ", ") -> Value:
    shown = [represented(m, item) for item in items]
    return fold(m, lambda *texts: head + between.join(texts) + tail, shown)
