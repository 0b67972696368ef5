"""Instructions that only move values."""

from __future__ import annotations

from dynajit.bytecode import Instr
from dynajit.evaluate.machine import Machine
from dynajit.evaluate.op import op
from dynajit.values.base import NULL, Value


@op("RESUME", "NOP")
def nothing(m: Machine, instr: Instr) -> None:
    pass


@op("POP_TOP", lazy=True)
def pop_top(m: Machine, instr: Instr, top: Value) -> None:
    pass


@op("PUSH_NULL")
def push_null(m: Machine, instr: Instr) -> Value:
    return NULL


@op("COPY", pops=lambda instr: 0)
def copy(m: Machine, instr: Instr) -> Value:
    top: Value = m.frame.stack[-instr.arg]
    return top


@op("SWAP", pops=lambda instr: 0)
def swap(m: Machine, instr: Instr) -> None:
    stack, depth = m.frame.stack, instr.arg
    stack[-1], stack[-depth] = stack[-depth], stack[-1]


@op("LOAD_CONST")
def load_const(m: Machine, instr: Instr) -> Value:
    return m.code_constant(instr.arg)


@op("RETURN_VALUE", lazy=True)
def return_value(m: Machine, instr: Instr, value: Value) -> Value:
    return value
