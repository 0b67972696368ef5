"""The text of each `%%compile` cell, kept by us: linecache may be cleared, and timed cells never are in it."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from kernel_ext.names import short_file

MOST = 200


@dataclass
class Cell:
    """lines: as the editor shows them, `%%compile` first. number: of the last run. files: what it was compiled as."""

    key: str
    lines: list[str]
    number: int = 0
    files: set[str] = field(default_factory=set)

    def source_of(self, function: FunctionType) -> list[str]:
        """The lines of a function that was defined in this cell."""
        first = function.__code__.co_firstlineno
        last = max(
            (line for code in _codes(function.__code__) for _, _, line in code.co_lines() if line), default=first
        )
        return self.lines[first - 1 : last + _closing(self.lines, last)]


def _codes(code: Any) -> list[Any]:
    return [code, *(inner for const in code.co_consts if hasattr(const, "co_lines") for inner in _codes(const))]


def _closing(lines: list[str], last: int) -> int:
    """Lines after the last one with code that only close a bracket."""
    more = 0
    while last + more < len(lines) and lines[last + more].strip() in (")", "]", "}", "),", "],", "},", "))"):
        more += 1
    return more


class Cells:
    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self._kept: OrderedDict[str, Cell] = OrderedDict()
        self._files: dict[str, Cell] = {}

    def keep(self, lines: list[str]) -> str:
        """Remember a text and return its key. The same text has the same key."""
        key = hashlib.blake2b("\n".join(lines).encode("utf-8", "replace"), digest_size=8).hexdigest()
        self._kept.setdefault(key, Cell(key, lines))
        self._kept.move_to_end(key)
        while len(self._kept) > MOST:
            self._kept.popitem(last=False)
        return key

    def run(self, key: str, number: int) -> Cell:
        """A cell that is run now."""
        cell = self._kept.get(key) or Cell(key, [])
        cell.number = number
        return cell

    def defines(self, cell: Cell, function: FunctionType) -> None:
        self._files[function.__code__.co_filename] = cell

    def place(self, where: str) -> str:
        """`file:line` as the reader knows it: `In[5], line 3`."""
        file, _, line = where.rpartition(":")
        return f"{self.label(file)}, line {line}" if file and line.isdigit() else where

    def label(self, filename: str) -> str:
        """A file as the reader knows it: `In[5]`, or a short path."""
        named = self.shell.compile.format_code_name(filename)
        if named is not None:
            return str(named[1])
        cell = self._files.get(filename)
        return f"In[{cell.number}]" if cell is not None else short_file(filename)
