"""Jumps: which way to go must be known."""

from __future__ import annotations

from dynajit.bytecode import Instr
from dynajit.evaluate.machine import Machine
from dynajit.evaluate.op import op
from dynajit.values.base import Value
from dynajit.values.constant import Constant


@op("JUMP", "JUMP_BACKWARD_NO_INTERRUPT")
def jump(m: Machine, instr: Instr) -> None:
    m.jump = instr.target


@op("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")
def pop_jump_if(m: Machine, instr: Instr, condition: Value) -> None:
    if m.is_true(condition) == (instr.op == "POP_JUMP_IF_TRUE"):
        m.jump = instr.target


@op("POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE")
def pop_jump_if_none(m: Machine, instr: Instr, value: Value) -> None:
    is_none = isinstance(value, Constant) and value.value is None
    if is_none == (instr.op == "POP_JUMP_IF_NONE"):
        m.jump = instr.target
