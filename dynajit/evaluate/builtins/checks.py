"""`torch._check` and its kin: conditions on numbers, also on those that only the data decides."""

from __future__ import annotations

from typing import Any

import torch

from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.source import Known
from dynajit.values.base import Value
from dynajit.values.constant import Constant, SymbolicNumber
from dynajit.values.function import FunctionValue
from dynajit.values.unknown import UnknownValue, demand_known


def _python(function: Any) -> FunctionValue:
    return FunctionValue(function, source=Known(function))


def _checking(function: Any) -> None:
    @builtin(function)
    def check(m: Machine, cond: Value, message: Value | None = None) -> Value:
        """A condition that is known is settled here; another one is checked by the graph."""
        if isinstance(cond, UnknownValue):
            if message is not None and not (isinstance(message, Constant) and message.value is None):
                demand_known(cond)
            m.record_effect(function, (cond.node,), writes=False)
            return Constant(None)
        if m.is_true(cond):
            return Constant(None)
        rest = [] if message is None else [message]
        return m.inline(_python(function), [cond, *rest], {})


for _function in (torch._check, torch._check_index, torch._check_value, torch._check_type):
    _checking(_function)


@builtin(torch._check_is_size)
def check_is_size(m: Machine, size: Value, message: Value | None = None, *, max: Value | None = None) -> Value:
    unknown = isinstance(size, SymbolicNumber) and size.symbol.unbacked is not None
    if not unknown:
        return m.inline(_python(torch._check_is_size), [size], {})
    check = _python(torch._check)
    m.call(check, [m.compare(">=", size, Constant(0))], {})
    if max is not None:
        m.call(check, [m.compare("<=", size, max)], {})
    return Constant(None)
