"""Lines of generated text, each with what it comes from."""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Iterator
from dataclasses import dataclass, field

from dynajit.lower.ir import Origin


class NoSpelling(Exception):
    """A printer has no text for an operation."""


@dataclass
class Text:
    """origins: one for each line, or None. Before the first line of an operation stands a comment: the user's line."""

    lines: list[str] = field(default_factory=list)
    origins: list[Origin | None] = field(default_factory=list)
    depth: int = 0
    indent: str = "  "
    comment: str = "//"
    _last: Origin | None = None
    _scopes: list[set[str]] = field(default_factory=lambda: [set()])

    def declare(self, line: str) -> None:
        """A declaration, unless the block we are in has it already."""
        if line not in self._scopes[-1]:
            self._scopes[-1].add(line)
            self.add(line)

    def add(self, line: str, origin: Origin | None = None) -> None:
        if origin is not None and origin is not self._last:
            self._last = origin
            self._put(f"{self.comment} {spoken(origin)}", origin)
        self._put(line, origin)

    def _put(self, line: str, origin: Origin | None) -> None:
        self.lines.append(line if line.startswith("#pragma") or not line else self.indent * self.depth + line)
        self.origins.append(origin)

    @property
    def bare(self) -> str:
        """The text without comments, which does not change when the user's lines move."""
        return "\n".join(line for line in self.lines if not line.lstrip().startswith(self.comment))

    @contextlib.contextmanager
    def indented(self) -> Iterator[None]:
        self.depth += 1
        self._last = None
        self._scopes.append(set())
        yield
        self._scopes.pop()
        self._last = None
        self.depth -= 1

    @contextlib.contextmanager
    def block(self, head: str, origin: Origin | None = None) -> Iterator[None]:
        """A C block: `head {` ... `}`."""
        self.add(f"{head} {{" if head else "{", origin)
        with self.indented():
            yield
        self.add("}")


def spoken(origin: Origin) -> str:
    """The user's line, or the operation where no line is known, as the text of a comment."""
    position = origin.position
    line, text = getattr(position, "line", None), getattr(position, "text", None)
    if text is None and line is not None:
        text = linecache.getline(str(getattr(position, "filename", "")), line)
    words = " ".join(str(text).split()) if text else origin.text
    return f"line {line}: {words}" if line is not None else words
