"""Weak references: a call gives the object, or None, as it is now."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynajit.source import Call, Source
from dynajit.values.base import Emitter, Tracer, Value
from dynajit.values.wrap import kind


@dataclass(frozen=True, eq=False)
class WeakReference(Value):
    obj: weakref.ref[Any]

    kind = "weak reference"

    def python_type(self) -> type:
        return type(self.obj)

    def identity(self) -> Any:
        return ("object", id(self.obj))

    def truth(self, m: Tracer) -> bool:
        return True

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        assert self.source is not None
        return m.wrap(self.obj(), Call(self.source, referent))


@dataclass(frozen=True, eq=False)
class MadeReference(Value):
    """`weakref.ref(target)`, made here and without a callback. Python makes one for an object and gives it again."""

    target: Value

    kind = "weak reference"

    def python_type(self) -> type:
        return weakref.ref

    def identity(self) -> Any:
        return ("weak reference", self.target.identity())

    def truth(self, m: Tracer) -> bool:
        return True

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        """Its object, if a variable refers to it: what only other objects hold may be gone."""
        if args or kwargs or not m.holds(self.target):
            self.missing("a call")
        return self.target

    def reload(self, emit: Emitter) -> None:
        emit.call(weakref.ref, self.target)


def referent(reference: weakref.ref[Any]) -> Any:
    return reference()


@kind(weakref.ref, weakref.KeyedRef)
def wrap_weak_reference(m: Tracer, obj: weakref.ref[Any], source: Source) -> Value:
    m.guard(source, "TYPE_IS", type(obj))
    return WeakReference(obj, source=source)
