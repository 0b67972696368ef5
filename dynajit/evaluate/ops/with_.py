"""The with statement."""

from __future__ import annotations

import torch

from dynajit import reasons
from dynajit.bytecode import Instr
from dynajit.errors import GraphBreak
from dynajit.evaluate.machine import Machine
from dynajit.evaluate.op import op
from dynajit.values.ambient import TorchContext, make_context
from dynajit.values.base import Value
from dynajit.values.constant import Constant
from dynajit.values.context import GradContext
from dynajit.values.function import MethodValue
from dynajit.values.instance import InstanceValue


@op("BEFORE_WITH")
def before_with(m: Machine, instr: Instr, manager: Value) -> tuple[Value, Value]:
    if isinstance(manager, Constant) and isinstance(manager.value, torch.device):
        manager = make_context(m, torch.device, str(manager.value))
    if isinstance(manager, (GradContext, TorchContext)):
        return m.getattr(manager, "__exit__"), manager.enter(m)
    if not isinstance(manager, InstanceValue):
        raise GraphBreak(reasons.USER_CONTEXT, manager.describe())
    enter, leave = manager.method(m, "__enter__"), manager.method(m, "__exit__")
    if enter is None or leave is None:
        raise GraphBreak(reasons.USER_CONTEXT, manager.describe())
    return MethodValue(leave, manager), m.call(enter, [manager], {})


@op("WITH_EXCEPT_START", pops=lambda instr: 0)
def with_except_start(m: Machine, instr: Instr) -> Value:
    """Stack: exit, lasti, previous, exception (Python/bytecodes.c)."""
    leave, error = m.frame.stack[-4], m.frame.stack[-1]
    kind = m.constant(error.python_type())
    if isinstance(leave, MethodValue) or leave.kind in ("function", "method"):
        return m.call(leave, [kind, error, Constant(None)], {})
    raise GraphBreak(reasons.USER_CONTEXT, leave.describe())
