"""Instances of Python classes derived from tuple, str, int or float: attributes, and what the builtin class holds."""

from __future__ import annotations

import enum
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.source import Call, Item, Known, Source
from dynajit.values.base import Emitter, Tracer, Value
from dynajit.values.constant import UNKNOWN, Constant, as_plain
from dynajit.values.container_instance import ContainerInstance, fill_attributes
from dynajit.values.instance import raw_attr
from dynajit.values.klass import ClassValue, is_mutable
from dynajit.values.sequence import TupleValue
from dynajit.values.wrap import rule

VALUES = (tuple, str, int, float)
NOTHING = Constant(None)

# Special methods of a class that no builtin function calls on an instance that is there already.
_OF_MAKING = frozenset(
    {"__new__", "__init__", "__init_subclass__", "__class_getitem__", "__reduce__", "__getnewargs__"}
)


@dataclass(frozen=True, eq=False)
class ValueInstance(ContainerInstance):
    """storage: the tuple, the text or the number, as the methods of the builtin class see it. It cannot change."""

    storage: Value = NOTHING  # type: ignore[assignment]

    def bare(self) -> Value:
        return self.storage

    def truth(self, m: Tracer) -> bool:
        if self.method(m, "__bool__") is not None or self.method(m, "__len__") is not None:
            return super().truth(m)
        return m.is_true(self.storage)

    def length(self, m: Tracer) -> int:
        self._demand_items(m, "__len__", "length")
        return super().length(m)

    def contains(self, m: Tracer, item: Value) -> bool:
        self._demand_items(m, "__contains__", "`in`")
        return super().contains(m, item)

    def _demand_items(self, m: Tracer, name: str, operation: str) -> None:
        """Numbers have none, and the error names their class."""
        if issubclass(self.cls, (int, float)) and self.method(m, name) is None:
            self.missing(operation)

    def iterate(self, m: Tracer) -> Value:
        self._demand_items(m, "__iter__", "iteration")
        return m.iterate(self._own(m, "__iter__") or self.storage)

    def getitem(self, m: Tracer, key: Value) -> Value:
        return self._own(m, "__getitem__", key) or self.storage.getitem(m, key)

    def as_plain(self, m: Tracer) -> Any:
        """An object of the class, for builtin functions: where they would call methods of the class, none."""
        if has_own_specials(self.cls):
            return UNKNOWN
        value = as_plain(m, self.storage)
        if self.obj is not None and value is not UNKNOWN:
            return self.obj
        return UNKNOWN if value is UNKNOWN or self.overlay(m) else made(self.cls, value)

    def reload(self, emit: Emitter) -> None:
        emit.call(made, ClassValue(self.cls), self.storage)
        fill_attributes(emit, self)


def made(cls: type, value: Any) -> Any:
    base: Any = value_base(cls)
    return base.__new__(cls, value)


def value_base(cls: type) -> type:
    return next(base for base in VALUES if issubclass(cls, base))


def is_value_class(cls: type) -> bool:
    """A Python class with one of these as its only builtin base, whose special methods are Python functions."""
    if cls in VALUES or not issubclass(cls, VALUES) or not is_mutable(cls) or issubclass(cls, enum.Enum):
        return False
    base = value_base(cls)
    if hasattr(cls, "_fields") or raw_attr(cls, "__getattribute__") is not raw_attr(base, "__getattribute__"):
        return False
    derived = [part for part in cls.__mro__ if part not in base.__mro__]
    return all(is_mutable(part) and all(_fits(base, *entry) for entry in vars(part).items()) for part in derived)


def _fits(base: type, name: str, found: Any) -> bool:
    if name in _NO_METHODS or not _is_special(name):
        return True
    if name == "__new__":
        return isinstance(found, staticmethod) and isinstance(found.__func__, types.FunctionType)
    return isinstance(found, types.FunctionType) or not callable(raw_attr(base, name))


_NO_METHODS = frozenset({"__init_subclass__", "__class_getitem__", "__doc__", "__module__", "__dict__", "__slots__"})


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def has_own_specials(cls: type) -> bool:
    base = value_base(cls)
    return any(
        _is_special(name) and name not in _OF_MAKING and isinstance(found, types.FunctionType)
        for part in cls.__mro__
        if part not in base.__mro__
        for name, found in vars(part).items()
    )


def new_value_instance(m: Tracer, cls: type, storage: Value) -> ValueInstance:
    key = m.new_key()
    m.heap.new(key, {}, existing=False)
    return ValueInstance(key, cls, storage=storage)


def builtin_value_call(
    m: Tracer, owner: ValueInstance, name: str, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """A method of the builtin class called on the instance, as `super().__add__(other)` does."""
    storage = owner.storage
    others = [m.realize(arg).bare() for arg in args]
    if name == "__init__":
        return Constant(None)
    if (name in _ARITHMETIC or name in _COMPARE) and len(others) == 1:
        return _directly(m, storage, name, others[0])
    act = _SPECIAL.get(name)
    if act is not None:
        return act(m, storage, *others)
    if _is_special(name):
        method = raw_attr(value_base(owner.cls), name)
        return m.folded(lambda *values: method(*values), [storage, *others], kwargs)
    return m.call(m.getattr(storage, name), args if isinstance(storage, TupleValue) else others, kwargs)


def arithmetic(m: Tracer, left: Value, name: str, right: Value) -> Value:
    """What the special method of a builtin class says, NotImplemented too. Sequences are joined by no such method."""
    symbol = _ARITHMETIC.get(name)
    numbers = all(issubclass(value.python_type(), (int, float)) for value in (left, right))
    texts = left.python_type() is str and symbol == "%" and not name.startswith("__r")
    if symbol is None or not (numbers or texts):
        return Constant(NotImplemented)
    if numbers and left.python_type() is int and right.python_type() is float:
        return Constant(NotImplemented)
    if name.startswith("__r"):
        left, right = right, left
    return m.binary(symbol, left, right)


def _directly(m: Tracer, storage: Value, name: str, other: Value) -> Value:
    """`super().__add__(other)` and its like, where the builtin class takes the other."""
    symbol = _ARITHMETIC.get(name) or _COMPARE[name]
    numbers = all(issubclass(value.python_type(), (int, float)) for value in (storage, other))
    if not numbers and storage.python_type() is not other.python_type() and symbol not in ("*", "%"):
        raise GraphBreak(reasons.NO_OPERATION, f"{name} of {storage.describe()} and {other.describe()}")
    if numbers and storage.python_type() is int and other.python_type() is float:
        return Constant(NotImplemented)
    left, right = (other, storage) if name.startswith("__r") else (storage, other)
    return m.compare(symbol, left, right) if name in _COMPARE else m.binary(symbol, left, right)


_COMPARE = {"__eq__": "==", "__ne__": "!=", "__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}
_ARITHMETIC: dict[str, str] = {}
for _name, _symbol in {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
                       "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>"}.items():  # fmt: skip
    _ARITHMETIC[f"__{_name}__"] = _ARITHMETIC[f"__r{_name}__"] = _symbol

_SPECIAL: dict[str, Callable[..., Value]] = {
    "__iter__": lambda m, storage: m.iterate(storage),
    "__getitem__": lambda m, storage, key: storage.getitem(m, key),
    "__len__": lambda m, storage: Constant(storage.length(m)),
    "__contains__": lambda m, storage, item: Constant(storage.contains(m, item)),
    "__bool__": lambda m, storage: Constant(m.is_true(storage)),
    "__index__": lambda m, storage: storage,
}
for _function, _special in ((operator.neg, "__neg__"), (abs, "__abs__"), (int, "__int__"), (float, "__float__")):
    _SPECIAL[_special] = lambda m, storage, fn=_function: m.call(m.wrap(fn, Known(fn)), [storage], {})


@rule(44, lambda obj: is_value_class(type(obj)))
def wrap_value_instance(m: Tracer, obj: Any, source: Source) -> Value:
    known = m.known_handle(obj, source)
    if known is not None:
        return known
    m.guard(source, "TYPE_IS", type(obj))
    if isinstance(obj, tuple):
        size = tuple.__len__(obj)
        m.guard(source, "LENGTH", size)
        items = tuple(m.wrap(tuple.__getitem__(obj, i), Item(source, i)) for i in range(size))
        storage: Value = TupleValue(items)
    else:
        value = _PLAINLY[value_base(type(obj))]
        storage = m.realize(m.wrap(value(obj), Call(source, value)))
    key = m.new_key()
    m.heap.new(key, {}, existing=True)
    wrapped = ValueInstance(key, type(obj), obj, storage, source=source)
    m.remember_handle(obj, wrapped)
    return wrapped


def text_of(obj: str) -> str:
    return str.__str__(obj)


def int_of(obj: int) -> int:
    return int.__int__(obj)


def float_of(obj: float) -> float:
    return float.__float__(obj)


_PLAINLY: dict[type, Callable[[Any], Any]] = {str: text_of, int: int_of, float: float_of}
