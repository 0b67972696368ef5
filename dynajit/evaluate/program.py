"""A code object prepared for evaluation: decoded once, with its labels and protected regions looked up."""

from __future__ import annotations

from collections import OrderedDict
from types import CodeType

from dynajit.bytecode import Code, Instr, Label, Region, decode
from dynajit.bytecode.flow import handler_depth, regions_at

_KEPT = 1024


class Program:
    """code: canonical form. labels: index of each label. regions: the region that protects each index."""

    __slots__ = ("body", "code", "handling", "labels", "original", "regions")

    def __init__(self, original: CodeType) -> None:
        self.original = original
        self.code: Code = decode(original)
        self.body: list[Instr | Label] = self.code.body
        self.labels = {item: i for i, item in enumerate(self.body) if isinstance(item, Label)}
        self.regions: list[Region | None] = regions_at(self.code)
        self.handling: dict[int, int] = handler_depth(self.code)


_PROGRAMS: OrderedDict[int, Program] = OrderedDict()


def program_of(original: CodeType) -> Program:
    """The program of a code object, by identity: equal code objects may stand on different lines."""
    found = _PROGRAMS.get(id(original))
    if found is None or found.original is not original:
        found = Program(original)
        _PROGRAMS[id(original)] = found
        if len(_PROGRAMS) > _KEPT:
            _PROGRAMS.popitem(last=False)
    return found
