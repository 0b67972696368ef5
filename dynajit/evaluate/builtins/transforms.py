"""`torch.func`: transforms of functions. A call of a transformed function is one node of the graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate.callables import Callables, shadow
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.values.base import Emitter, Tracer, Value
from dynajit.values.constant import Constant, plain
from dynajit.values.sequence import TupleValue
from dynajit.values.tensor import TensorValue

Metas = Any  # a meta tensor, or a tuple of such


@dataclass(frozen=True, eq=False)
class Transformed(Value):
    """transform: what made it of `function`, with these options."""

    transform: Any
    function: Value
    options: Mapping[str, Any]

    kind = "transformed function"

    def python_type(self) -> type:
        return type(_refuse)

    def truth(self, m: Tracer) -> bool:
        return True

    def call(self, m: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        name = f"torch.func.{self.transform.__name__}"
        values = [m.realize(arg) for arg in args]
        if kwargs or not values or not all(isinstance(value, TensorValue) for value in values):
            raise GraphBreak(reasons.OPAQUE_CALL, f"{name} with these arguments")
        demand_no_outer_gradients(m, name, values)
        results, random, device = _RULES[self.transform](m, self, name, values)
        callables = Callables(m, name)
        made = self.as_node(callables)
        node = callables.finish(call_node, [made, *(callables.argument(value) for value in values)], {}, random)
        return values_of(callables, node, results, device)

    def as_node(self, callables: Callables) -> Any:
        return callables.node(self.transform, callables.function(self.function), **self.options)

    def reload(self, emit: Emitter) -> None:
        options = {name: Constant(value) for name, value in self.options.items()}
        emit.call(self.transform, self.function, kwargs=options)


def call_node(function: Any, *args: Any) -> Any:
    return function(*args)


def _refuse() -> None:
    pass


def demand_no_outer_gradients(m: Machine, name: str, values: Sequence[Value]) -> None:
    """Whether a derivative itself requires gradients is known only when it is there."""
    if m.grad_mode and any(isinstance(value, TensorValue) and value.meta.requires_grad for value in values):
        raise GraphBreak(reasons.AUTOGRAD, f"{name} of what requires gradients")


def outputs(m: Machine, name: str, run: Callable[[], Value]) -> tuple[Sequence[TensorValue], bool, bool]:
    """(tensors that the function returns, whether they are in a tuple, whether it draws random numbers)."""
    seen = shadow(m, name, run)
    items = seen.output.items if isinstance(seen.output, TupleValue) else (seen.output,)
    found = [m.realize(item) for item in items]
    if not all(isinstance(item, TensorValue) and not item.meta.requires_grad for item in found):
        raise GraphBreak(reasons.AUTOGRAD, f"{name} of a function of what requires gradients, or of other results")
    return found, isinstance(seen.output, TupleValue), seen.random  # type: ignore[return-value]


def empty(like: torch.Tensor, *sizes: int) -> torch.Tensor:
    return torch.empty(sizes, dtype=like.dtype, device="meta")


def _gradient(m: Machine, made: Transformed, name: str, values: Sequence[TensorValue]) -> tuple[Metas, bool, Any]:
    (out,), _, random = outputs(m, name, lambda: m.call(made.function, values, {}))
    if out.meta.dim() or made.options.get("has_aux"):
        raise GraphBreak(reasons.OPAQUE_CALL, f"{name} of a function that returns no scalar, or more")
    which = made.options.get("argnums", 0)
    grads = tuple(empty(values[i].meta, *values[i].meta.shape) for i in _numbers(which, len(values)))
    result: Metas = grads if isinstance(which, tuple) else grads[0]
    if made.transform is torch.func.grad_and_value:
        result = (result, empty(out.meta))
    return result, random, values[0].device


def _numbers(which: Any, count: int) -> tuple[int, ...]:
    return tuple(i % count for i in (which if isinstance(which, tuple) else (which,)))


def _jacobian(m: Machine, made: Transformed, name: str, values: Sequence[TensorValue]) -> tuple[Metas, bool, Any]:
    (out,), in_tuple, random = outputs(m, name, lambda: m.call(made.function, values, {}))
    if in_tuple or made.options.get("argnums", 0) != 0 or made.options.get("has_aux"):
        raise GraphBreak(reasons.OPAQUE_CALL, f"{name} with these options")
    inner = tuple(values[0].meta.shape)
    sizes = (*out.meta.shape, *inner, *(inner if made.transform is torch.func.hessian else ()))
    return empty(out.meta, *sizes), random, values[0].device


def _mapped(m: Machine, made: Transformed, name: str, values: Sequence[TensorValue]) -> tuple[Metas, bool, Any]:
    in_dims, out_dim = made.options.get("in_dims", 0), made.options.get("out_dims", 0)
    dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(values)
    simple = len(dims) == len(values) and all(dim is None or type(dim) is int for dim in dims)
    if not simple or type(out_dim) is not int or all(dim is None for dim in dims):
        raise GraphBreak(reasons.OPAQUE_CALL, f"{name} with these dimensions")
    counts = {value.meta.shape[dim] for value, dim in zip(values, dims, strict=True) if dim is not None}
    if len(counts) != 1 or 0 in counts:
        raise GraphBreak(reasons.META_FAILED, f"{name}: sizes {sorted(counts)}")

    def run() -> Value:
        first = [
            value if dim is None else m.record("call_method", "select", (value, Constant(dim), Constant(0)), {})
            for value, dim in zip(values, dims, strict=True)
        ]
        return m.call(made.function, first, {})

    found, in_tuple, random = outputs(m, name, run)
    results = []
    for item in found:
        sizes = list(item.meta.shape)
        sizes.insert(out_dim % (len(sizes) + 1), next(iter(counts)))
        results.append(empty(item.meta, *sizes))
    return tuple(results) if in_tuple else results[0], random, values[0].device


_RULES: dict[Any, Callable[..., tuple[Metas, bool, Any]]] = {
    torch.func.grad: _gradient,
    torch.func.grad_and_value: _gradient,
    torch.func.jacrev: _jacobian,
    torch.func.jacfwd: _jacobian,
    torch.func.hessian: _jacobian,
    torch.func.vmap: _mapped,
}
_PARAMETERS = {
    torch.func.vmap: ("in_dims", "out_dims", "randomness"),
    torch.func.grad: ("argnums", "has_aux"), torch.func.grad_and_value: ("argnums", "has_aux"),
    torch.func.jacrev: ("argnums",), torch.func.jacfwd: ("argnums",), torch.func.hessian: ("argnums",),
}  # fmt: skip


def values_of(callables: Callables, node: Any, results: Metas, device: Any) -> Value:
    if not isinstance(results, tuple):
        node.meta["val"], node.meta["device"] = results, device
        return TensorValue(node, results, device, torch.Tensor, exact_layout=False)
    parts = [callables.node(operator.getitem, node, i) for i in range(len(results))]
    return TupleValue(
        tuple(values_of(callables, part, item, device) for part, item in zip(parts, results, strict=True))
    )


def _register(transform: Any) -> None:
    def run(m: Machine, function: Value, *args: Value, **kwargs: Value) -> Value:
        given = {**dict(zip(_PARAMETERS[transform], args, strict=False)), **kwargs}
        if len(args) > len(_PARAMETERS[transform]) or not set(given) <= {*_PARAMETERS[transform], "chunk_size"}:
            raise GraphBreak(reasons.OPAQUE_CALL, f"torch.func.{transform.__name__} with these arguments")
        return Transformed(transform, function, {name: plain(m, value) for name, value in given.items()})

    builtin(transform)(run)


for _transform in _RULES:
    _register(_transform)
