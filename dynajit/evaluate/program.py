"""A code object prepared for evaluation: decoded once, with its labels and protected regions looked up."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from dataclasses import dataclass
from types import CodeType
from typing import Any

from dynajit.bytecode import Code, Instr, Label, Region, decode
from dynajit.bytecode.flow import handler_depth, regions_at

_KEPT = 256


@dataclass(frozen=True)
class Resumed:
    """A resume function's body is that of `program` behind `entry` items of its own, with a label before `at`."""

    program: Program
    entry: int
    at: int


class Program:
    """code: canonical form. labels: index of each label. regions: the region that protects each index.

    handling: how many exceptions are being handled before each index. resumed: set for resume functions.
    """

    __slots__ = ("_original", "body", "code", "handling", "labels", "points", "regions", "resumed")

    def __init__(self, original: CodeType, code: Code | None = None, resumed: Resumed | None = None) -> None:
        self._original = weakref.ref(original)
        self.code: Code = code or decode(original)
        self.body: list[Instr | Label] = self.code.body
        self.labels = {item: i for i, item in enumerate(self.body) if isinstance(item, Label)}
        self.regions: list[Region | None] = regions_at(self.code)
        self.handling: dict[int, int] = handler_depth(self.code)
        self.resumed = resumed
        self.points: Any = None  # its resume functions, see rewrite.resume

    @property
    def original(self) -> CodeType:
        """The code object; it is not kept alive from here."""
        found = self._original()
        assert found is not None
        return found

    def is_of(self, original: CodeType) -> bool:
        return self._original() is original

    def root(self, at: int) -> tuple[Program, int]:
        """The program that the user wrote, and where instruction `at` stands in it."""
        if self.resumed is None:
            return self, at
        index = at - self.resumed.entry
        return self.resumed.program, index - (index > self.resumed.at)


_PROGRAMS: OrderedDict[int, Program] = OrderedDict()
_RESUMED: dict[int, tuple[weakref.ref[CodeType], Code, Resumed]] = {}


def register_resumed(original: CodeType, code: Code, resumed: Resumed) -> None:
    """Remember what a resume function's code object was made from, for as long as it lives."""
    key = id(original)
    _RESUMED[key] = (weakref.ref(original, lambda _: _RESUMED.pop(key, None)), code, resumed)


def program_of(original: CodeType) -> Program:
    """The program of a code object, by identity: equal code objects may stand on different lines."""
    found = _PROGRAMS.get(id(original))
    if found is None or not found.is_of(original):
        made = _RESUMED.get(id(original))
        found = Program(original, made[1], made[2]) if made is not None else Program(original)
        key = id(original)
        _PROGRAMS[key] = found
        weakref.finalize(original, _PROGRAMS.pop, key, None).atexit = False
        if len(_PROGRAMS) > _KEPT:
            _PROGRAMS.popitem(last=False)
    return found


def is_resumed(original: CodeType) -> bool:
    return id(original) in _RESUMED
