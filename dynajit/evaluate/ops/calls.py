"""Calls."""

from __future__ import annotations

from dynajit import reasons
from dynajit.bytecode import Instr
from dynajit.errors import GraphBreak
from dynajit.evaluate.machine import Machine
from dynajit.evaluate.op import op
from dynajit.values.base import NULL, Value
from dynajit.values.constant import Constant
from dynajit.values.mapping import pairs


def _callable_and_self(m: Machine, first: Value, second: Value) -> tuple[Value, tuple[Value, ...]]:
    """The two slots below the arguments: NULL stands first up to 3.12 and second from 3.13 on."""
    if first is NULL:
        return second, ()
    if second is NULL:
        return first, ()
    return first, (second,)


@op("CALL", pops=lambda instr: int(instr.arg[0]) + 2, lazy=True)
def call(m: Machine, instr: Instr, first: Value, second: Value, *args: Value) -> Value:
    fn, owner = _callable_and_self(m, first, second)
    names = instr.arg[1]
    split = len(args) - len(names)
    m.direct = m.frame.direct
    return m.call(fn, [*owner, *args[:split]], dict(zip(names, args[split:], strict=True)))


@op("CALL_FUNCTION_EX", pops=lambda instr: 3 + (int(instr.arg) & 1), lazy=True)
def call_function_ex(m: Machine, instr: Instr, first: Value, second: Value, args: Value, *more: Value) -> Value:
    fn, owner = _callable_and_self(m, first, second)
    named: dict[str, Value] = {}
    for key, value in pairs(m, more[0]) if more else []:
        key = m.realize(key)
        if not isinstance(key, Constant) or not isinstance(key.value, str):
            raise GraphBreak(reasons.NO_OPERATION, "keyword names that are not strings")
        named[key.value] = value
    m.direct = m.frame.direct
    return m.call(fn, [*owner, *m.unpack(m.realize(args))], named)
