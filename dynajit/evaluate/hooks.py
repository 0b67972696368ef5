"""Hooks on tensors that the graph makes: autograd calls them later, from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.utils.hooks import RemovableHandle

from dynajit import reasons
from dynajit.evaluate.callables import Callables
from dynajit.values.base import Value
from dynajit.values.tensor import TensorValue
from dynajit.values.unknown import UnknownValue

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine


def register(m: Machine, owner: TensorValue, hook: Value) -> Value:
    callables = Callables(m, "a hook on a tensor", copies=False)
    function = callables.function(hook)
    node = m.recorder.call("call_method", "register_hook", (owner.node, function), {}, m.origin())
    node.meta["writes"] = False
    return UnknownValue(node, RemovableHandle, reasons.AUTOGRAD, "register_hook")
