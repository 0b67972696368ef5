"""`functools.partial` objects."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynajit.source import Attr, Item, Source
from dynajit.values.base import Emitter, Tracer, Value
from dynajit.values.wrap import kind


@dataclass(frozen=True, eq=False)
class PartialValue(Value):
    function: Value
    args: tuple[Value, ...]
    kwargs: Mapping[str, Value]

    kind = "partial"

    def python_type(self) -> type:
        return functools.partial

    def truth(self, m: Tracer) -> bool:
        return True

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return m.call(self.function, [*self.args, *args], {**self.kwargs, **kwargs})

    def reload(self, emit: Emitter) -> None:
        emit.call(functools.partial, self.function, *self.args, kwargs=self.kwargs)


@kind(functools.partial)
def wrap_partial(m: Tracer, obj: functools.partial[Any], source: Source) -> Value:
    m.guard(source, "TYPE_IS", functools.partial)
    args, keywords = Attr(source, "args"), Attr(source, "keywords")
    m.guard(args, "LENGTH", len(obj.args))
    m.guard(keywords, "KEYS", tuple(obj.keywords))
    return PartialValue(
        m.wrap(obj.func, Attr(source, "func")),
        tuple(m.wrap(arg, Item(args, i)) for i, arg in enumerate(obj.args)),
        {name: m.wrap(value, Item(keywords, name)) for name, value in obj.keywords.items()},
        source=source,
    )
