"""Raising and handling."""

from __future__ import annotations

from dynajit import reasons
from dynajit.bytecode import Instr
from dynajit.errors import GraphBreak, Raised
from dynajit.evaluate.machine import Machine
from dynajit.evaluate.op import op
from dynajit.values.base import Value
from dynajit.values.constant import Constant
from dynajit.values.klass import ClassValue
from dynajit.values.sequence import TupleValue


@op("RAISE_VARARGS", pops=lambda instr: int(instr.arg))
def raise_varargs(m: Machine, instr: Instr, *parts: Value) -> None:
    if not parts:
        if not m.frame.handled:
            m.throw(RuntimeError, "No active exception to reraise")
        raise Raised(m.frame.handled[-1])
    value = m.exception(parts[0])
    if len(parts) == 2:
        cause = parts[1] if isinstance(parts[1], Constant) else m.exception(parts[1])
        value.setattr(m, "__cause__", cause)
    raise Raised(value)


@op("RERAISE")
def reraise(m: Machine, instr: Instr, value: Value) -> None:
    raise Raised(value)


@op("PUSH_EXC_INFO")
def push_exc_info(m: Machine, instr: Instr, value: Value) -> tuple[Value, Value]:
    handled = m.frame.handled
    previous = handled[-1] if handled else Constant(None)
    handled.append(value)
    return previous, value


@op("POP_EXCEPT")
def pop_except(m: Machine, instr: Instr, previous: Value) -> None:
    if m.frame.handled:
        m.frame.handled.pop()


@op("CHECK_EXC_MATCH")
def check_exc_match(m: Machine, instr: Instr, value: Value, kinds: Value) -> tuple[Value, Value]:
    return value, Constant(issubclass(value.python_type(), _classes(m, kinds)))


def _classes(m: Machine, kinds: Value) -> tuple[type, ...]:
    found = []
    for kind in kinds.items if isinstance(kinds, TupleValue) else (kinds,):
        kind = m.realize(kind)
        if not isinstance(kind, ClassValue) or not issubclass(kind.cls, BaseException):
            raise GraphBreak(reasons.NO_OPERATION, f"except {kind.describe()}")
        found.append(kind.cls)
    return tuple(found)
