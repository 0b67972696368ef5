"""Making functions."""

from __future__ import annotations

from types import CodeType

from dynajit.bytecode import Instr
from dynajit.evaluate.machine import Machine
from dynajit.evaluate.op import op
from dynajit.values.base import Value
from dynajit.values.constant import Constant
from dynajit.values.function import Callee, make_function
from dynajit.values.mapping import pairs


@op("MAKE_FUNCTION", pops=lambda instr: 1 + int(instr.arg).bit_count())
def make_function_op(m: Machine, instr: Instr, *parts: Value) -> Value:
    given = list(parts)
    code_value = given.pop()
    assert isinstance(code_value, Constant)
    code: CodeType = code_value.value
    flags = instr.arg
    closure = m.unpack(given.pop()) if flags & 8 else ()
    annotations = given.pop() if flags & 4 else None
    kwdefaults = {key.value: value for key, value in pairs(m, given.pop())} if flags & 2 else {}  # type: ignore[attr-defined]
    defaults = m.unpack(given.pop()) if flags & 1 else ()
    caller = m.frame.callee
    made = Callee(code, caller.globals, caller.globals_source, defaults, kwdefaults, closure, code.co_qualname)
    return make_function(m, made, annotations)
