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
from dynajit.values.dict_instance import DictInstance, builtin_call, is_dict_class, new_dict_instance
from dynajit.values.function import FunctionValue
from dynajit.values.instance import InstanceValue, is_modelled, new_instance, raw_attr
from dynajit.values.klass import lookup
from dynajit.values.sequence import TupleValue

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
    plain_metaclass = raw_attr(type(cls), "__call__") is type.__dict__["__call__"]
    if plain_metaclass and is_dict_class(cls):
        return _initialised(m, new_dict_instance(m, cls), args, kwargs)
    if not plain_metaclass or not is_modelled(cls):
        raise GraphBreak(reasons.OPAQUE_CALL, f"making a {cls.__qualname__}")
    if raw_attr(cls, "__new__") is not object.__new__ or getattr(cls, "__abstractmethods__", None):
        raise GraphBreak(reasons.OPAQUE_CALL, f"making a {cls.__qualname__} (__new__)")
    if raw_attr(cls, "__del__") is not MISSING:
        raise GraphBreak(reasons.OPAQUE_CALL, f"making a {cls.__qualname__} (__del__)")
    lookup(m, cls, "__new__")
    return _initialised(m, new_instance(m, cls), args, kwargs)


def _is_lazy_property(cls: type) -> bool:
    """What a lazy property of a distribution is when it is read from the class: it is asked for its type only."""
    return cls.__module__ == "torch.distributions.utils" and cls.__name__ == "_lazy_property_and_property"


def _initialised(m: Machine, value: InstanceValue, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    cls = value.cls
    init = lookup(m, cls, "__init__")
    if isinstance(init, types.FunctionType):
        m.call(FunctionValue(init, source=Known(init)), [value, *args], kwargs)
    elif isinstance(value, DictInstance):
        builtin_call(m, value, "__init__", args, kwargs)
    elif args or kwargs:
        raise GraphBreak(reasons.UNCAUGHT, f"TypeError: {cls.__qualname__}() takes no arguments")
    return value


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
