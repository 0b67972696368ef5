"""What an operation returns of which nothing is known before it runs: a mask's selection, `item()`, a sparse tensor.

It can be kept, passed on and returned. What needs to know more breaks the graph, and the instruction is evaluated
again when the object itself is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from dynajit.errors import GraphBreak
from dynajit.reasons import Reason
from dynajit.values.base import Emitter, Tracer, Value


@dataclass(frozen=True, eq=False)
class UnknownValue(Value):
    """node: what makes it. cls: its exact type, None if that is not known either. reason, what: why a use breaks."""

    node: Any
    cls: type | None
    reason: Reason
    what: str

    kind = "result"

    def python_type(self) -> type:
        return self.cls if self.cls is not None else self.missing("the type")

    def describe(self) -> str:
        return f"the result of {self.what}"

    def missing(self, operation: str) -> NoReturn:
        raise GraphBreak(self.reason, self.what, needs=self.node)

    def getattr(self, m: Tracer, name: str) -> Value:
        self.missing(f"attribute {name!r}")

    def reload(self, emit: Emitter) -> None:
        emit.load_node(self.node)


def demand_known(*values: Value) -> None:
    """Break the graph, to go on when the objects are there."""
    for value in values:
        if isinstance(value, UnknownValue):
            value.missing("a use")
