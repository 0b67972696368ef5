"""Python functions: existing ones, ones made inside the frame, and bound methods."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynajit.frame import Dispatcher
from dynajit.source import Attr, Item, Known, Source
from dynajit.values.base import Emitter, Handle, Tracer, Value
from dynajit.values.cell import existing_cell
from dynajit.values.constant import Constant
from dynajit.values.wrap import kind


@dataclass(frozen=True)
class Callee:
    """All that evaluating a call needs. globals_source: where the function's globals are found."""

    code: types.CodeType
    globals: dict[str, Any]
    globals_source: Source
    defaults: tuple[Value, ...]
    kwdefaults: Mapping[str, Value]
    closure: tuple[Value, ...]
    qualname: str


@dataclass(frozen=True, eq=False)
class FunctionValue(Value):
    """A function that existed before the frame."""

    fn: types.FunctionType

    kind = "function"

    def python_type(self) -> type:
        return types.FunctionType

    def describe(self) -> str:
        return f"{self.fn.__module__}.{self.fn.__qualname__}"

    def identity(self) -> Any:
        return ("object", id(self.fn))

    def truth(self, m: Tracer) -> bool:
        return True

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return m.inline(self, args, kwargs)

    def getattr(self, m: Tracer, name: str) -> Value:
        assert self.source is not None
        if name in ("__name__", "__qualname__", "__module__", "__doc__"):
            return m.realize(m.wrap(getattr(self.fn, name), Attr(self.source, name)))
        if name in self.fn.__dict__:
            return m.wrap(self.fn.__dict__[name], Attr(self.source, name))
        if name == "__get__":
            return Binder(self)
        if name == "__code__":
            m.guard(self.source, "CODE", self.fn.__code__)
            return Constant(self.fn.__code__)
        if not hasattr(self.fn, name):
            m.guard(Attr(self.source, name), "ABSENT")
            m.throw(AttributeError, f"'function' object has no attribute '{name}'")
        self.missing(f"attribute {name!r}")

    def callee(self, m: Tracer) -> Callee:
        fn, source = self.fn, self.source
        assert source is not None
        m.guard(source, "CODE", fn.__code__)
        defaults, kwdefaults = Attr(source, "__defaults__"), Attr(source, "__kwdefaults__")
        if fn.__defaults__:
            m.guard(defaults, "LENGTH", len(fn.__defaults__))
        if not isinstance(source, Known):
            m.guard(Attr(source, "__globals__"), "IS", fn.__globals__)
        closure = Attr(source, "__closure__")
        return Callee(
            code=fn.__code__,
            globals=fn.__globals__,
            globals_source=Known(fn.__globals__),
            defaults=tuple(m.wrap(obj, Item(defaults, i)) for i, obj in enumerate(fn.__defaults__ or ())),
            kwdefaults={name: m.wrap(obj, Item(kwdefaults, name)) for name, obj in (fn.__kwdefaults__ or {}).items()},
            closure=tuple(
                existing_cell(m, cell, name, Item(closure, i))
                for i, (cell, name) in enumerate(zip(fn.__closure__ or (), fn.__code__.co_freevars, strict=True))
            ),
            qualname=fn.__qualname__,
        )

    def reload(self, emit: Emitter) -> None:
        emit.load_const(self.fn)


@dataclass(frozen=True, eq=False)
class NestedFunction(Handle):
    """A function made inside the frame. Contents: attributes set on it."""

    made: Callee
    annotations: Value | None = None

    kind = "function"

    def python_type(self) -> type:
        return types.FunctionType

    def describe(self) -> str:
        return self.made.qualname

    def truth(self, m: Tracer) -> bool:
        return True

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return m.inline(self, args, kwargs)

    def callee(self, m: Tracer) -> Callee:
        return self.made

    def getattr(self, m: Tracer, name: str) -> Value:
        attributes: dict[str, Value] = m.heap[self.key]
        if name in attributes:
            return attributes[name]
        if name in ("__name__", "__qualname__"):
            return m.constant(self.made.code.co_name if name == "__name__" else self.made.qualname)
        self.missing(f"attribute {name!r}")

    def setattr(self, m: Tracer, name: str, value: Value) -> None:
        m.heap.put(self.key, {**m.heap[self.key], name: value})

    def reload(self, emit: Emitter) -> None:
        made = self.made
        flags = 0
        if made.defaults:
            for value in made.defaults:
                emit.load(value)
            emit.build("BUILD_TUPLE", len(made.defaults))
            flags |= 1
        if made.kwdefaults:
            for name, value in made.kwdefaults.items():
                emit.load_const(name)
                emit.load(value)
            emit.build("BUILD_MAP", len(made.kwdefaults))
            flags |= 2
        if self.annotations is not None:
            emit.load(self.annotations)
            flags |= 4
        if made.closure:
            for cell in made.closure:
                emit.load(cell)
            emit.build("BUILD_TUPLE", len(made.closure))
            flags |= 8
        emit.load_const(made.code)
        emit.make_function(flags, made.globals)
        for name, value in emit.heap[self.key].items():
            emit.instruction("COPY", 1)
            emit.load(value)
            emit.instruction("SWAP", 2)
            emit.instruction("STORE_ATTR", name)


def make_function(m: Tracer, made: Callee, annotations: Value | None) -> NestedFunction:
    key = m.new_key()
    m.heap.new(key, {}, existing=False)
    return NestedFunction(key, made, annotations)


@dataclass(frozen=True, eq=False)
class Binder(Value):
    """`function.__get__`: binds the function to an object."""

    function: Value

    kind = "method"

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        owner = m.realize(args[0]) if args else None
        if owner is None or kwargs:
            self.missing("a call without an object")
        if isinstance(owner, Constant) and owner.value is None:
            return self.function
        return MethodValue(self.function, owner)

    def reload(self, emit: Emitter) -> None:
        emit.load(self.function)
        emit.instruction("LOAD_ATTR", "__get__")


@dataclass(frozen=True, eq=False)
class MethodValue(Value):
    """A function bound to its first argument."""

    function: Value
    owner: Value

    kind = "method"

    def python_type(self) -> type:
        return types.MethodType

    def describe(self) -> str:
        return self.function.describe()

    def truth(self, m: Tracer) -> bool:
        return True

    def getattr(self, m: Tracer, name: str) -> Value:
        if name == "__self__":
            return self.owner
        if name == "__func__":
            return self.function
        return m.getattr(self.function, name)

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return m.call(self.function, [self.owner, *args], kwargs)

    def reload(self, emit: Emitter) -> None:
        emit.call(types.MethodType, self.function, self.owner)


@kind(types.FunctionType)
def wrap_function(m: Tracer, obj: types.FunctionType, source: Source) -> Value:
    # Library functions are recorded as they are, so which one it is matters; user functions are known by their code.
    library = (obj.__module__ or "").partition(".")[0] == "torch"
    m.guard(source, "IS" if library else "CODE", obj if library else obj.__code__)
    return FunctionValue(obj, source=source)


@kind(Dispatcher)
def wrap_compiled(m: Tracer, obj: Dispatcher, source: Source) -> Value:
    """A compiled function called from a compiled function: its body is evaluated like any other."""
    m.guard(source, "TYPE_IS", Dispatcher)
    return m.realize(m.wrap(obj.__wrapped__, Attr(source, "__wrapped__")))


@kind(types.MethodType)
def wrap_method(m: Tracer, obj: types.MethodType, source: Source) -> Value:
    m.guard(source, "TYPE_IS", types.MethodType)
    function = m.realize(m.wrap(obj.__func__, Attr(source, "__func__")))
    return MethodValue(function, m.wrap(obj.__self__, Attr(source, "__self__")), source=source)
