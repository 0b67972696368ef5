"""torch.cond, while_loop and scan: one node of the graph each; the functions are evaluated to know what it returns."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch._higher_order_ops import scan, while_loop

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate.callables import Callables, shadow
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.values.base import Value
from dynajit.values.constant import Constant, plain
from dynajit.values.sequence import ListValue, TupleValue
from dynajit.values.tensor import TensorValue

_cond: Any = torch.cond


@builtin(_cond)
def cond(m: Machine, pred: Value, true_fn: Value, false_fn: Value, operands: Value | None = None) -> Value:
    args = m.unpack(operands) if operands is not None else ()
    pred = m.specialise(pred)
    if isinstance(pred, Constant):
        return m.call(true_fn if plain(m, pred) else false_fn, args, {})
    if not isinstance(pred, TensorValue) or isinstance(operands, ListValue):
        raise GraphBreak(reasons.OPAQUE_CALL, "torch.cond with these arguments")
    seen = [shadow(m, "torch.cond", functools.partial(m.call, way, args, {})) for way in (true_fn, false_fn)]
    first, second = (_tensors(m, way.output) for way in seen)
    if len(first) != len(second) or not all(_alike(a, b) for a, b in zip(first, second, strict=True)):
        raise GraphBreak(reasons.META_FAILED, "torch.cond: the two ways return different things")
    callables = Callables(m, "torch.cond")
    ways = [callables.function(way) for way in (true_fn, false_fn)]
    real = tuple(callables.argument(arg) for arg in args)
    node = callables.finish(_cond, [callables.argument(pred), *ways, real], {}, any(way.random for way in seen))
    if not isinstance(seen[0].output, TupleValue):
        return _value(node, first[0])
    return _parts(callables, node, first)


@builtin(while_loop)
def loop(m: Machine, cond_fn: Value, body_fn: Value, carried: Value) -> Value:
    if not isinstance(carried, TupleValue):
        raise GraphBreak(reasons.OPAQUE_CALL, "torch.while_loop with these arguments")
    state = _tensors(m, carried)
    goes_on = shadow(m, "torch.while_loop", functools.partial(m.call, cond_fn, state, {}))
    seen = shadow(m, "torch.while_loop", functools.partial(m.call, body_fn, state, {}))
    after = _tensors(m, seen.output)
    if len(after) != len(state) or not all(_alike(a, b) for a, b in zip(state, after, strict=True)):
        raise GraphBreak(reasons.META_FAILED, "torch.while_loop: the body returns something else than it is given")
    callables = Callables(m, "torch.while_loop")
    made = [*(callables.function(function) for function in (cond_fn, body_fn)), callables.argument(carried)]
    node = callables.finish(while_loop, made, {}, seen.random or goes_on.random)
    return _parts(callables, node, state)


@builtin(scan)
def scan_(
    m: Machine, combine_fn: Value, init: Value, xs: Value, *, dim: Value | None = None, **options: Value
) -> Value:
    """Along the first dimension of a tensor, with a tensor that is carried."""
    if options or dim is not None or not isinstance(init, TensorValue) or not isinstance(xs, TensorValue):
        raise GraphBreak(reasons.OPAQUE_CALL, "scan with these arguments")
    _tensors(m, TupleValue((init, xs)))
    if xs.meta.dim() == 0 or xs.meta.shape[0] == 0:
        raise GraphBreak(reasons.META_FAILED, "scan over nothing")

    def first() -> Value:
        return m.call(combine_fn, [init, m.record("call_method", "select", (xs, Constant(0), Constant(0)), {})], {})

    seen = shadow(m, "scan", first)
    found = _tensors(m, seen.output)
    if len(found) != 2 or not _alike(found[0], init):
        raise GraphBreak(reasons.META_FAILED, "scan: the function returns something else than (carried, result)")
    callables = Callables(m, "scan")
    made = [callables.function(combine_fn), callables.argument(init), callables.argument(xs)]
    node = callables.finish(scan, made, {}, seen.random)
    rows = torch.empty((xs.meta.shape[0], *found[1].meta.shape), dtype=found[1].meta.dtype, device="meta")
    return _parts(callables, node, [found[0], TensorValue(node, rows, found[1].device)])


def _parts(callables: Callables, node: Any, likes: Sequence[TensorValue]) -> TupleValue:
    parts = [callables.node(operator.getitem, node, i) for i in range(len(likes))]
    return TupleValue(tuple(_value(part, item) for part, item in zip(parts, likes, strict=True)))


def _tensors(m: Machine, output: Value) -> list[TensorValue]:
    items = [m.realize(item) for item in (output.items if isinstance(output, TupleValue) else (output,))]
    if not all(isinstance(item, TensorValue) and not item.meta.requires_grad for item in items):
        raise GraphBreak(reasons.AUTOGRAD, "control flow of what requires gradients, or of other results")
    return items  # type: ignore[return-value]


def _alike(first: TensorValue, second: TensorValue) -> bool:
    return first.meta.shape == second.meta.shape and first.meta.dtype == second.meta.dtype


def _value(node: Any, like: TensorValue) -> Value:
    meta = torch.empty(like.meta.shape, dtype=like.meta.dtype, device="meta")
    node.meta["val"], node.meta["device"] = meta, like.device
    return TensorValue(node, meta, like.device, torch.Tensor, exact_layout=False)
