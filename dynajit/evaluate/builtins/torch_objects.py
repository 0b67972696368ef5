"""Making tensor objects: parameters, variables, and the old constructors that are called like types."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.graph import meta as metas
from dynajit.values.base import Value
from dynajit.values.constant import Constant, plain
from dynajit.values.generator import GeneratorInput
from dynajit.values.sequence import structure
from dynajit.values.tensor import TensorValue, sizes_apart


@builtin(nn.Parameter)
def parameter(m: Machine, data: Value | None = None, requires_grad: Value | None = None) -> Value:
    wanted = requires_grad or Constant(True)
    if not isinstance(data, TensorValue) or data.cls not in (torch.Tensor, nn.Parameter):
        raise GraphBreak(reasons.OPAQUE_CALL, "making a Parameter")
    made = m.record("call_function", nn.Parameter, (data, wanted), {})
    return made.of_class(nn.Parameter) if isinstance(made, TensorValue) else made


@builtin(torch.autograd.Variable)
def variable(m: Machine, data: Value | None = None, requires_grad: Value | None = None, **kwargs: Value) -> Value:
    if not isinstance(data, TensorValue) or kwargs:
        raise GraphBreak(reasons.OPAQUE_CALL, "making a Variable")
    return m.record("call_function", torch.autograd.Variable, (data, requires_grad or Constant(False)), {})


@builtin(torch.Generator)
def generator(m: Machine, device: Value | None = None) -> Value:
    where = torch.device("cpu" if device is None else plain(m, device))
    return GeneratorInput(m.record_effect(torch.Generator, (where,)), where)


@builtin(nn.Buffer)
def refuse_construction(m: Machine, *args: Value, **kwargs: Value) -> Value:
    raise GraphBreak(reasons.OPAQUE_CALL, "making a tensor object")


def _legacy(cls: Any) -> None:
    def run(m: Machine, *args: Value) -> Value:
        """`torch.FloatTensor(2, 3)` or of nested lists; its size is that of a real one."""
        values = [structure(m, value) for value in sizes_apart(m, args)]
        try:
            real = cls(*values)
        except Exception as error:
            raise GraphBreak(reasons.META_FAILED, f"{cls.__name__}: {error}") from None
        node = m.recorder.call("call_function", cls, values, {}, m.origin())
        meta = metas.meta_like(real)
        node.meta["val"], node.meta["device"], node.meta["writes"] = meta, real.device, False
        return TensorValue(node, meta, real.device)

    builtin(cls)(run)


for _cls in (torch.Tensor, torch.FloatTensor, torch.DoubleTensor, torch.HalfTensor, torch.LongTensor, torch.IntTensor,
             torch.ShortTensor, torch.ByteTensor, torch.BoolTensor):  # fmt: skip
    _legacy(_cls)
