"""Classes, and reading attributes along the MRO with guards that notice a change in any of its classes."""

from __future__ import annotations

import enum
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.frame import MISSING, Dispatcher
from dynajit.source import Call, ClassAttr, Known, Source
from dynajit.values.base import Emitter, Tracer, Value
from dynajit.values.constant import Constant, fold
from dynajit.values.function import FunctionValue, MethodValue
from dynajit.values.wrap import rule

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE, Include/object.h
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE


def lookup(m: Tracer, cls: type, name: str, after: type | None = None) -> Any:
    """What `_PyType_Lookup` finds (MISSING if nothing), guarded by identity. `after`: start behind it (super)."""
    mro = cls.__mro__
    start = mro.index(after) + 1 if after is not None else 0
    found: Any = MISSING
    for base in mro[start:]:
        if after is not None and is_mutable(base):
            m.guard(Known(base), "CLASS_ATTR", _find(base, name), name)
        if name in base.__dict__:
            found = base.__dict__[name]
            break
    if after is None and is_mutable(cls):
        m.guard(Known(cls), "CLASS_ATTR", found, name)
    return found


def _find(cls: type, name: str) -> Any:
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return MISSING


def is_mutable(cls: type) -> bool:
    return bool(cls.__flags__ & _HEAP_TYPE) and not cls.__flags__ & _IMMUTABLE


@dataclass(frozen=True, eq=False)
class ClassValue(Value):
    cls: type

    kind = "class"

    def python_type(self) -> type:
        return type(self.cls)

    def describe(self) -> str:
        return f"class {self.cls.__qualname__}"

    def identity(self) -> Any:
        return ("object", id(self.cls))

    def truth(self, m: Tracer) -> bool:
        return True

    def as_plain(self, m: Tracer) -> Any:
        return self.cls

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        raise GraphBreak(reasons.OPAQUE_CALL, f"making a {self.cls.__qualname__}")

    def getattr(self, m: Tracer, name: str) -> Value:
        cls = self.cls
        if name in ("__name__", "__qualname__", "__module__", "__doc__"):
            return m.constant(getattr(cls, name))
        if name in ("__mro__", "__bases__"):
            classes = getattr(cls, name)
            if is_mutable(cls):
                m.guard(Call(Known(cls), _mro if name == "__mro__" else _bases), "OBJECTS", classes)
            return m.constant(classes)
        if name == "__subclasses__" and type(cls) is type:
            return Subclasses(cls)
        if type(cls) is not type and _find(type(cls), name) is not MISSING and name != "__call__":
            meta = _find(type(cls), name)
            if not hasattr(type, name) and not isinstance(meta, types.FunctionType):
                raise GraphBreak(reasons.NO_OPERATION, f"{self.describe()}.{name} (metaclass)")
        found = lookup(m, cls, name) if not is_data(_find(cls, name)) else _find(cls, name)
        if found is MISSING:
            if hasattr(cls, name):
                raise GraphBreak(reasons.NO_OPERATION, f"{self.describe()}.{name} (metaclass)")
            m.throw(AttributeError, f"type object {cls.__name__!r} has no attribute {name!r}")
        return bind_to_class(m, self, found, name)

    def _is_enum(self) -> bool:
        return issubclass(self.cls, enum.Enum) and type(self.cls) is enum.EnumMeta

    def iterate(self, m: Tracer) -> Value:
        if not self._is_enum():
            self.missing("iteration")
        return m.iterate(m.constant(tuple(self.cls)))  # type: ignore[arg-type]

    def length(self, m: Tracer) -> int:
        if not self._is_enum():
            self.missing("length")
        return len(self.cls)  # type: ignore[arg-type]

    def contains(self, m: Tracer, item: Value) -> bool:
        if not self._is_enum():
            self.missing("`in`")
        members: Any = self.cls
        return bool(fold(m, lambda value: value in members, [item]).truth(m))

    def getitem(self, m: Tracer, key: Value) -> Value:
        if self._is_enum():
            return fold(m, lambda cls, name: cls[name], [self, key])
        found = lookup(m, self.cls, "__class_getitem__")
        annotates = isinstance(found, classmethod) and found.__func__ is types.GenericAlias
        if found is MISSING or (is_mutable(self.cls) and not annotates):
            self.missing("subscript")
        return fold(m, lambda cls, item: cls[item], [self, key])  # an annotation such as list[int]

    def reload(self, emit: Emitter) -> None:
        emit.load_const(self.cls)


@dataclass(frozen=True, eq=False)
class Subclasses(Value):
    """The bound method `cls.__subclasses__`."""

    cls: type

    kind = "method"

    def python_type(self) -> type:
        return types.BuiltinMethodType

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        found = _subclasses(self.cls)
        m.guard(Call(Known(self.cls), _subclasses), "OBJECTS", found)
        return m.constant(list(found))

    def reload(self, emit: Emitter) -> None:
        emit.load_const(self.cls.__subclasses__)


def _subclasses(cls: type) -> tuple[type, ...]:
    return tuple(type.__subclasses__(cls))


def _mro(cls: type) -> tuple[type, ...]:
    return cls.__mro__


def _bases(cls: type) -> tuple[type, ...]:
    return cls.__bases__


def is_data(obj: Any) -> bool:
    """Whether a class attribute is read as it stands (no `__get__`): its value is guarded, not its identity."""
    return obj is not MISSING and not hasattr(type(obj), "__get__")


_AS_THEY_ARE = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
                types.GetSetDescriptorType)  # fmt: skip


def bind_to_class(m: Tracer, owner: ClassValue, found: Any, name: str) -> Value:
    if isinstance(found, staticmethod):
        return m.wrap(found.__func__, Known(found.__func__))
    if isinstance(found, classmethod):
        return MethodValue(m.realize(m.wrap(found.__func__, Known(found.__func__))), owner)
    if isinstance(found, Dispatcher):
        return m.realize(m.wrap(found, Known(found)))
    if isinstance(found, types.FunctionType):
        return FunctionValue(found, source=Known(found))
    if isinstance(found, _AS_THEY_ARE):
        return m.wrap(found, Known(found))
    if isinstance(found, (types.ClassMethodDescriptorType,)):
        bound = getattr(owner.cls, name)  # a new object each time
        return m.wrap(bound, Known(bound))
    if is_data(found):
        return m.wrap(found, ClassAttr(Known(owner.cls), name))
    if isinstance(found, property):
        raise GraphBreak(reasons.NO_OPERATION, f"the property {name} of a class")
    get = _find(type(found), "__get__")
    if isinstance(get, types.FunctionType) and is_mutable(type(found)):
        lookup(m, type(found), "__get__")
        args = [m.wrap(found, Known(found)), Constant(None), owner]
        return m.call(FunctionValue(get, source=Known(get)), args, {})
    raise GraphBreak(reasons.NO_OPERATION, f"the descriptor {owner.cls.__qualname__}.{name}")


@rule(25, lambda obj: isinstance(obj, type))
def wrap_class(m: Tracer, obj: type, source: Source) -> Value:
    m.guard(source, "IS", obj)
    return ClassValue(obj, source=source)
