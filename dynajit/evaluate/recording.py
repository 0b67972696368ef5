"""Putting tensor operations into the graph, and turning what they return into values."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.graph import meta as metas
from dynajit.guards.guard import tensor_spec
from dynajit.reasons import Reason
from dynajit.source import Local, Source
from dynajit.values.base import Value
from dynajit.values.constant import TRUSTED, Constant, SliceValue, SymbolicNumber, is_plain
from dynajit.values.klass import ClassValue
from dynajit.values.mapping import DictValue, new_dict
from dynajit.values.sequence import ListValue, TupleValue, new_list
from dynajit.values.tensor import TensorValue
from dynajit.values.unknown import UnknownValue, demand_known

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine

# Operations that take a Python number as it comes: their result's size and dtype do not depend on its value.
SCALAR_SAFE = frozenset({
    "add", "sub", "mul", "truediv", "iadd", "isub", "imul", "itruediv", "lt", "le", "gt", "ge", "eq", "ne", "div",
    "rsub", "true_divide", "subtract", "multiply", "divide", "fill", "clamp", "masked_fill", "where", "neg",
    "full_like", "maximum", "minimum",
})  # fmt: skip
_SYMBOLS = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
            operator.mod: "%"}  # fmt: skip
PYTHON_SAFE = frozenset([*_SYMBOLS, operator.neg])


def constant(m: Machine, obj: Any) -> Value:
    """A value for an object that the evaluator has computed itself."""
    if isinstance(obj, (tuple, torch.Size)):
        return TupleValue(tuple(constant(m, item) for item in obj), type(obj))
    if is_plain(obj) or isinstance(obj, TRUSTED):
        return Constant(obj)
    if isinstance(obj, list):
        return new_list(m, [constant(m, item) for item in obj])
    if isinstance(obj, dict):
        return new_dict(m, [(constant(m, key), constant(m, value)) for key, value in obj.items()])
    if isinstance(obj, type):
        return ClassValue(obj)
    raise GraphBreak(reasons.UNKNOWN_OBJECT, f"a computed {type(obj).__name__}")


def graph_input(m: Machine, obj: torch.Tensor, source: Source) -> Value:
    """The placeholder of an existing tensor. The same tensor reached twice is one placeholder, and that is guarded."""
    found = m.inputs.get(id(obj))
    if found is not None and m.recorder.is_alive(found[0].node):
        value = found[0]
        if value.source is not None and value.source != source:
            m.guard(source, "SAME", value.source)
        return value
    m.guard(source, "TENSOR", tensor_spec(obj))
    node = m.recorder.placeholder(source.text, m.origin())
    meta = metas.meta_like(obj)
    node.meta["val"], node.meta["device"] = meta, obj.device
    value = TensorValue(node, meta, obj.device, type(obj), source=source)
    m.inputs[id(obj)] = (value, obj)
    m.input_sources[node] = (source, obj)
    return value


def symbolic_number(m: Machine, obj: Any, source: Source) -> Value | None:
    """An int or float that differed between calls becomes an input of the graph."""
    wanted = source in m.numbers or (m.all_numbers and isinstance(source, Local))
    if not wanted or (isinstance(obj, float) and not math.isfinite(obj)):
        return None
    known = m.symbolic.get(source)
    if known is not None and m.recorder.is_alive(known.node):
        return known
    m.guard(source, "TYPE_IS", type(obj))
    node = m.recorder.placeholder(source.text, m.origin())
    node.meta["val"] = obj
    m.input_sources[node] = (source, obj)
    made = SymbolicNumber(node, obj, ((source, obj),), "v", source=source)
    m.symbolic[source] = made
    return made


def specialise(m: Machine, value: Value) -> Value:
    """Give up that a number is symbolic: its value is guarded."""
    if not isinstance(value, SymbolicNumber):
        return value
    for source, obj in value.roots:
        m.guard(source, "EQUALS", obj)
    return Constant(value.example)


def relation_text(target: Any, operands: Sequence[Any], roots: int) -> str | None:
    """How a computed number follows from its one root, as Python text."""
    symbol = _SYMBOLS.get(target)
    parts = [operand_text(value) for value in operands]
    if symbol is None or roots != 1 or len(parts) != 2 or None in parts:
        return None
    return f"({parts[0]} {symbol} {parts[1]})"


def operand_text(value: Value) -> str | None:
    if isinstance(value, SymbolicNumber):
        return value.text
    return repr(value.value) if isinstance(value, Constant) and type(value.value) in (int, float) else None


class Arguments:
    """The arguments of one call as the graph has them and as the meta call takes them."""

    def __init__(self, m: Machine, keep_numbers: bool) -> None:
        self.m, self.keep_numbers = m, keep_numbers
        self.tensors: list[TensorValue] = []
        self.numbers: list[SymbolicNumber] = []

    def convert(self, value: Any) -> tuple[Any, Any]:
        """(graph argument, meta argument)."""
        value = self.m.realize(value)
        if isinstance(value, SymbolicNumber):
            if self.keep_numbers:
                self.numbers.append(value)
                return value.node, value.example
            value = specialise(self.m, value)
        if isinstance(value, TensorValue):
            self.tensors.append(value)
            return value.node, value.meta
        if isinstance(value, Constant):
            return value.value, value.value
        if isinstance(value, (TupleValue, ListValue)):
            items = value.items if isinstance(value, TupleValue) else value.items_now(self.m)
            pairs = [self.convert(item) for item in items]
            cls = tuple if isinstance(value, TupleValue) else list
            return cls(pair[0] for pair in pairs), cls(pair[1] for pair in pairs)
        if isinstance(value, SliceValue):
            pairs = [self.convert(part) for part in value.parts]
            return slice(*(pair[0] for pair in pairs)), slice(*(pair[1] for pair in pairs))
        if isinstance(value, DictValue):
            found = {key.value: self.convert(item) for key, item in value.items_now(self.m).values()}  # type: ignore[attr-defined]
            return {k: pair[0] for k, pair in found.items()}, {k: pair[1] for k, pair in found.items()}
        if isinstance(value, ClassValue) and value.cls in (float, int, bool, complex):
            return value.cls, value.cls  # as a dtype
        demand_known(value)
        raise GraphBreak(reasons.OPAQUE_CALL, f"an operation on {value.describe()}")


def record(m: Machine, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Value:
    """Add `target(*args, **kwargs)` to the graph. What it returns is known from a call on meta tensors."""
    name = metas.name_of(target)
    converter = Arguments(m, name in SCALAR_SAFE or (_is_python_safe(target) and not _any_tensor(m, args)))
    pairs = [converter.convert(arg) for arg in args]
    named = {key: converter.convert(arg) for key, arg in kwargs.items()}
    real_args, meta_args = [p[0] for p in pairs], [p[1] for p in pairs]
    real_kwargs, meta_kwargs = {k: p[0] for k, p in named.items()}, {k: p[1] for k, p in named.items()}
    placed = [(value.meta, value.device) for value in converter.tensors]
    device = metas.device_of(op, target, meta_args, meta_kwargs, placed)
    if device is None:
        raise GraphBreak(reasons.META_FAILED, f"{name}: tensors on different devices")
    node = m.recorder.call(op, target, real_args, real_kwargs, m.origin())
    before = metas.versions(converter.tensors)
    try:
        result = metas.run(op, target, meta_args, meta_kwargs)
        if metas.changes_device(device, placed) and isinstance(result, torch.Tensor):
            result = result.clone()
    except Exception as error:
        reason = unanswered(name, error)
        if reason is None or metas.writes_to(target) or metas.versions(converter.tensors) != before:
            raise GraphBreak(reasons.META_FAILED, f"{name}: {str(error).splitlines()[0]}") from None
        node.meta["risky"], node.meta["writes"] = True, False
        _keep_errors_apart(m, node, False, True)
        return UnknownValue(node, unknown_class(name, converter.tensors, real_kwargs), reason, name)
    exact = metas.is_exact(target, all(value.exact_layout for value in converter.tensors))
    writes = metas.writes_to(target) or metas.versions(converter.tensors) != before
    writes = writes or (before is None and name not in metas.RETURN_THEMSELVES)
    node.meta["writes"] = writes
    _keep_errors_apart(m, node, writes, may_fail(target, converter.tensors, args))
    return _Result(m, converter, args, device, exact, writes).value(node, result)


# Operations that may raise for the data that they meet, which meta tensors do not have.
_MAY_FAIL = frozenset(
    """
index_select gather take take_along_dim embedding embedding_bag scatter scatter_add scatter_reduce index_add index_copy
index_fill index_put put one_hot cross_entropy nll_loss multi_margin_loss ctc_loss multinomial bernoulli binomial
poisson cholesky cholesky_ex inverse solve lu lu_factor eigh eigvalsh svd svdvals qr lstsq pinv matrix_power tensorinv
logdet slogdet binary_cross_entropy floordiv mod floor_divide remainder fmod ifloordiv imod repeat_interleave bucketize
max_unpool1d max_unpool2d max_unpool3d grid_sample masked_scatter unflatten combinations normal
""".split()
)


def may_fail(target: Any, tensors: Sequence[TensorValue], args: Sequence[Any]) -> bool:
    name = metas.name_of(target)
    if name in ("getitem", "setitem"):
        return len(tensors) > (1 if name == "getitem" else 2) or any(
            value.meta.dtype in (torch.int64, torch.int32, torch.bool, torch.uint8) for value in tensors[1:]
        )
    if name in ("floordiv", "mod", "floor_divide", "remainder", "fmod", "ifloordiv", "imod"):
        return any(not value.meta.dtype.is_floating_point for value in tensors)
    return name in _MAY_FAIL or name.startswith("linalg_")


def _keep_errors_apart(m: Machine, node: Any, writes: bool, risky: bool) -> None:
    """A graph that fails is run again by Python from the start, unless it has written to a tensor.

    So an operation that may fail and a write do not share a graph where the difference would show: inside a try
    statement, or when the program has changed Python objects before.
    """
    node.meta["risky"] = risky
    if not (writes or risky) or not (m.is_protected() or m.heap.changed()):
        return
    others = m.recorder.nodes[:-1]
    if (writes and any(n.meta.get("risky") for n in others)) or (risky and any(n.meta.get("writes") for n in others)):
        raise GraphBreak(reasons.WRITE_AND_ERROR, metas.name_of(node.target))


def _is_python_safe(target: Any) -> bool:
    return callable(target) and getattr(target, "__module__", "") == "_operator" and target in PYTHON_SAFE


def _any_tensor(m: Machine, args: Sequence[Any]) -> bool:
    return any(isinstance(m.realize(arg), TensorValue) for arg in args)


# Words with which PyTorch says that a tensor without data cannot answer.
_NO_DATA = ("meta tensor", "Meta tensor", "data-dependent", "Tensor.item", "Cannot copy out of meta", "meta device",
            "_local_scalar_dense", "on meta")  # fmt: skip
_BY_DATA = frozenset({"nonzero", "unique", "unique_consecutive", "masked_select", "argwhere", "bincount", "getitem",
                      "repeat_interleave", "where", "combinations"})  # fmt: skip


def unanswered(name: str, error: Exception) -> Reason | None:
    """Why only the data can tell what a call returns; None when the call itself is at fault."""
    if name in _BY_DATA and isinstance(error, NotImplementedError):
        return reasons.DYNAMIC_SHAPE
    if isinstance(error, NotImplementedError) and "no fake impl" in str(error):
        return reasons.META_FAILED
    return reasons.TENSOR_DATA if any(words in str(error) for words in _NO_DATA) else None


_TENSORS = frozenset({"masked_select", "argwhere", "bincount", "getitem", "repeat_interleave", "to_sparse", "ctc_loss"})
_BOOLS = frozenset({"equal", "allclose", "is_nonzero", "bool"})


def unknown_class(name: str, tensors: Sequence[TensorValue], kwargs: Mapping[str, Any]) -> type | None:
    """The exact type of what a call returns whose result is not known otherwise."""
    if name in _TENSORS or (name == "nonzero" and not kwargs.get("as_tuple")):
        return torch.Tensor
    if name in _BOOLS:
        return bool
    if name == "item" and tensors:
        return type(torch.zeros((), dtype=tensors[0].meta.dtype).item())
    return {"float": float, "int": int}.get(name)


class _Result:
    """From what the meta call returned to values."""

    def __init__(
        self, m: Machine, converter: Arguments, operands: Sequence[Any], device: torch.device, exact: bool, writes: bool
    ) -> None:
        self.m, self.device, self.exact, self.writes = m, device, exact, writes
        self.numbers, self.operands = converter.numbers, operands
        self.known = {id(value.meta): value for value in converter.tensors}

    def value(self, node: Any, result: Any) -> Value:
        if isinstance(result, torch.Tensor):
            return self.tensor(node, result)
        if self.numbers and type(result) in (int, float):
            node.meta["val"] = result
            roots = dict.fromkeys(root for number in self.numbers for root in number.roots)
            return SymbolicNumber(node, result, tuple(roots), relation_text(node.target, self.operands, len(roots)))
        if any(True for _ in metas.tensors_in(result)):
            return self.sequence(node, result)
        if result is None or result is NotImplemented:
            node.meta["val"] = None
            return Constant(result)
        self.m.recorder.erase_last(node)  # a fact about the tensor, not an operation
        return constant(self.m, result)

    def tensor(self, node: Any, result: torch.Tensor) -> Value:
        if type(result) not in (torch.Tensor, torch.nn.Parameter):
            raise GraphBreak(reasons.TENSOR_KIND, f"a {type(result).__name__}")
        if result.layout is not torch.strided or result.is_quantized:
            return UnknownValue(node, torch.Tensor, reasons.TENSOR_KIND, metas.name_of(node.target))
        known = self.known.get(id(result))
        node.meta["val"], node.meta["device"] = result, self.device
        if known is not None:
            if self.writes:
                return known
            if known.exact_layout:  # eager returns its argument, too
                if self.m.recorder.nodes[-1] is node:
                    self.m.recorder.erase_last(node)
                return known
            result = result.view_as(result)
        return TensorValue(node, result, self.device, torch.Tensor, self.exact)

    def sequence(self, node: Any, result: Any) -> Value:
        node.meta["val"] = result
        if not isinstance(result, (tuple, list)):
            raise GraphBreak(reasons.TENSOR_KIND, f"a result of type {type(result).__name__}")
        items = []
        for i, item in enumerate(result):
            if isinstance(item, (torch.Tensor, tuple, list)):
                part = self.m.recorder.call("call_function", operator.getitem, (node, i), {}, node.meta["position"])
                items.append(self.value(part, item))
            else:
                items.append(constant(self.m, item))
        if isinstance(result, list):
            return new_list(self.m, items)
        return TupleValue(tuple(items), type(result))
