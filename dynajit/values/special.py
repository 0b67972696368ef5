"""Special methods called by name, and attributes of the class of a value that is not an instance."""

from __future__ import annotations

import operator
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.source import ClassAttr, Known
from dynajit.values.base import Emitter, Tracer, Value
from dynajit.values.function import FunctionValue, MethodValue
from dynajit.values.klass import ClassValue, is_data, lookup

# What `owner.name(...)` is, where the class of `owner` is a builtin container.
SPECIAL: dict[str, Any] = {
    "__len__": len, "__getitem__": operator.getitem, "__setitem__": operator.setitem,
    "__delitem__": operator.delitem, "__contains__": operator.contains, "__iter__": iter, "__next__": next,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class SpecialMethod(Value):
    """`owner.__len__` and its like: an operator with its first operand."""

    owner: Value
    name: str

    kind = "method"

    def python_type(self) -> type:
        return types.MethodWrapperType

    def getattr(self, m: Tracer, name: str) -> Value:
        if name == "__self__":
            return self.owner
        self.missing(f"attribute {name!r}")

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        function = SPECIAL[self.name]
        return m.call(m.wrap(function, Known(function)), [self.owner, *args], kwargs)

    def reload(self, emit: Emitter) -> None:
        emit.load(self.owner)
        emit.instruction("LOAD_ATTR", self.name)


def special_method(owner: Value, name: str) -> SpecialMethod | None:
    return SpecialMethod(owner, name) if name in SPECIAL and hasattr(owner.python_type(), name) else None


def of_class(m: Tracer, owner: Value, cls: type, name: str) -> Value:
    """An attribute of the class, seen through its instance: of named tuples and tensor classes with methods."""
    raw = lookup(m, cls, name)
    if isinstance(raw, types.FunctionType):
        return MethodValue(FunctionValue(raw, source=Known(raw)), owner)
    if isinstance(raw, property) and raw.fget is not None:
        return m.call(m.wrap(raw.fget, Known(raw.fget)), [owner], {})
    if isinstance(raw, staticmethod):
        return m.wrap(raw.__func__, Known(raw.__func__))
    if isinstance(raw, classmethod):
        bound = m.realize(m.wrap(raw.__func__, Known(raw.__func__)))
        return MethodValue(bound, ClassValue(cls, source=Known(cls)))
    if is_data(raw):
        return m.wrap(raw, ClassAttr(Known(cls), name))
    raise GraphBreak(reasons.NO_OPERATION, f"{cls.__qualname__}.{name}")
