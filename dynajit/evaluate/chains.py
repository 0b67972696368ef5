"""Graph breaks inside inlined functions: the trace ends there, and each function of the chain goes on where it was.

How the replacement does that is in rewrite/continuation.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynajit.bytecode import python
from dynajit.errors import GraphBreak
from dynajit.evaluate.op import OPS
from dynajit.evaluate.skip import is_library
from dynajit.evaluate.state import Frame, Mark
from dynajit.trace import CONTINUATION, Broke, Link
from dynajit.values.base import NULL, Value
from dynajit.values.constant import Constant

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine

MAX_CHAIN = 8  # frames that a break may go on in
CALLS = ("CALL", "CALL_FUNCTION_EX")


def break_inside(m: Machine, mark: Mark, error: GraphBreak) -> Broke | None:
    """End the trace where the innermost function broke. mark: before the call in the root frame.

    None if that is not possible, or if nothing was captured inside.
    """
    frames = error.frames[::-1]
    if not _can_go_on(frames, mark):
        return None
    root, *inlined = frames
    m.go_back(*inlined[-1].mark)
    links = tuple(_link(m, frame, innermost=frame is inlined[-1]) for frame in inlined)
    whole = _link(m, root, innermost=False)
    return Broke(
        at=whole.at, stack=whole.stack, locals=whole.locals, reason=error.reason, detail=error.detail,
        position=root.instr.position, where=error.where, chain=links,
    )  # fmt: skip


def _can_go_on(frames: list[Frame], mark: Mark) -> bool:
    if not 2 <= len(frames) <= MAX_CHAIN or frames[-1].mark[1] <= mark.nodes:
        return False
    for frame in frames:
        if not frame.direct or frame.generator or frame.handled or frame.instr.op == "RERAISE":
            return False
        if frame is not frames[0] and is_library(frame.program.original):
            return False
    return all(frame.instr.op in CALLS for frame in frames[:-1])


def _link(m: Machine, frame: Frame, *, innermost: bool) -> Link:
    freevars = frame.program.code.freevars
    cells = {name: m.realize(cell) for name, cell in zip(freevars, frame.callee.closure, strict=False)}
    stack = tuple(frame.stack) if innermost else _calling_continuation(frame)
    names = {**frame.locals, **cells, **frame.cells}
    if not frame.callee.closure:  # the root frame
        names = {name: value for name, value in names.items() if name not in freevars}
    return Link(frame.program, frame.at, stack, names, frame.callee)


def _calling_continuation(frame: Frame) -> tuple[Value, ...]:
    """The stack before the call instruction at hand, if it called what goes on inside."""
    instr = frame.instr
    count = OPS[instr.op].pops(instr)
    callee: tuple[Value, ...] = (NULL, CONTINUATION) if python.null_first else (CONTINUATION, NULL)
    if instr.op == "CALL":
        rest: tuple[Value, ...] = (Constant(None),) * (count - 2)
    else:
        rest = (Constant(()), Constant({}))[: count - 2]
    return (*frame.stack[: len(frame.stack) - count], *callee, *rest)
