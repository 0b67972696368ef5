"""The arguments of one recorded call: as the graph has them, as the meta call takes them, as the other call does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate.sizes import demand_backed, specialise
from dynajit.graph import meta as metas
from dynajit.symbol import Number, Root, roots_of
from dynajit.values.constant import Constant, SliceValue, SymbolicNumber
from dynajit.values.generator import GeneratorInput
from dynajit.values.klass import ClassValue
from dynajit.values.mapping import DictValue
from dynajit.values.sequence import ListValue, TupleValue
from dynajit.values.tensor import TensorValue
from dynajit.values.unknown import demand_known

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine

Triple = tuple[Any, Any, Any]


def is_process_group(value: Any) -> bool:
    return torch.distributed.is_available() and isinstance(getattr(value, "obj", None), torch.distributed.ProcessGroup)


class Arguments:
    """scalars: the operation takes numbers as they come; elsewhere an int is a size, a dimension or an index."""

    def __init__(self, m: Machine, scalars: bool) -> None:
        self.m, self.scalars = m, scalars
        self.tensors: list[TensorValue] = []
        self.numbers: list[SymbolicNumber] = []
        self.numpy = False  # whether there is one of numpy's scalars: operations take it as a number
        self._copies: dict[int, torch.Tensor] = {}

    @property
    def differ(self) -> bool:
        """Whether the other call has other sizes."""
        return any(tensor.other is not None for tensor in self.tensors) or (bool(self.numbers) and not self.scalars)

    def inputs(self) -> list[Number | None]:
        """Every size and number that goes in."""
        sizes: list[Number | None] = [number.symbol for number in self.numbers if not self.scalars]
        for tensor in self.tensors:
            sizes += tensor.sizes if tensor.sizes is not None else tensor.meta.shape
        return sizes

    def roots(self) -> tuple[Root, ...]:
        inputs = self.inputs()
        return self.m.all_roots() if None in inputs else roots_of(inputs)

    def as_given(self, value: Any, scalar: bool) -> Triple:
        """An argument. scalar: one that is a number as it comes, even if others are sizes."""
        kept, self.scalars = self.scalars, self.scalars or scalar
        try:
            return self.convert(value)
        finally:
            self.scalars = kept

    def convert(self, value: Any) -> Triple:
        """(graph argument, meta argument, argument of the other call)."""
        value = self.m.realize(value)
        value = value.bare()  # PyTorch looks at what it is, and asks none of its methods
        if isinstance(value, SymbolicNumber):
            if self._may_stay(value):
                self.numbers.append(value)
                return value.node, value.example, value.example if self.scalars else value.symbol.other
            value = specialise(self.m, value)
        if isinstance(value, TensorValue):
            self.tensors.append(value)
            return value.node, value.meta, self._other(value)
        if isinstance(value, Constant):
            return self._constant(value.value)
        if isinstance(value, (TupleValue, ListValue)):
            items = value.items if isinstance(value, TupleValue) else value.items_now(self.m)
            return self._each(items, tuple if isinstance(value, TupleValue) else list)
        if isinstance(value, SliceValue):
            return self._each(value.parts, lambda parts: slice(*parts))
        if isinstance(value, DictValue):
            found = {key.value: self.convert(item) for key, item in value.items_now(self.m).values()}  # type: ignore[attr-defined]
            first, second, third = ({key: triple[i] for key, triple in found.items()} for i in range(3))
            return first, second, third
        if isinstance(value, ClassValue) and value.cls in (float, int, bool, complex):
            return value.cls, value.cls, value.cls  # as a dtype
        if isinstance(value, GeneratorInput):
            return value.node, None, None  # meta tensors have no numbers to draw
        if is_process_group(value):
            assert value.source is not None
            self.m.guard(value.source, "IS", value.obj)
            return self._constant(value.obj.group_name)
        demand_known(value)
        raise GraphBreak(reasons.OPAQUE_CALL, f"an operation on {value.describe()}")

    def _constant(self, obj: Any) -> Triple:
        if isinstance(obj, np.generic):
            self.numpy = True
            obj = obj.item()
        return obj, obj, obj

    def _each(self, items: Any, made: Callable[[Any], Any]) -> Triple:
        triples = [self.convert(item) for item in items]
        first, second, third = (made([triple[i] for triple in triples]) for i in range(3))
        return first, second, third

    def _may_stay(self, value: SymbolicNumber) -> bool:
        """As a size a number can stay symbolic if the two calls tell it from a constant, and it is neither 0 nor 1."""
        if self.scalars:
            return True
        symbol = value.symbol
        if symbol.unbacked is not None and not self.m.unbacked_sizes:
            demand_backed(symbol)
        return type(symbol.example) is int and symbol.example not in (0, 1) and symbol.example != symbol.other

    def _other(self, value: TensorValue) -> torch.Tensor:
        return value.other if value.other is not None else value.meta

    def separate(self, argument: Any) -> Any:
        """An argument of the other call that it may write to: tensors that both calls share are copied."""
        shared = {id(tensor.meta) for tensor in self.tensors if tensor.other is None}
        if isinstance(argument, torch.Tensor) and id(argument) in shared:
            if id(argument) not in self._copies:
                self._copies[id(argument)] = metas.meta_of(argument, argument.shape, argument.stride())
            return self._copies[id(argument)]
        if isinstance(argument, (tuple, list)):
            return type(argument)([self.separate(item) for item in argument])
        return argument
