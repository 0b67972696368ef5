"""Queries and contexts of PyTorch whose answer is known while tracing."""

from __future__ import annotations

from typing import Any

import torch
import torch._jit_internal
import torch.overrides
import torch.utils.checkpoint

from dynajit import markers, reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.values import context
from dynajit.values.base import Value
from dynajit.values.constant import Constant, fold
from dynajit.values.tensor import TensorValue


def _answer(value: Any, *functions: Any) -> None:
    for function in functions:
        builtin(function)(lambda m, *args, **kwargs: Constant(value))


_answer(
    False,
    torch._jit_internal.is_scripting,
    getattr(torch.jit, "is_tracing"),  # noqa: B009 (not exported, for mypy)
    torch._C._is_tracing,
    torch.compiler.is_compiling,
    torch.compiler.is_dynamo_compiling,
    torch.compiler.is_exporting,
    torch.overrides.has_torch_function,
    torch.overrides.has_torch_function_unary,
    torch.overrides.has_torch_function_variadic,
    torch.is_inference_mode_enabled,
    torch.is_autocast_enabled,
    torch.is_autocast_cpu_enabled,
)
_answer(None, torch._C._get_tracing_state, torch._C._log_api_usage_once)


@builtin(torch.is_grad_enabled)
def is_grad_enabled(m: Machine) -> Value:
    return Constant(m.grad_mode)


@builtin(torch._C._set_grad_enabled)
def set_grad_enabled(m: Machine, mode: Value) -> None:
    m.set_grad_mode(m.is_true(mode))


@builtin(torch.get_default_dtype)
def get_default_dtype(m: Machine) -> Value:
    return m.constant(torch.get_default_dtype())  # part of the ambient state that every entry guards


@builtin(torch.is_tensor)
def is_tensor(m: Machine, value: Value) -> Value:
    return Constant(isinstance(value, TensorValue))


for _cls in context.GRAD_CONTEXTS:
    builtin(_cls)(lambda m, *args, cls=_cls: context.construct(m, cls, args))


@builtin(torch.cuda.is_current_stream_capturing, torch.xpu.is_current_stream_capturing)
def is_capturing_stream(m: Machine) -> Value:
    if torch.cuda.is_available() or torch.xpu.is_available():
        raise GraphBreak(reasons.GLOBAL_STATE, "is_current_stream_capturing()")
    return Constant(False)


def _folded(function: Any) -> None:
    builtin(function)(lambda m, *args, **kwargs: fold(m, function, args, kwargs))


for _function in (torch.device, torch.finfo, torch.iinfo, torch.promote_types, torch.can_cast,
                  torch.cuda.is_available, torch.broadcast_shapes):  # fmt: skip
    _folded(_function)


@builtin(torch.nn.Parameter, torch.Tensor, torch.Generator, torch.nn.Buffer)
def refuse_construction(m: Machine, *args: Value, **kwargs: Value) -> Value:
    raise GraphBreak(reasons.OPAQUE_CALL, "making a tensor object")


@builtin(torch.utils.checkpoint.checkpoint)
def refuse_checkpoint(m: Machine, *args: Value, **kwargs: Value) -> Value:
    raise GraphBreak(reasons.OPAQUE_CALL, "torch.utils.checkpoint")


@builtin(markers.graph_break)
def graph_break(m: Machine) -> Value:
    raise GraphBreak(reasons.REQUESTED, "")


@builtin(markers.is_compiling)
def is_compiling(m: Machine) -> Value:
    return Constant(True)
