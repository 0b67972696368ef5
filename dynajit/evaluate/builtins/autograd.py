"""`torch.autograd.Function`: called as it stands; its forward is evaluated only to know what it returns.

Where no gradient is asked for, the operations of the forward are recorded instead.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import torch

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate.arguments import Arguments
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.graph import meta as metas
from dynajit.source import Known
from dynajit.values import ambient
from dynajit.values.base import Value
from dynajit.values.constant import Constant
from dynajit.values.function import FunctionValue
from dynajit.values.instance import InstanceValue, new_instance, raw_attr
from dynajit.values.klass import ClassValue, lookup
from dynajit.values.sequence import ListValue, TupleValue
from dynajit.values.tensor import TensorValue


class Context:
    """Stands for `ctx` while a forward is evaluated: keeps what it is told."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.kept: tuple[Any, ...] = ()
        self.constants: tuple[Any, ...] = ()
        self.dirty: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.kept = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        pass

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.constants = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        self.dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        pass


_apply: Any = torch.autograd.Function.apply
_no_setup: Any = torch.autograd.Function.setup_context


@builtin(_apply.__func__)
def apply(m: Machine, cls: Value, *args: Value, **kwargs: Value) -> Value:
    if not isinstance(cls, ClassValue):
        raise GraphBreak(reasons.OPAQUE_CALL, "Function.apply")
    wanted = m.grad_mode and any(isinstance(arg, TensorValue) and arg.meta.requires_grad for arg in args)
    nodes, heap, mode = m.recorder.mark, m.heap.mark, m.grad_mode
    inputs = {id(arg) for arg in args if isinstance(arg, TensorValue)}
    if wanted:
        torch._C._set_grad_enabled(False)
    else:
        m.set_grad_mode(False)
    try:
        context, output = _forward(m, cls, args, kwargs, wanted)
    finally:
        if wanted:
            torch._C._set_grad_enabled(mode)
    items = output.items if isinstance(output, TupleValue) else (output,)
    if isinstance(output, ListValue) or any(id(item) in inputs for item in items):
        raise GraphBreak(reasons.AUTOGRAD, f"{cls.describe()}: an output that is an input, or a list")
    if m.heap.changed_since(heap) or any(node.meta.get("writes") for node in m.recorder.nodes[nodes:]):
        raise GraphBreak(reasons.AUTOGRAD, f"{cls.describe()}: side effects in forward")
    overlay = context.overlay(m)
    if not _is_empty(overlay["dirty"]):
        raise GraphBreak(reasons.AUTOGRAD, f"{cls.describe()}: mark_dirty")
    if not wanted:
        m.set_grad_mode(mode)
        return output
    constants = {id(m.realize(value)) for value in m.unpack(overlay["constants"])}
    m.recorder.roll_back(nodes)
    m.heap.roll_back(heap)
    return _Call(m, cls.cls, args, kwargs).result(output, constants)


def _is_empty(value: Value) -> bool:
    return isinstance(value, TupleValue) and not value.items


def _forward(
    m: Machine, cls: ClassValue, args: Sequence[Value], kwargs: Mapping[str, Value], wanted: bool
) -> tuple[InstanceValue, Value]:
    for name in ("forward", "backward", "vjp", "setup_context", "apply"):
        lookup(m, cls.cls, name)
    forward = _static(cls.cls, "forward")
    needs = tuple(wanted and isinstance(arg, TensorValue) and arg.meta.requires_grad for arg in args)
    made = new_instance(m, Context)
    m.call(_method("__init__"), [made, m.constant(needs)], {})
    if raw_attr(cls.cls, "setup_context").__func__ is _no_setup:
        return made, m.realize(m.call(forward, [made, *args], kwargs))
    if kwargs:
        raise GraphBreak(reasons.AUTOGRAD, f"{cls.describe()}: keyword arguments and setup_context")
    output = m.realize(m.call(forward, args, kwargs))
    m.call(_static(cls.cls, "setup_context"), [made, TupleValue(tuple(args)), output], {})
    return made, output


def _method(name: str) -> FunctionValue:
    function: Any = Context.__dict__[name]
    return FunctionValue(function, source=Known(function))


def _static(cls: type, name: str) -> FunctionValue:
    found = raw_attr(cls, name)
    function = found.__func__ if isinstance(found, staticmethod) else found
    if not isinstance(function, FunctionType):
        raise GraphBreak(reasons.AUTOGRAD, f"{cls.__qualname__}.{name}")
    return FunctionValue(function, source=Known(function))


def _caller(cls: Any) -> Any:
    """`cls.apply` as a function that a printed graph can name."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return cls.apply(*args, **kwargs)

    call.__name__ = call.__qualname__ = f"{cls.__name__}_apply"
    return call


class _Call:
    """The node that calls `cls.apply`, and values for what it returns."""

    def __init__(self, m: Machine, cls: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> None:
        self.m = m
        converter = Arguments(m, False)
        real = [converter.convert(arg)[0] for arg in args]
        named = {name: converter.convert(arg)[0] for name, arg in kwargs.items()}
        if ambient.state(m).casts or converter.differ:
            raise GraphBreak(reasons.AUTOGRAD, f"{cls.__qualname__} under autocast or with symbolic sizes")
        self.node = m.recorder.call("call_function", _caller(cls), real, named, m.origin())
        self.node.meta["writes"] = False

    def result(self, output: Value, constants: set[int]) -> Value:
        if not isinstance(output, TupleValue):
            return self._one(self.node, output, constants)
        self.node.meta["val"] = None
        items = []
        for i, item in enumerate(output.items):
            part = self.m.recorder.call("call_function", operator.getitem, (self.node, i), {}, self.m.origin())
            items.append(self._one(part, self.m.realize(item), constants))
        return TupleValue(tuple(items), output.cls)

    def _one(self, node: Any, item: Value, constants: set[int]) -> Value:
        if isinstance(item, Constant):
            return item
        if not isinstance(item, TensorValue):
            raise GraphBreak(reasons.AUTOGRAD, f"a Function that returns {item.describe()}")
        meta = metas.meta_of(item.meta, item.meta.shape, item.meta.stride())
        if id(item) not in constants and meta.dtype.is_floating_point:
            with torch.enable_grad():
                leaf = torch.empty_strided(meta.shape, meta.stride(), dtype=meta.dtype, device="meta")
                made = leaf.requires_grad_().clone(memory_format=torch.preserve_format)
            meta = made if made.stride() == meta.stride() else leaf
        node.meta["val"], node.meta["device"] = meta, item.device
        return TensorValue(node, meta, item.device, torch.Tensor, item.exact_layout)
