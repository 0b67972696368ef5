"""The call of an operation in the other call of dynajit/symbol.py, from which the sizes of its result are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynajit.evaluate import sizes
from dynajit.evaluate.arguments import Arguments
from dynajit.graph import meta as metas
from dynajit.graph import sizes as rules
from dynajit.graph.sizes import Sizes
from dynajit.symbol import Number, Symbol, example_of, other_of, unbacked_in
from dynajit.values.base import Value
from dynajit.values.constant import Constant
from dynajit.values.sequence import TupleValue
from dynajit.values.tensor import TensorValue

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine


class OtherCall:
    """The same operation in the other call (dynajit/symbol.py), from which the result's sizes are told."""

    def __init__(
        self, m: Machine, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], converter: Arguments
    ) -> None:
        self.m, self.op, self.target, self.converter = m, op, target, converter
        self.named = {name: m.realize(value) for name, value in kwargs.items()}
        self.name = metas.name_of(target)
        self.positional = len(args)
        self.result: Any = None
        values = [m.realize(arg) for arg in args]
        self.first = values[0] if values and isinstance(values[0], TensorValue) else None
        self.exact: list[Number] = []
        if target in sizes.RESHAPES_IN_PLACE:
            m.plan.give_up(converter.roots())
            m.plan.again()
        if self.first is not None:
            self._ask_first(self.first, values[1:])

    def _ask_first(self, tensor: TensorValue, rest: Sequence[Value]) -> None:
        """What must be decided about sizes before the operation."""
        m = self.m
        if self.name in ("getitem", "setitem") and rest:
            key = place.items if isinstance(place := rest[0].bare(), TupleValue) else (place,)
            self.exact = sizes.slice_sizes(m, tensor, [m.realize(item) for item in key])
        elif self.name == "squeeze":
            sizes.forbid_ones(m, tensor)
        elif self.name in rules.PIECES:
            dim = self._argument(rest, 0 if self.name == "unbind" else 1, ("dim", "axis"), rules.PIECES[self.name])
            sizes.pieces(m, tensor, dim if type(dim) is int else 0)

    def _argument(self, rest: Sequence[Value], position: int, names: Sequence[str], default: Any) -> Any:
        """A constant argument behind the first one, by position or by name."""
        given = [self.named[name] for name in names if name in self.named]
        value = rest[position] if len(rest) > position else given[0] if given else Constant(default)
        return value.value if isinstance(value, Constant) else None

    @property
    def may_fail(self) -> bool:
        """Whether other sizes may make it fail: those that are not told to be equal, or divided."""
        return self.name in rules.VIEWS or len(self.converter.roots()) > 1

    def run(
        self, call: Callable[[Any, Any], Any], args: Sequence[Any], kwargs: Mapping[str, Any], writes: bool, result: Any
    ) -> None:
        """Make the call. One that fails, or returns something else than `result` but for sizes, changes the plan."""
        if writes:
            args = self.converter.separate(list(args))
            kwargs = {name: self.converter.separate(value) for name, value in kwargs.items()}
        try:
            self.result = call(args, kwargs)
            same = _alike(result, self.result)
        except Exception:
            same = False
        if not same:
            self.m.plan.conflict(self.converter.roots(), self.m.fixed_roots())
        if not writes and self._returned(result, _meta) != self._returned(self.result, _other):
            self.m.plan.give_up(self.converter.roots())  # whether an argument itself is returned depends on sizes
            self.m.plan.again()

    def _returned(self, result: Any, of: Callable[[TensorValue], Any]) -> list[int]:
        """The arguments that are the result itself."""
        return [number for number, tensor in enumerate(self.converter.tensors) if of(tensor) is result]

    def sizes(self, result: torch.Tensor, other: torch.Tensor) -> Sizes:
        inputs = self.converter.inputs()
        node = unbacked_in(inputs)
        found = self._sizes(inputs, result, other)
        if node is None:
            return found
        pairs = zip(found, result.shape, other.shape, strict=True)
        return tuple(Symbol(None, (), n, k, node) if size is None else size for size, n, k in pairs)

    def _sizes(self, inputs: Sequence[Number | None], result: torch.Tensor, other: torch.Tensor) -> Sizes:
        if self.name == "getitem":
            return self._indexed(inputs, result, other)
        first = self.first.sizes or tuple(self.first.meta.shape) if self.first is not None else ()
        counting = self.name == "arange" and "step" not in self.named and self.positional < 3
        return rules.infer("range" if counting else self.name, inputs, first, result.shape, other.shape)

    def _indexed(self, inputs: Sequence[Number | None], result: torch.Tensor, other: torch.Tensor) -> Sizes:
        """Each size is one of the tensor, of an index, or of a slice."""
        known = [number for number in [*self.exact, *inputs] if number is not None]
        pairs = {(example_of(number), other_of(number)): number for number in reversed(known)}
        if any(number is None for number in inputs):
            pairs = {pair: number for pair, number in pairs.items() if pair[0] != pair[1]}
        ones = None if None in inputs else 1
        return tuple(
            pairs.get(pair, ones if pair == (1, 1) else None) for pair in zip(result.shape, other.shape, strict=True)
        )


def _meta(tensor: TensorValue) -> torch.Tensor:
    return tensor.meta


def _other(tensor: TensorValue) -> torch.Tensor:
    return tensor.other if tensor.other is not None else tensor.meta


def _alike(result: Any, other: Any) -> bool:
    """Whether two results are the same but for sizes."""
    if isinstance(result, torch.Tensor):
        return (
            isinstance(other, torch.Tensor)
            and result.dim() == other.dim()
            and result.dtype == other.dtype
            and result.layout == other.layout
        )
    if isinstance(result, (tuple, list)):
        return type(result) is type(other) and len(result) == len(other) and all(map(_alike, result, other))
    return type(result) is type(other)
