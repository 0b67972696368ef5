"""Loops."""

from __future__ import annotations

from dynajit.bytecode import Instr
from dynajit.evaluate.machine import Machine
from dynajit.evaluate.op import op
from dynajit.values.base import Value


@op("GET_ITER")
def get_iter(m: Machine, instr: Instr, values: Value) -> Value:
    return m.iterate(values)


@op("FOR_ITER")
def for_iter(m: Machine, instr: Instr, iterator: Value) -> tuple[Value, ...]:
    item = m.next(iterator)
    if item is None:
        m.jump = instr.target
        return ()
    return iterator, item
