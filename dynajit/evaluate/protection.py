"""Whether a handler of a frame would see an exception."""

from __future__ import annotations

from dynajit.bytecode import Instr, Region
from dynajit.evaluate.program import Program
from dynajit.evaluate.state import Frame
from dynajit.values.ambient import TorchContextMethod
from dynajit.values.context import ContextMethod


def protects(frame: Frame) -> bool:
    """A with statement that only leaves a mode of PyTorch does not count: the exception goes on."""
    program = frame.program
    region = program.regions[frame.at]
    while region is not None and _leaves_a_mode(frame, region):
        region = _around(program, region)
    return region is not None


def _leaves_a_mode(frame: Frame, region: Region) -> bool:
    rest = frame.program.body[frame.program.labels[region.handler] :]
    ops = [item.op for item in rest[:6] if isinstance(item, Instr)]
    if ops[:2] != ["PUSH_EXC_INFO", "WITH_EXCEPT_START"] or not 0 < region.depth <= len(frame.stack):
        return False
    return isinstance(frame.stack[region.depth - 1], (ContextMethod, TorchContextMethod))


def _around(program: Program, region: Region) -> Region | None:
    """The region around a with statement: that of the code that cleans up after its handler."""
    start = program.labels[region.handler]
    inside = next(
        i
        for i, item in enumerate(program.body[start:], start)
        if isinstance(item, Instr) and item.op == "WITH_EXCEPT_START"
    )
    cleanup = program.regions[inside]
    return None if cleanup is None else program.regions[program.labels[cleanup.handler]]
