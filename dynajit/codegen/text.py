"""Lines of generated text, each with what it comes from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field


class NoSpelling(Exception):
    """A printer has no text for an operation."""


@dataclass
class Text:
    """origins: one for each line, or None."""

    lines: list[str] = field(default_factory=list)
    origins: list[object] = field(default_factory=list)
    depth: int = 0
    indent: str = "  "

    def add(self, line: str, origin: object = None) -> None:
        self.lines.append(line if line.startswith("#pragma") or not line else self.indent * self.depth + line)
        self.origins.append(origin)

    @contextlib.contextmanager
    def block(self, head: str, origin: object = None) -> Iterator[None]:
        """A C block: `head {` ... `}`."""
        self.add(f"{head} {{" if head else "{", origin)
        self.depth += 1
        yield
        self.depth -= 1
        self.add("}")
