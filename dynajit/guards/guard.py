"""A guard: a condition on a source. The kinds are the rows of `checks.KINDS`."""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType
from typing import Any

from dynajit.source import Source


@dataclass(frozen=True)
class Guard:
    """kind: a row of `checks.KINDS`. expected: what the check compares with.

    origin: (code object, line) of the program text that made the guard necessary.
    """

    source: Source
    kind: str
    expected: Any = None
    origin: tuple[CodeType, int | None] | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """Two guards with one key are the same condition. Expected objects are told apart by identity."""
        return (self.source, self.kind, id(self.expected))
