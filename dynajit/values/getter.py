"""`operator.itemgetter`, `attrgetter` and `methodcaller`: small callables made of constants."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynajit.source import Source
from dynajit.values.base import Emitter, Tracer, Value
from dynajit.values.constant import plain
from dynajit.values.sequence import TupleValue
from dynajit.values.wrap import kind

CLASSES = (operator.itemgetter, operator.attrgetter, operator.methodcaller)


@dataclass(frozen=True, eq=False)
class Getter(Value):
    """cls: which of the three. given: what it was made with."""

    cls: type
    given: tuple[Value, ...]
    named: Mapping[str, Value]

    kind = "getter"

    def python_type(self) -> type:
        return self.cls

    def truth(self, m: Tracer) -> bool:
        return True

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        if len(args) != 1 or kwargs:
            self.missing("a call with other than one argument")
        owner = m.realize(args[0])
        if self.cls is operator.methodcaller:
            return m.call(m.getattr(owner, plain(m, self.given[0])), self.given[1:], self.named)
        found = [self._of(m, owner, item) for item in self.given]
        return found[0] if len(found) == 1 else TupleValue(tuple(found))

    def _of(self, m: Tracer, owner: Value, what: Value) -> Value:
        if self.cls is operator.itemgetter:
            return owner.getitem(m, what)
        for name in plain(m, what).split("."):
            owner = m.realize(m.getattr(owner, name))
        return owner

    def reload(self, emit: Emitter) -> None:
        emit.call(self.cls, *self.given, kwargs=self.named)


@kind(*CLASSES)
def wrap_getter(m: Tracer, obj: Any, source: Source) -> Value:
    m.guard(source, "IS", obj)
    cls, given = obj.__reduce__()[:2]
    named: dict[str, Any] = {}
    if hasattr(cls, "func"):  # a methodcaller with keywords: partial(methodcaller, name, **named)
        cls, given, named = cls.func, (*cls.args, *given), cls.keywords
    values = tuple(m.constant(item) for item in given)
    return Getter(cls, values, {name: m.constant(item) for name, item in named.items()}, source=source)
