"""Sizes and numbers that are symbolic: reading them, computing with them, deciding by them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.graph import sizes as rules
from dynajit.guards.guard import Relation
from dynajit.source import Size
from dynajit.symbol import (
    Number,
    OtherCallError,
    Root,
    Symbol,
    apply,
    example_of,
    is_number,
    roots_of,
    text_of,
    unbacked_in,
)
from dynajit.values.base import Value
from dynajit.values.constant import Constant, SliceValue, SymbolicNumber
from dynajit.values.sequence import TupleValue
from dynajit.values.tensor import TensorValue
from dynajit.values.unknown import UnknownValue

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
# Operations that change the sizes of a tensor object.
RESHAPES_IN_PLACE = frozenset({"t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "resize_",
                               "resize_as_", "set_", "as_strided_"})  # fmt: skip


# ---- reading ----
def size(m: Machine, tensor: TensorValue, dim: int) -> Value:
    """`tensor.shape[dim]`, 0 <= dim."""
    found = number_of(m, tensor, dim)
    if not isinstance(found, Symbol):
        return Constant(found)
    known = m.size_values.get((tensor.node, dim))
    if known is not None and m.recorder.is_alive(known.node):
        return known
    source = found.root.source if found.root is not None and _is_own_size(tensor, found.root, dim) else None
    of_input = _input_of(m, found.root) if found.root is not None and source is None else None
    node = m.recorder.call("call_method", "size", of_input or (tensor.node, dim), {}, m.origin())
    node.meta["val"] = found.example
    made = SymbolicNumber(node, found, source=source)
    m.size_values[tensor.node, dim] = made
    return made


def _input_of(m: Machine, root: Root) -> tuple[Any, int] | None:
    """The input of the graph, and its dimension, that has this size: reading it there needs nothing to be computed."""
    if not isinstance(root.source, Size):
        return None
    for value, _ in m.inputs.values():
        if value.source == root.source.base and m.recorder.is_alive(value.node):
            return value.node, root.source.dim
    return None


def _is_own_size(tensor: TensorValue, root: Root, dim: int) -> bool:
    return root.size and tensor.source is not None and root.source == Size(tensor.source, dim)


def number_of(m: Machine, tensor: TensorValue, dim: int) -> Number:
    """A size as a number or symbol; one that only the run can tell depends on every root."""
    if tensor.other is None:
        return int(tensor.meta.shape[dim])
    assert tensor.sizes is not None
    found = tensor.sizes[dim]
    if found is None:
        return Symbol(None, m.all_roots(), int(tensor.meta.shape[dim]), int(tensor.other.shape[dim]))
    return found


def shape(m: Machine, tensor: TensorValue) -> Value:
    return TupleValue(tuple(size(m, tensor, dim) for dim in range(tensor.meta.dim())), torch.Size)


def element_count(m: Machine, tensor: TensorValue) -> Value:
    """`tensor.numel()`."""
    result: Value = Constant(1)
    for dim in range(tensor.meta.dim()):
        result = compute(m, operator.mul, result, size(m, tensor, dim))
    return result


# ---- computing ----
def number(value: Value) -> Number | None:
    """The number that a value is, or None."""
    if isinstance(value, SymbolicNumber):
        return value.symbol
    return value.value if isinstance(value, Constant) and type(value.value) in (int, float) else None


def compute(m: Machine, function: Callable[..., Any], *operands: Value) -> Value:
    """`function(*operands)` of numbers, at least one of them symbolic; the graph computes it again in each call."""
    numbers = [number(operand) for operand in operands]
    if any(value is None for value in numbers):
        return _known(m, function, operands)
    try:
        made = apply(function, *numbers)  # type: ignore[arg-type]
    except OtherCallError as error:
        m.plan.conflict(error.roots, m.fixed_roots())
    except (ArithmeticError, ValueError, TypeError):
        return _known(m, function, operands)  # which breaks the graph where the data decides
    if not isinstance(made, Symbol):
        return Constant(made)
    if not is_number(made.example):
        return _known(m, function, operands)
    arguments = tuple(
        value.node if isinstance(value, SymbolicNumber) else value.value  # type: ignore[attr-defined]
        for value in operands
    )
    node = m.recorder.call("call_function", function, arguments, {}, m.origin())
    node.meta["val"] = made.example
    return SymbolicNumber(node, made)


def _known(m: Machine, function: Callable[..., Any], operands: Sequence[Value]) -> Value:
    values = [m.specialise(operand).value for operand in operands]  # type: ignore[attr-defined]
    try:
        return m.constant(function(*values))
    except Exception as error:
        m.throw(type(error), *error.args)


# ---- deciding ----
def decide(m: Machine, symbol: str, left: Number, right: Number) -> bool:
    """Which way a comparison goes. That it goes this way again is guarded, not the numbers."""
    function = COMPARISONS[symbol]
    demand_backed(left, right)
    outcome = bool(function(example_of(left), example_of(right)))
    roots = roots_of((left, right))
    if not roots or _is_certain(function, left, right):
        return outcome
    texts = text_of(left), text_of(right)
    if None in texts:
        fix(m, roots)
        return outcome
    if texts[0] == texts[1]:
        return outcome
    guard_relation(m, Relation(f"{texts[0]} {symbol} {texts[1]}", outcome, roots))
    return outcome


def unknown_comparison(m: Machine, function: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    """A comparison that the data of a tensor decides, as an operation of the graph."""
    arguments = tuple(value.node if isinstance(value, SymbolicNumber) else value.value for value in (left, right))  # type: ignore[attr-defined]
    node = m.recorder.call("call_function", function, arguments, {}, m.origin())
    return UnknownValue(node, bool, reasons.TENSOR_DATA, f"the value of {node.name}")


def guard_relation(m: Machine, relation: Relation) -> None:
    m.guard(relation.roots[0].source, "RELATION", relation)
    m.plan.require(relation)


def _is_certain(function: Callable[[Any, Any], Any], left: Number, right: Number) -> bool:
    """Whether a comparison of a size with a constant goes the same way for all sizes from 2 on."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Symbol) and one.root is not None and one.root.size and type(other) is int:
            return other < 2
    return False


def specialise(m: Machine, value: Value) -> Value:
    """Give up that a number is symbolic: its value is guarded."""
    if not isinstance(value, SymbolicNumber):
        return value
    symbol = value.symbol
    demand_backed(symbol)
    value_text = text_of(symbol.example)
    if symbol.root is not None or symbol.text is None or value_text is None:
        fix(m, symbol.roots)
    else:
        guard_relation(m, Relation(f"{symbol.text} == {value_text}", True, symbol.roots))
    return Constant(symbol.example)


def demand_backed(*numbers: Number) -> None:
    """Break the graph where something depends on a number that the data of a tensor decides."""
    node = unbacked_in(numbers)
    if node is not None:
        raise GraphBreak(reasons.TENSOR_DATA, f"the value of {node.name}", needs=node)


def fix(m: Machine, roots: Sequence[Root]) -> None:
    """Guard the values themselves."""
    for root in roots:
        m.guard(root.source, "EQUALS", root.example)
        m.fixed.add(root.source)


# ---- indexing ----
def slice_sizes(m: Machine, tensor: TensorValue, key: Any) -> list[Number]:
    """The sizes of the sliced dimensions of `tensor[key]`, for indices without a step. key: of values."""
    found: list[Number] = []
    items = list(key) if isinstance(key, (tuple, list)) else [key]
    dim = 0
    for position, item in enumerate(items):
        if isinstance(item, Constant) and item.value is Ellipsis:
            dim = tensor.meta.dim() - sum(_consumes(rest) for rest in items[position + 1 :])
            continue
        if dim < tensor.meta.dim():
            found += _index_size(m, tensor, dim, item)
        dim += _consumes(item)
    return found


def _index_size(m: Machine, tensor: TensorValue, dim: int, item: Value) -> list[Number]:
    def less(left: Number, right: Number) -> bool:
        return decide(m, "<", left, right)

    whole = number_of(m, tensor, dim)
    parts = _parts(m, item)
    if parts is not None and m.unbacked_sizes and unbacked_in((whole, *parts)) is not None:
        return []
    if parts is not None:
        if parts[2] not in (None, 1):
            return []
        return [rules.sliced(whole, (parts[0], parts[1]), less)]
    index = number(item)
    if isinstance(index, (int, Symbol)):  # whether it is inside decides whether this raises
        inside = less(index, whole) and not less(index, 0) if example_of(index) >= 0 else True
        if isinstance(index, Symbol) and not inside:
            specialise(m, item)
    return []


def _parts(m: Machine, item: Value) -> tuple[Number | None, Number | None, Number | None] | None:
    """Start, stop and step of a slice of numbers."""
    if isinstance(item, SliceValue):
        values = [m.realize(part) for part in item.parts]
        return tuple(number(value) for value in values)  # type: ignore[return-value]
    if isinstance(item, Constant) and type(item.value) is slice:
        return item.value.start, item.value.stop, item.value.step
    return None


def _consumes(item: Value) -> int:
    """How many dimensions an index takes."""
    if isinstance(item, Constant) and (item.value is None or item.value is Ellipsis or isinstance(item.value, bool)):
        return 0
    if isinstance(item, TensorValue) and item.meta.dtype in (torch.bool, torch.uint8):
        return item.meta.dim()
    return 1


def forbid_ones(m: Machine, tensor: TensorValue) -> None:
    """`squeeze` drops what is 1: that no symbolic size is."""
    for dim in range(tensor.meta.dim()):
        decide(m, "!=", number_of(m, tensor, dim), 1)


def pieces(m: Machine, tensor: TensorValue, dim: int) -> None:
    """The number of results depends on this size."""
    specialise(m, size(m, tensor, dim % max(tensor.meta.dim(), 1)))
