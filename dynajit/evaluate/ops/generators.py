"""Generators that are consumed inside the trace."""

from __future__ import annotations

from dynajit import reasons
from dynajit.bytecode import Instr, python
from dynajit.errors import GraphBreak
from dynajit.evaluate.machine import Machine
from dynajit.evaluate.op import op
from dynajit.values.base import Value
from dynajit.values.constant import Constant
from dynajit.values.iterator import Ended, GeneratorValue


@op("RETURN_GENERATOR")
def return_generator(m: Machine, instr: Instr) -> Value:
    if not m.frame.generator:
        raise GraphBreak(reasons.GENERATOR_FRAME, m.frame.callee.qualname)
    return Constant(None)


@op("YIELD_VALUE", lazy=True)
def yield_value(m: Machine, instr: Instr, value: Value) -> Value:
    return value


@op("GET_YIELD_FROM_ITER")
def get_yield_from_iter(m: Machine, instr: Instr, values: Value) -> Value:
    return values if isinstance(values, GeneratorValue) else m.iterate(values)


@op("SEND")
def send(m: Machine, instr: Instr, receiver: Value, value: Value) -> tuple[Value, ...]:
    if isinstance(receiver, GeneratorValue):
        item = receiver.resume(m, value)
        state = m.heap[receiver.key]
        result: Value = state.result if isinstance(state, Ended) else Constant(None)
    else:
        if not (isinstance(value, Constant) and value.value is None):
            raise GraphBreak(reasons.ASYNC, "send() to an iterator")
        item, result = m.next(receiver), Constant(None)
    if item is not None:
        return receiver, item
    m.jump = instr.target
    return (result,) if python.send_pops_receiver else (receiver, result)


@op("END_SEND", lazy=True)
def end_send(m: Machine, instr: Instr, receiver: Value, result: Value) -> Value:
    return result


@op("CALL_INTRINSIC_1")
def call_intrinsic_1(m: Machine, instr: Instr, value: Value) -> Value:
    """STOPITERATION_ERROR: a StopIteration that leaves a generator becomes a RuntimeError, see `run_generator`."""
    if instr.arg == "STOPITERATION_ERROR":
        return value
    raise GraphBreak(reasons.UNSUPPORTED_INSTRUCTION, f"{instr.op} {instr.arg}")
