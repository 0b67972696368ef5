"""f-strings."""

from __future__ import annotations

from collections.abc import Callable

from dynajit.bytecode import Instr
from dynajit.evaluate.machine import Machine
from dynajit.evaluate.op import op
from dynajit.values.base import Value
from dynajit.values.constant import Constant, fold
from dynajit.values.exception import ExceptionValue

_CONVERT: dict[int, Callable[[object], str]] = {1: str, 2: repr, 3: ascii}


def _convert(m: Machine, how: int, value: Value) -> Value:
    if how == 1 and isinstance(value, ExceptionValue):
        return value.text(m)
    return fold(m, _CONVERT[how], [value]) if how else value


@op("FORMAT_VALUE", pops=lambda instr: 2 if instr.arg & 4 else 1)
def format_value(m: Machine, instr: Instr, value: Value, spec: Value | None = None) -> Value:
    value = _convert(m, instr.arg & 3, value)
    if isinstance(value, ExceptionValue) and spec is None:
        return value.text(m)
    return fold(m, format, [value, spec or Constant("")])


@op("CONVERT_VALUE")
def convert_value(m: Machine, instr: Instr, value: Value) -> Value:
    return _convert(m, instr.arg, value)


@op("BUILD_STRING", pops=lambda instr: int(instr.arg))
def build_string(m: Machine, instr: Instr, *parts: Value) -> Value:
    return fold(m, lambda *texts: "".join(texts), parts)
