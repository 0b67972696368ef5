"""f-strings."""

from __future__ import annotations

from dynajit.bytecode import Instr
from dynajit.evaluate import texts
from dynajit.evaluate.machine import Machine
from dynajit.evaluate.op import op
from dynajit.values.base import Value
from dynajit.values.constant import fold


@op("FORMAT_VALUE", pops=lambda instr: 2 if instr.arg & 4 else 1)
def format_value(m: Machine, instr: Instr, value: Value, spec: Value | None = None) -> Value:
    return texts.formatted(m, texts.converted(m, instr.arg & 3, value), spec)


@op("CONVERT_VALUE")
def convert_value(m: Machine, instr: Instr, value: Value) -> Value:
    return texts.converted(m, instr.arg, value)


@op("BUILD_STRING", pops=lambda instr: int(instr.arg))
def build_string(m: Machine, instr: Instr, *parts: Value) -> Value:
    return fold(m, lambda *texts: "".join(texts), parts)
