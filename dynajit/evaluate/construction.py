"""Making instances of classes."""

from __future__ import annotations

import enum
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.frame import MISSING
from dynajit.source import Known
from dynajit.values import exception
from dynajit.values.base import Value
from dynajit.values.builtin import OpaqueValue
from dynajit.values.constant import fold
from dynajit.values.container_instance import (
    ContainerInstance,
    builtin_call,
    is_container_class,
    new_container_instance,
)
from dynajit.values.function import FunctionValue
from dynajit.values.instance import InstanceValue, is_modelled, new_instance, raw_attr
from dynajit.values.klass import ClassValue, lookup
from dynajit.values.sequence import TupleValue
from dynajit.values.value_instance import ValueInstance, is_value_class, new_value_instance, value_base

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine


def construct(m: Machine, cls: type, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """`cls(*args, **kwargs)` for a Python class: object.__new__, then __init__."""
    if issubclass(cls, enum.Enum) and len(args) == 1 and not kwargs:
        return fold(m, cls, args)
    if _is_lazy_property(cls) and args and isinstance(first := m.realize(args[0]), FunctionValue):
        return OpaqueValue(cls(first.fn))
    if issubclass(cls, BaseException):
        return exception.construct(m, cls, args, kwargs)
    if issubclass(cls, tuple) and hasattr(cls, "_fields") and cls.__new__.__code__.co_filename.startswith("<"):
        return _named_tuple(m, cls, args, kwargs)
    if cls is types.SimpleNamespace:
        return _namespace(m, args, kwargs)
    own_call = raw_attr(type(cls), "__call__")
    if isinstance(own_call, types.FunctionType):
        lookup(m, type(cls), "__call__")
        owner = ClassValue(cls, source=Known(cls))
        return m.call(FunctionValue(own_call, source=Known(own_call)), [owner, *args], kwargs)
    if own_call is not type.__dict__["__call__"]:
        raise GraphBreak(reasons.OPAQUE_CALL, f"making a {cls.__qualname__}")
    return make(m, cls, args, kwargs)


def make(m: Machine, cls: type, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """`type.__call__(cls, *args, **kwargs)`: `__new__`, and `__init__` of what is an instance of the class."""
    own_new = raw_attr(cls, "__new__")
    if isinstance(own_new, staticmethod) and isinstance(own_new.__func__, types.FunctionType):
        lookup(m, cls, "__new__")
        function = own_new.__func__
        called = [ClassValue(cls, source=Known(cls)), *args]
        made = m.realize(m.call(FunctionValue(function, source=Known(function)), called, kwargs))
        if not issubclass(made.python_type(), cls):
            return made
        if not isinstance(made, InstanceValue):
            raise GraphBreak(reasons.OPAQUE_CALL, f"making a {cls.__qualname__} (__new__)")
        return _initialised(m, made, args, kwargs, by_own_new=True)
    if is_value_class(cls):
        lookup(m, cls, "__new__")
        return _initialised(m, from_value(m, cls, args, kwargs), args, kwargs)
    if own_new is object.__new__ or is_container_class(cls):
        lookup(m, cls, "__new__")
    return _initialised(m, blank(m, cls), args, kwargs)


def from_value(m: Machine, cls: type, args: Sequence[Value], kwargs: Mapping[str, Value]) -> ValueInstance:
    """What `__new__` of tuple, str, int or float makes of a class derived from it."""
    if raw_attr(cls, "__del__") is not MISSING or not is_value_class(cls):
        raise GraphBreak(reasons.OPAQUE_CALL, f"making a {cls.__qualname__}")
    base = value_base(cls)
    return new_value_instance(m, cls, m.realize(m.call(m.wrap(base, Known(base)), args, kwargs)).bare())


def blank(m: Machine, cls: type) -> InstanceValue:
    """What `object.__new__(cls)` makes, or that of the builtin class below it."""
    if raw_attr(cls, "__del__") is not MISSING or getattr(cls, "__abstractmethods__", None):
        raise GraphBreak(reasons.OPAQUE_CALL, f"making a {cls.__qualname__}")
    if is_container_class(cls):
        return new_container_instance(m, cls)
    if cls is not object and not is_modelled(cls):
        raise GraphBreak(reasons.OPAQUE_CALL, f"making a {cls.__qualname__}")
    return new_instance(m, cls)


def _is_lazy_property(cls: type) -> bool:
    """What a lazy property of a distribution is when it is read from the class: it is asked for its type only."""
    return cls.__module__ == "torch.distributions.utils" and cls.__name__ == "_lazy_property_and_property"


def _initialised(
    m: Machine, value: InstanceValue, args: Sequence[Value], kwargs: Mapping[str, Value], *, by_own_new: bool = False
) -> Value:
    """by_own_new: whether a `__new__` of the class took the arguments; then object's `__init__` ignores them."""
    cls = value.cls
    init = lookup(m, cls, "__init__")
    if isinstance(init, types.FunctionType):
        m.call(FunctionValue(init, source=Known(init)), [value, *args], kwargs)
    elif isinstance(value, ValueInstance):
        pass  # `__new__` took the arguments
    elif isinstance(value, ContainerInstance):
        builtin_call(m, value, "__init__", args, kwargs)
    elif (args or kwargs) and not by_own_new:
        raise GraphBreak(reasons.UNCAUGHT, f"TypeError: {cls.__qualname__}() takes no arguments")
    return value


def _namespace(m: Machine, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    if args:
        raise GraphBreak(reasons.OPAQUE_CALL, "making a SimpleNamespace of positional arguments")
    made = new_instance(m, types.SimpleNamespace)
    for name, value in kwargs.items():
        made.put(m, name, value)
    return made


def _named_tuple(m: Machine, cls: type, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """A class made by `collections.namedtuple` or `typing.NamedTuple`."""
    fields: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]
    defaults = cls._field_defaults  # type: ignore[attr-defined]
    given = dict(zip(fields, args, strict=False)) | dict(kwargs)
    for name in fields:
        if name not in given and name in defaults:
            given[name] = m.constant(defaults[name])
    if len(args) > len(fields) or set(given) != set(fields):
        raise GraphBreak(reasons.UNCAUGHT, f"TypeError: {cls.__qualname__}()")
    return TupleValue(tuple(given[name] for name in fields), cls)
