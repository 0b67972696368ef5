"""Callables that are not Python functions, and Python modules. What a call of one does is in evaluate/builtins."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch._VF
from torch.backends import PropModule

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.source import Attr, Known, Source
from dynajit.values.base import Emitter, Handle, Tracer, Value
from dynajit.values.wrap import kind, rule


def _overloads(packet: Any) -> list[str]:
    return list(packet.overloads())


@dataclass(frozen=True, eq=False)
class BuiltinValue(Value):
    """A builtin function, a method descriptor, a torch operator: known by identity."""

    fn: Any

    kind = "builtin"

    def python_type(self) -> type:
        return type(self.fn)

    def describe(self) -> str:
        owner = getattr(self.fn, "__module__", None)
        name = getattr(self.fn, "__qualname__", None) or getattr(self.fn, "__name__", repr(self.fn))
        return f"{owner}.{name}" if owner and owner != "builtins" else str(name)

    def identity(self) -> Any:
        if isinstance(self.fn, types.MethodWrapperType):  # another object each time, and equal
            return ("method of", id(self.fn.__self__), self.fn.__name__)
        return ("object", id(self.fn))

    def truth(self, m: Tracer) -> bool:
        return True

    def getattr(self, m: Tracer, name: str) -> Value:
        if name == "__get__" and isinstance(self.fn, types.GetSetDescriptorType):
            return m.wrap(self.fn.__get__, Known(self.fn.__get__))
        if name in ("__name__", "__qualname__", "__module__", "__doc__"):
            return m.constant(getattr(self.fn, name))
        if isinstance(self.fn, torch._ops.OpOverloadPacket) and name in _overloads(self.fn):
            overload = getattr(self.fn, name)
            return m.wrap(overload, Known(overload))
        if isinstance(self.fn, np.ufunc) and name in ("reduce", "accumulate", "outer", "at", "reduceat"):
            method = getattr(self.fn, name)
            return m.wrap(method, Known(method))
        self.missing(f"attribute {name!r}")

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        if isinstance(self.fn, functools._lru_cache_wrapper) and is_cached_fact(self.fn):
            return self._said_once(m, args) if self.fn.__name__.endswith("_once") else m.folded(self.fn, args, kwargs)
        if isinstance(self.fn, types.MethodDescriptorType) and args:  # such as str.lower
            owner = m.realize(args[0])
            if hasattr(owner, "storage"):
                return m.call_builtin_method(owner, self.fn.__name__, args[1:], kwargs)
            # an instance of a Python class has it from here, or overrides it: nothing that its kind models
            if owner.kind != "instance" and issubclass(owner.python_type(), self.fn.__objclass__):
                return m.call(m.getattr(owner, self.fn.__name__), args[1:], kwargs)
        if isinstance(self.fn, types.WrapperDescriptorType) and args:
            owner = m.realize(args[0])
            if hasattr(owner, "storage"):
                return m.call_builtin_method(owner, self.fn.__name__, args[1:], kwargs)
        raise GraphBreak(reasons.OPAQUE_CALL, self.describe())

    def _said_once(self, m: Tracer, args: Sequence[Value]) -> Value:
        """A library's message that appears once in a process: it appears now, and that was it."""
        owner = m.realize(args[0]) if args else self
        obj = getattr(owner, "obj", None)
        if obj is None:
            self.missing("a call")
        m.folded(lambda *rest: self.fn(obj, *rest), args[1:], {})
        return m.constant(None)

    def reload(self, emit: Emitter) -> None:
        emit.load_const(self.fn)


@dataclass(frozen=True, eq=False)
class PythonModule(Value):
    """An imported module. Its attributes are read from its dict and guarded there."""

    module: types.ModuleType

    kind = "module"

    def python_type(self) -> type:
        return types.ModuleType

    def describe(self) -> str:
        return self.module.__name__

    def identity(self) -> Any:
        return ("object", id(self.module))

    def truth(self, m: Tracer) -> bool:
        return True

    def getattr(self, m: Tracer, name: str) -> Value:
        namespace = self.module.__dict__
        found = m.namespace_item(namespace, Known(namespace), name)
        if found is None:
            prop = raw_attribute(type(self.module), name)
            if type(prop).__name__ == "ContextProp" and type(prop).__module__ == "torch.backends":
                return self._flag(m, name)
            if isinstance(self.module, PropModule) and hasattr(self.module.m, name):
                return m.getattr(PythonModule(self.module.m, source=Known(self.module.m)), name)
            if raw_attribute(type(self.module), "__getattr__") is not None and hasattr(self.module, name):
                if self.module is not torch._VF:
                    self.missing(f"attribute {name!r}")
                return m.wrap(getattr(self.module, name), Attr(Known(self.module), name))
            if "__getattr__" in namespace or hasattr(type(self.module), name):
                raise GraphBreak(reasons.NO_OPERATION, f"{self.module.__name__}.{name}")
            m.throw(AttributeError, f"module {self.module.__name__!r} has no attribute {name!r}")
        return found

    def _flag(self, m: Tracer, name: str) -> Value:
        """A setting of a library that PyTorch uses, such as `torch.backends.cudnn.enabled`."""
        read = functools.partial(getattr, self.module, name)
        now = read()
        m.guard(Known(self.module), "STATE", ((read, now),), name)
        return m.constant(now)

    def setattr(self, m: Tracer, name: str, value: Value) -> None:
        if raw_attribute(type(self.module), name) is not None:
            self.missing(f"setting attribute {name!r}")
        m.write_namespace(self.module.__dict__, name, value)

    def reload(self, emit: Emitter) -> None:
        emit.load_const(self.module)


def raw_attribute(cls: type, name: str) -> Any:
    return next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)


@kind(types.ModuleType)
def wrap_module(m: Tracer, obj: types.ModuleType, source: Source) -> Value:
    m.guard(source, "IS", obj)
    return PythonModule(obj, source=source)


@rule(20, lambda obj: isinstance(obj, types.ModuleType))
def wrap_module_subclass(m: Tracer, obj: types.ModuleType, source: Source) -> Value:
    m.guard(source, "IS", obj)
    return PythonModule(obj, source=source)


_CALLABLES = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
    types.ClassMethodDescriptorType, types.GetSetDescriptorType, np.ufunc, type(np.sum),
)  # fmt: skip


@rule(30, lambda obj: isinstance(obj, _CALLABLES) or type(obj).__module__ in ("torch._ops", "torch.jit"))
def wrap_builtin(m: Tracer, obj: Any, source: Source) -> Value:
    # The getter of an attribute is another object each time it is asked for.
    m.guard(source, "EQUALS" if type(obj) is types.MethodWrapperType else "IS", obj)
    return BuiltinValue(obj, source=source)


def is_cached_fact(fn: Any) -> bool:
    """Whether a cached function belongs to an installed library: what it returned once is what it returns."""
    code = getattr(fn.__wrapped__, "__code__", None)
    return code is not None and ("site-packages" in code.co_filename or "dist-packages" in code.co_filename)


@kind(functools._lru_cache_wrapper)
def wrap_cached_function(m: Tracer, obj: Any, source: Source) -> Value:
    """Its cache is the user's to see, so only those that the builtins table has are not called by Python."""
    m.guard(source, "IS", obj)
    return BuiltinValue(obj, source=source)


@dataclass(frozen=True, eq=False)
class OpaqueValue(Value):
    """An object of a kind that is not modelled: it can be passed around, but any operation breaks the graph."""

    obj: Any

    kind = "object"

    def python_type(self) -> type:
        return type(self.obj)

    def describe(self) -> str:
        name = f"{self.source.text}, " if self.source is not None else ""
        return f"{name}a {type(self.obj).__module__}.{type(self.obj).__qualname__}"

    def identity(self) -> Any:
        return ("object", id(self.obj))

    def missing(self, operation: str) -> Any:
        raise GraphBreak(reasons.UNKNOWN_OBJECT, f"{operation} of {self.describe()}")

    def reload(self, emit: Emitter) -> None:
        emit.load_const(self.obj)


@rule(1000, lambda obj: True)
def wrap_opaque(m: Tracer, obj: Any, source: Source) -> Value:
    m.guard(source, "TYPE_IS", type(obj))
    return OpaqueValue(obj, source=source)


@dataclass(frozen=True, eq=False)
class NamespaceValue(Handle):
    """The globals dict of a module. Contents: what the program wrote, by name; NULL for a deleted name."""

    namespace: dict[str, Any]

    kind = "globals"
