"""A guard: a condition on a source. The kinds are the rows of `checks.KINDS`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dynajit.source import Source
from dynajit.symbol import NAMESPACE, Root


@dataclass(frozen=True)
class Guard:
    """kind: a row of `checks.KINDS`. expected: what the check compares with.

    name: the name that a check of a class or a dict is about.
    origin: (filename, line) of the program text that made the guard necessary.
    """

    source: Source
    kind: str
    expected: Any = None
    name: str = ""
    origin: tuple[str, int | None] | None = None


@dataclass(frozen=True)
class Relation:
    """A comparison that went one way: `text`, over the names of its roots, was `value`."""

    text: str
    value: bool
    roots: tuple[Root, ...]

    def predicate(self) -> Callable[..., Any]:
        """The check, of the roots' values in order. The text was made by the evaluator from operators and numbers."""
        names = ", ".join(root.name for root in self.roots)
        made: Callable[..., Any] = eval(f"lambda {names}: bool({self.text}) is {self.value}", NAMESPACE)
        return made

    def holds(self, numbers: Mapping[str, Any]) -> bool:
        """Whether it went this way for these numbers, by name."""
        try:
            return bool(self.predicate()(*(numbers[root.name] for root in self.roots)))
        except (ArithmeticError, ValueError, TypeError):
            return False


NO_CONJUGATE = 4  # flag of a TENSOR check: neither a conjugate nor a negative view


def tensor_spec(obj: torch.Tensor, symbolic: Collection[int] = ()) -> tuple[Any, ...]:
    """What a tensor must be again. The stride of a dimension of size 1 (or of an empty tensor) means nothing.

    symbolic: dimensions whose size may be any from 2 on. Where the strides of `obj` follow from its sizes, they must do
    so again: -2 - d stands for stride times size of dimension d (`frame.TENSOR`).
    """
    shape = tuple(obj.shape)
    empty = 0 in shape
    strides: tuple[int | None, ...] = tuple(
        None if n == 1 or empty else s for n, s in zip(shape, obj.stride(), strict=True)
    )
    if symbolic:
        strides = _following(shape, strides)
    sizes = tuple(None if dim in symbolic else n for dim, n in enumerate(shape))
    return (type(obj), obj.dtype, obj.device, obj.layout, obj.requires_grad, sizes, strides, NO_CONJUGATE)


def _following(shape: tuple[int, ...], strides: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """Strides as following from sizes, if the tensor is dense in some order of its dimensions; else as they are."""
    order = sorted((dim for dim, stride in enumerate(strides) if stride is not None), key=lambda dim: strides[dim] or 0)
    following = list(strides)
    for inner, outer in itertools.pairwise(order):
        if strides[outer] != (strides[inner] or 0) * shape[inner]:
            return strides
        following[outer] = -2 - inner
    return tuple(following) if order and strides[order[0]] == 1 else strides


def changed_dims(spec: tuple[Any, ...], value: Any) -> frozenset[int]:
    """The dimensions whose size is all that keeps a tensor from meeting a specification."""
    kind, dtype, device, _, requires_grad, shape, _, _ = spec
    if type(value) is not kind or value.dim() != len(shape):
        return frozenset()
    if (value.dtype, value.device, value.requires_grad) != (dtype, device, requires_grad):
        return frozenset()
    return frozenset(dim for dim, n in enumerate(shape) if n is not None and value.shape[dim] != n)


def strides_for(sizes: Sequence[int], strides: Sequence[int | None]) -> list[int]:
    """The strides of a tensor of these sizes that a specification's `strides` asks for. Free ones are 1."""
    made = {dim: stride for dim, stride in enumerate(strides) if stride is not None and stride >= 0}
    rest = {dim: -2 - stride for dim, stride in enumerate(strides) if stride is not None and stride < 0}
    while rest:
        dim = next(dim for dim, inner in rest.items() if inner in made)
        inner = rest.pop(dim)
        made[dim] = made[inner] * sizes[inner]
    return [made.get(dim, 1) for dim in range(len(sizes))]
