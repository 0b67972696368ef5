"""What `functools.cmp_to_key` makes: a key function, and the keys that it makes, which compare by a function."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dynajit.values.base import Emitter, Handle, Tracer, Value
from dynajit.values.constant import Constant


@dataclass(frozen=True, eq=False)
class Comparison(Handle):
    """function: what compares two objects. item: the object of a key; None: the key function itself."""

    function: Value
    item: Value | None

    kind = "comparison key"

    def python_type(self) -> type:
        return type(functools.cmp_to_key(max))

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        given = [*args, *kwargs.values()]
        if len(given) != 1 or set(kwargs) - {"obj"}:
            self.missing("a call with these arguments")
        return new_comparison(m, self.function, given[0])

    def truth(self, m: Tracer) -> bool:
        return True

    def getattr(self, m: Tracer, name: str) -> Value:
        if name == "obj" and self.item is not None:
            return self.item
        self.missing(f"attribute {name!r}")

    def compare(self, m: Tracer, symbol: str, other: Comparison) -> Value:
        """keyobject_richcompare of Modules/_functoolsmodule.c; the function is that of the left one."""
        if self.item is None or other.item is None:
            self.missing(symbol)
        return m.compare(symbol, m.call(self.function, [self.item, other.item], {}), Constant(0))

    def reload(self, emit: Emitter) -> None:
        if self.item is None:
            emit.call(functools.cmp_to_key, self.function)
        else:
            emit.call(made, self.function, self.item)


def made(function: object, item: object) -> object:
    return functools.cmp_to_key(function)(item)  # type: ignore[arg-type]


def new_comparison(m: Tracer, function: Value, item: Value | None) -> Comparison:
    key = m.new_key()
    m.heap.new(key, (), existing=False)
    return Comparison(key, function, item)
