"""What changes while a frame is evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dynajit.bytecode import Instr
from dynajit.evaluate.program import Program
from dynajit.values.base import Value
from dynajit.values.cell import CellValue
from dynajit.values.function import Callee


class Frame:
    """One activation being evaluated. at: the next instruction. handled: exceptions being handled, innermost last.

    module: the path of the `nn.Module` whose method it is, or of the one that calls it. direct: what it returns is what
    a call instruction of its caller returns, and so up to the root frame. mark: lengths of heap journal, graph and
    guards before the instruction at hand, and the grad mode.
    """

    __slots__ = ("at", "callee", "cells", "direct", "generator", "handled", "instr", "locals", "mark", "module",
                 "program", "stack", "yielded")  # fmt: skip

    def __init__(self, program: Program, callee: Callee) -> None:
        self.program, self.callee = program, callee
        self.at = 0
        self.stack: list[Value] = []
        self.locals: dict[str, Value] = {}
        self.cells: dict[str, CellValue] = {}
        self.handled: list[Value] = []
        self.instr: Instr = Instr("NOP")
        self.yielded = False
        self.generator = False
        self.module = ""
        self.direct = False
        self.mark: tuple[int, int, int, bool] = (0, 0, 0, False)


@dataclass(frozen=True)
class Mark:
    """Everything that a roll-back needs to know about a moment before an instruction of the root frame."""

    at: int
    stack: tuple[Value, ...]
    locals: Mapping[str, Value] | None
    heap: int
    nodes: int
    guards: int
    grad_mode: bool
    handled: int


@dataclass(frozen=True)
class Suspended:
    """A generator's frame between two items."""

    frame: bool
    at: int
    stack: tuple[Value, ...]
    locals: Mapping[str, Value]
    cells: Mapping[str, CellValue]
    callee: Callee
    started: bool
    handled: tuple[Value, ...] = ()
