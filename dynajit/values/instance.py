"""Instances of Python classes: attribute lookup as object.__getattribute__ does it, with guards on each step."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from dynajit import reasons
from dynajit.errors import GraphBreak, Raised
from dynajit.frame import MISSING, Dispatcher
from dynajit.source import ClassAttr, DictOf, InstanceAttr, Known, SlotAttr, Source
from dynajit.values.base import Emitter, Handle, Tracer, Value
from dynajit.values.constant import Constant, plain
from dynajit.values.function import FunctionValue, MethodValue
from dynajit.values.klass import ClassValue, is_data, is_mutable, lookup
from dynajit.values.mapping import DictValue, new_dict, pairs
from dynajit.values.wrap import rule

DELETED = Constant("<deleted>")
_MEMBER = types.MemberDescriptorType


@dataclass(frozen=True, eq=False)
class InstanceValue(Handle):
    """obj: the real object, None for one made inside the frame. Contents: attributes set or read, by name."""

    cls: type
    obj: Any = None

    kind = "instance"

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        where = f"{self.source.text}, " if self.source is not None else ""
        return f"{where}a {self.cls.__qualname__}"

    def overlay(self, m: Tracer) -> dict[str, Value]:
        found: dict[str, Value] = m.heap[self.key]
        return found

    # ---- reading ------------------------------------------------------------------------------------------------
    def getattr(self, m: Tracer, name: str) -> Value:
        found = self._found(m, name)
        if found is not None:
            return found
        fallback = self._class_function(m, "__getattr__")
        if fallback is not None:
            return m.call(fallback, [self, Constant(name)], {})
        m.throw(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")

    def _found(self, m: Tracer, name: str) -> Value | None:
        """The attribute as the class's own `__getattribute__` (if it has one) finds it."""
        own = raw_attr(self.cls, "__getattribute__")
        if not isinstance(own, types.FunctionType):
            return self.lookup(m, name)
        lookup(m, self.cls, "__getattribute__")
        try:
            return m.call(FunctionValue(own, source=Known(own)), [self, Constant(name)], {})
        except Raised as error:
            if issubclass(error.value.python_type(), AttributeError):
                return None
            raise

    def lookup(self, m: Tracer, name: str) -> Value | None:
        """The attribute as `object.__getattribute__` finds it, or None."""
        if name == "__class__":
            return m.wrap(self.cls, Known(self.cls))
        if name == "__dict__":
            return InstanceDict(self)
        raw = raw_attr(self.cls, name)
        if raw is not MISSING and not is_data(raw):
            lookup(m, self.cls, name)
        if isinstance(raw, property):
            if raw.fget is None:
                m.throw(AttributeError, f"property {name!r} of {self.cls.__name__!r} object has no getter")
            return m.call(m.wrap(raw.fget, Known(raw.fget)), [self], {})
        if isinstance(raw, _MEMBER):
            return self._slot(m, name)
        if hasattr(type(raw), "__set__") and raw is not MISSING:
            raise GraphBreak(reasons.NO_OPERATION, f"the descriptor {self.cls.__qualname__}.{name}")
        own = self.own(m, name)
        if own is not None:
            return own
        if raw is MISSING:
            lookup(m, self.cls, name)
            return None
        return self.bind(m, raw, name)

    def own(self, m: Tracer, name: str) -> Value | None:
        """The entry of the instance's dict, or None."""
        overlay = self.overlay(m)
        if name in overlay:
            return None if overlay[name] is DELETED else overlay[name]
        if self.obj is None:
            return None
        assert self.source is not None
        namespace = getattr(self.obj, "__dict__", None)
        if namespace is not None and name in namespace:
            return m.wrap(namespace[name], InstanceAttr(self.source, name))
        if namespace is not None:
            m.guard(self.source, "INSTANCE_ABSENT", None, name)
        return None

    def _slot(self, m: Tracer, name: str) -> Value | None:
        overlay = self.overlay(m)
        if name in overlay:
            return None if overlay[name] is DELETED else overlay[name]
        if self.obj is None:
            return None
        assert self.source is not None
        source = SlotAttr(self.source, name)
        try:
            return m.wrap(getattr(self.obj, name), source)
        except AttributeError:
            m.guard(source, "ABSENT")
            return None

    def bind(self, m: Tracer, raw: Any, name: str) -> Value:
        """A class attribute seen through the instance."""
        if isinstance(raw, Dispatcher):  # a compiled method is evaluated like any other
            raw = raw.__wrapped__
        if isinstance(raw, types.FunctionType):
            return MethodValue(FunctionValue(raw, source=Known(raw)), self)
        if isinstance(raw, staticmethod):
            return m.wrap(raw.__func__, Known(raw.__func__))
        if isinstance(raw, classmethod):
            owner = ClassValue(self.cls, source=Known(self.cls))
            return MethodValue(m.realize(m.wrap(raw.__func__, Known(raw.__func__))), owner)
        if isinstance(raw, functools.cached_property):
            value = m.call(m.wrap(raw.func, Known(raw.func)), [self], {})
            self.put(m, name, value)
            return value
        if isinstance(raw, (types.MethodDescriptorType, types.WrapperDescriptorType, functools._lru_cache_wrapper)):
            return MethodValue(m.realize(m.wrap(raw, Known(raw))), self)
        if isinstance(raw, types.BuiltinFunctionType):
            return m.wrap(raw, Known(raw))
        if is_data(raw):
            return m.wrap(raw, ClassAttr(Known(self.cls), name))
        get = raw_attr(type(raw), "__get__")
        if isinstance(get, types.FunctionType) and is_modelled(type(raw)):
            lookup(m, type(raw), "__get__")
            owner = ClassValue(self.cls, source=Known(self.cls))
            return m.call(FunctionValue(get, source=Known(get)), [m.wrap(raw, Known(raw)), self, owner], {})
        raise GraphBreak(reasons.NO_OPERATION, f"the descriptor {self.cls.__qualname__}.{name}")

    def _class_function(self, m: Tracer, name: str) -> Value | None:
        raw = raw_attr(self.cls, name)
        if raw is MISSING:
            lookup(m, self.cls, name)
            return None
        if not isinstance(raw, types.FunctionType):
            return None
        lookup(m, self.cls, name)
        return FunctionValue(raw, source=Known(raw))

    # ---- writing ------------------------------------------------------------------------------------------------
    def setattr(self, m: Tracer, name: str, value: Value) -> None:
        own = raw_attr(self.cls, "__setattr__")
        if isinstance(own, types.FunctionType):
            lookup(m, self.cls, "__setattr__")
            m.call(FunctionValue(own, source=Known(own)), [self, Constant(name), value], {})
            return
        self.store(m, name, value)

    def store(self, m: Tracer, name: str, value: Value) -> None:
        """As `object.__setattr__`."""
        raw = lookup(m, self.cls, name)
        if isinstance(raw, property):
            if raw.fset is None:
                m.throw(AttributeError, f"property {name!r} of {self.cls.__name__!r} object has no setter")
            m.call(m.wrap(raw.fset, Known(raw.fset)), [self, value], {})
            return
        if raw is not MISSING and hasattr(type(raw), "__set__") and not isinstance(raw, _MEMBER):
            raise GraphBreak(reasons.NO_OPERATION, f"the descriptor {self.cls.__qualname__}.{name}")
        if self.cls.__dictoffset__ == 0 and not isinstance(raw, _MEMBER):
            self._refuse(m, name)
        self.put(m, name, value)

    def _refuse(self, m: Tracer, name: str) -> NoReturn:
        """Without a dict there is no other attribute than those of the slots; Python's own words for it."""
        try:
            object.__setattr__(_blank(self.cls), name, None)
        except AttributeError as error:
            m.throw(AttributeError, *error.args)
        self.missing(f"setting attribute {name!r}")

    def put(self, m: Tracer, name: str, value: Value) -> None:
        m.heap.put(self.key, {**self.overlay(m), name: value})

    def delattr(self, m: Tracer, name: str) -> None:
        if isinstance(raw_attr(self.cls, "__delattr__"), types.FunctionType):
            raise GraphBreak(reasons.NO_OPERATION, f"__delattr__ of {self.describe()}")
        if self.lookup(m, name) is None:
            m.throw(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        self.put(m, name, DELETED)

    # ---- protocols ------------------------------------------------------------------------------------------------
    def method(self, m: Tracer, name: str) -> Value | None:
        """A special method, looked up on the class as Python does."""
        return self._class_function(m, name)

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        method = self.method(m, "__call__")
        if method is None:
            raise GraphBreak(reasons.OPAQUE_CALL, self.describe())
        return m.call(method, [self, *args], kwargs)

    def _special(self, m: Tracer, name: str, operation: str, *args: Value) -> Value:
        method = self.method(m, name)
        if method is None:
            self.missing(operation)
        return m.call(method, [self, *args], {})

    def getitem(self, m: Tracer, key: Value) -> Value:
        return self._special(m, "__getitem__", "subscript", key)

    def setitem(self, m: Tracer, key: Value, value: Value) -> None:
        self._special(m, "__setitem__", "setting an item", key, value)

    def delitem(self, m: Tracer, key: Value) -> None:
        self._special(m, "__delitem__", "deleting an item", key)

    def length(self, m: Tracer) -> int:
        result = m.realize(self._special(m, "__len__", "length"))
        if not isinstance(result, Constant):
            self.missing("length")
        return int(result.value)

    def contains(self, m: Tracer, item: Value) -> bool:
        return m.is_true(self._special(m, "__contains__", "`in`", item))

    def truth(self, m: Tracer) -> bool:
        method = self.method(m, "__bool__")
        if method is not None:
            return m.is_true(m.call(method, [self], {}))
        if self.method(m, "__len__") is not None:
            return self.length(m) > 0
        if raw_attr(self.cls, "__bool__") is not MISSING or raw_attr(self.cls, "__len__") is not MISSING:
            self.missing("truth")
        return True

    def iterate(self, m: Tracer) -> Value:
        if self.method(m, "__iter__") is None and self.method(m, "__getitem__") is not None:
            self.missing("iteration by __getitem__")
        return m.realize(self._special(m, "__iter__", "iteration"))  # as it is: an iterator

    def next(self, m: Tracer) -> Value | None:
        raise GraphBreak(reasons.NO_OPERATION, f"__next__ of {self.describe()}")

    def reload(self, emit: Emitter) -> None:
        """object.__new__ and the attributes, set without running user code."""
        emit.call(_blank, ClassValue(self.cls))
        overlay = dict(emit.heap[self.key])

        def fill() -> None:
            for name, value in overlay.items():
                if value is not DELETED:
                    emit.call(set_attribute, self, value, Constant(name))
                    emit.instruction("POP_TOP")

        emit.later(fill)


def _blank(cls: type) -> Any:
    return types.SimpleNamespace() if cls is types.SimpleNamespace else object.__new__(cls)


def set_attribute(obj: Any, value: Any, name: str) -> None:
    object.__setattr__(obj, name, value)


def raw_attr(cls: type, name: str) -> Any:
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return MISSING


def new_instance(m: Tracer, cls: type) -> InstanceValue:
    key = m.new_key()
    m.heap.new(key, {}, existing=False)
    return InstanceValue(key, cls)


def is_modelled(cls: type) -> bool:
    """Whether instances are laid out as Python classes do: no C type below, plain attribute access."""
    if cls is types.SimpleNamespace:
        return True
    own = raw_attr(cls, "__getattribute__")
    if not is_mutable(cls) or not (own is object.__getattribute__ or isinstance(own, types.FunctionType)):
        return False
    return all(base is object or is_mutable(base) for base in cls.__mro__)


@dataclass(frozen=True, eq=False)
class InstanceDict(Value):
    """`instance.__dict__`, read and written by name."""

    owner: InstanceValue

    kind = "instance dict"

    def python_type(self) -> type:
        return dict

    def getitem(self, m: Tracer, key: Value) -> Value:
        found = self.owner.own(m, str(plain(m, key)))
        if found is None:
            m.throw(KeyError, key)
        return found

    def setitem(self, m: Tracer, key: Value, value: Value) -> None:
        self.owner.put(m, str(plain(m, key)), value)

    def contains(self, m: Tracer, item: Value) -> bool:
        return self.owner.own(m, str(plain(m, item))) is not None

    def entries(self, m: Tracer) -> dict[str, Value]:
        """All attributes in order, as they are now."""
        owner = self.owner
        found: dict[str, Value] = {}
        if owner.obj is not None:
            assert owner.source is not None
            namespace = owner.obj.__dict__
            m.guard(DictOf(owner.source), "KEYS", tuple(namespace))
            found = {name: m.wrap(value, InstanceAttr(owner.source, name)) for name, value in namespace.items()}
        for name, value in owner.overlay(m).items():
            if value is DELETED:
                found.pop(name, None)
            else:
                found[name] = value
        return found

    def delitem(self, m: Tracer, key: Value) -> None:
        if self.owner.own(m, str(plain(m, key))) is None:
            m.throw(KeyError, key)
        self.owner.put(m, str(plain(m, key)), DELETED)

    def length(self, m: Tracer) -> int:
        return len(self.entries(m))

    def truth(self, m: Tracer) -> bool:
        return bool(self.entries(m))

    def iterate(self, m: Tracer) -> Value:
        return m.iterate(self.copied(m))

    def copied(self, m: Tracer) -> DictValue:
        return new_dict(m, [(Constant(name), value) for name, value in self.entries(m).items()])

    def getattr(self, m: Tracer, name: str) -> Value:
        if name in ("get", "update", "pop", "setdefault"):
            return InstanceDictMethod(self, name)
        if name in ("items", "keys", "values", "copy"):
            return m.getattr(self.copied(m), name)
        self.missing(f"attribute {name!r}")

    def reload(self, emit: Emitter) -> None:
        emit.load(self.owner)
        emit.instruction("LOAD_ATTR", "__dict__")


@dataclass(frozen=True, eq=False)
class InstanceDictMethod(Value):
    owner: InstanceDict
    name: str

    kind = "method"

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        instance = self.owner.owner
        if self.name == "update":
            for other in args:
                for key, value in pairs(m, other):
                    self.owner.setitem(m, key, value)
            for name, value in kwargs.items():
                instance.put(m, name, value)
            return Constant(None)
        name = str(plain(m, args[0]))
        found = instance.own(m, name)
        if self.name == "get":
            return found or (args[1] if len(args) > 1 else Constant(None))
        if self.name == "pop":
            if found is None and len(args) < 2:
                m.throw(KeyError, args[0])
            if found is not None:
                instance.put(m, name, DELETED)
            return found or args[1]
        if found is None:
            found = args[1] if len(args) > 1 else Constant(None)
            instance.put(m, name, found)
        return found


@rule(50, lambda obj: is_modelled(type(obj)))
def wrap_instance(m: Tracer, obj: Any, source: Source) -> Value:
    known = m.known_handle(obj, source)
    if known is not None:
        return known
    m.guard(source, "TYPE_IS", type(obj))
    key = m.new_key()
    m.heap.new(key, {}, existing=True)
    value = InstanceValue(key, type(obj), obj, source=source)
    m.remember_handle(obj, value)
    return value


@dataclass(frozen=True, eq=False)
class SuperValue(Value):
    """`super(cls, owner)`: lookup starts behind `cls` in the MRO of the owner's type."""

    after: type
    owner: Value

    kind = "super"

    def python_type(self) -> type:
        return super

    def getattr(self, m: Tracer, name: str) -> Value:
        owner = self.owner
        cls = owner.cls if isinstance(owner, ClassValue) else owner.python_type()
        if self.after not in cls.__mro__:
            return self._of_metaclass(m, owner, name)
        raw = lookup(m, cls, name, after=self.after)
        if raw is MISSING:
            m.throw(AttributeError, f"'super' object has no attribute '{name}'")
        if isinstance(owner, InstanceValue):
            if isinstance(raw, property) and raw.fget is not None:
                return m.call(m.wrap(raw.fget, Known(raw.fget)), [owner], {})
            return owner.bind(m, raw, name)
        if isinstance(raw, classmethod):
            return MethodValue(m.realize(m.wrap(raw.__func__, Known(raw.__func__))), owner)
        if isinstance(raw, types.FunctionType) and not isinstance(owner, ClassValue):
            return MethodValue(FunctionValue(raw, source=Known(raw)), owner)
        if name == "__new__" and raw is not MISSING:  # a static method
            function = raw.__func__ if isinstance(raw, staticmethod) else raw
            return m.wrap(function, Known(function))
        self.missing(f"attribute {name!r}")

    def _of_metaclass(self, m: Tracer, owner: Value, name: str) -> Value:
        """In a method of a metaclass: the owner is a class, looked at as an instance."""
        raw = lookup(m, owner.python_type(), name, after=self.after)
        if isinstance(raw, types.FunctionType):
            return MethodValue(FunctionValue(raw, source=Known(raw)), owner)
        if isinstance(raw, types.WrapperDescriptorType):
            return MethodValue(m.realize(m.wrap(raw, Known(raw))), owner)
        self.missing(f"attribute {name!r}")

    def reload(self, emit: Emitter) -> None:
        emit.call(super, ClassValue(self.after), self.owner)
