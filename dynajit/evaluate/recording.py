"""Putting tensor operations into the graph, and turning what they return into values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate import by_data, overrides, sizes
from dynajit.evaluate.arguments import Arguments
from dynajit.evaluate.other_call import OtherCall
from dynajit.graph import autocast
from dynajit.graph import meta as metas
from dynajit.graph.demands import demand
from dynajit.guards.guard import strides_for, tensor_spec
from dynajit.marks import marks_of
from dynajit.reasons import Reason
from dynajit.source import Call, Size, Source
from dynajit.symbol import UNBACKED_EXAMPLES, Number, Symbol, other_of, unbacked
from dynajit.values import ambient, subclass
from dynajit.values.base import Value
from dynajit.values.constant import TRUSTED, Constant, SymbolicNumber, is_plain
from dynajit.values.klass import ClassValue
from dynajit.values.mapping import new_dict
from dynajit.values.sequence import TupleValue, new_list
from dynajit.values.tensor import TensorValue
from dynajit.values.unknown import UnknownValue
from dynajit.values.value_instance import is_value_class

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine

# Operations that take a Python number as it comes: their result's size and dtype do not depend on its value.
SCALAR_SAFE = frozenset({
    "add", "sub", "mul", "truediv", "iadd", "isub", "imul", "itruediv", "lt", "le", "gt", "ge", "eq", "ne", "div",
    "rsub", "true_divide", "subtract", "multiply", "divide", "fill", "clamp", "masked_fill", "where", "neg",
    "full_like", "maximum", "minimum", "addcdiv", "addcmul", "lerp", "pow", "rpow", "ipow", "clip", "clamp_min",
    "clamp_max", "threshold", "hardtanh", "leaky_relu", "elu", "softshrink", "hardshrink", "nan_to_num", "logit",
    "uniform", "exponential", "batch_norm",
    *(f"_foreach_{name}" for name in ("add", "sub", "mul", "div", "pow", "lerp", "addcdiv", "addcmul", "clamp_min",
                                      "clamp_max", "maximum", "minimum")),
})  # fmt: skip


# Beside sizes, arguments that are numbers as they come: by place and by name.
_FILLS = frozenset({("full", 1), ("full", "fill_value"), ("new_full", 2), ("new_full", "fill_value")})


def constant(m: Machine, obj: Any) -> Value:
    """A value for an object that the evaluator has computed itself."""
    if isinstance(obj, tuple) and not is_value_class(type(obj)):
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
    dims = m.plan.symbolic_dims(source, tuple(obj.shape), marks_of(obj))
    if subclass.is_loud(type(obj)):
        dims = frozenset()
        m.guard(source, "TYPE_IS", type(obj))
        m.guard(Call(source, subclass.facts_of), "EQUALS", subclass.facts_of(obj))
    spec = tensor_spec(obj, dims)
    if not subclass.is_loud(type(obj)):
        m.guard(source, "TENSOR", spec)
    node = m.recorder.placeholder(source.text, m.origin())
    meta = metas.meta_like(obj)
    node.meta["val"], node.meta["device"] = meta, obj.device
    other, numbers = _other_call(m, obj, source, spec) if dims else (None, None)
    if numbers is not None:
        node.meta["sizes"] = {dim: number.other for dim, number in enumerate(numbers) if isinstance(number, Symbol)}
    value = TensorValue(node, meta, obj.device, type(obj), other=other, sizes=numbers, source=source)
    m.inputs[id(obj)] = (value, obj)
    m.input_sources[node] = (source, obj)
    return value


def _other_call(
    m: Machine, obj: torch.Tensor, source: Source, spec: tuple[Any, ...]
) -> tuple[torch.Tensor, tuple[Number, ...]]:
    """What the tensor would be in the other call."""
    _, _, _, _, _, shape, strides, _ = spec
    numbers: tuple[Number, ...] = tuple(
        n if n is not None else m.root(Size(source, dim), obj.shape[dim], size=True) for dim, n in enumerate(shape)
    )
    sizes = [other_of(number) for number in numbers]
    return metas.meta_of(obj, sizes, strides_for(sizes, strides)), numbers


def object_input(m: Machine, obj: Any, source: Source) -> Any:
    found = m.object_inputs.get(id(obj))
    if found is not None and m.recorder.is_alive(found):
        m.guard(source, "SAME", m.input_sources[found][0])
        return found
    node = m.recorder.placeholder(f"{source.text}_object", m.origin())
    m.input_sources[node] = (source, obj)
    m.object_inputs[id(obj)] = node
    return node


def symbolic_number(m: Machine, obj: Any, source: Source) -> Value | None:
    """An int or float that differed between calls becomes an input of the graph."""
    if not m.plan.is_symbolic(source) or (isinstance(obj, float) and not math.isfinite(obj)):
        return None
    known = m.symbolic.get(source)
    if known is not None and m.recorder.is_alive(known.node):
        return known
    m.guard(source, "TYPE_IS", type(obj))
    node = m.recorder.placeholder(source.text, m.origin())
    node.meta["val"] = obj
    m.input_sources[node] = (source, obj)
    symbol = m.root(source, obj)
    node.meta["other"] = symbol.other
    made = SymbolicNumber(node, symbol, source=source)
    m.symbolic[source] = made
    return made


# Functions for which a number of numpy has a dtype.
_TAKE_DTYPES = frozenset({"tensor", "as_tensor", "asarray", "new_tensor", "scalar_tensor", "full"})


def record(m: Machine, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Value:
    """Add `target(*args, **kwargs)` to the graph. What it returns is known from a call on meta tensors."""
    if overrides.wanted(m, [*args, *kwargs.values()]):
        handled = overrides.dispatch(m, target, args, kwargs)
        if handled is not None:
            return handled
    name = metas.name_of(target)
    converter = Arguments(m, name in SCALAR_SAFE)
    triples = [converter.as_given(arg, (name, i) in _FILLS) for i, arg in enumerate(args)]
    named = {key: converter.as_given(arg, (name, key) in _FILLS) for key, arg in kwargs.items()}
    real_args, meta_args = [t[0] for t in triples], [t[1] for t in triples]
    real_kwargs, meta_kwargs = {k: t[0] for k, t in named.items()}, {k: t[1] for k, t in named.items()}
    if converter.numpy and name in _TAKE_DTYPES:
        raise GraphBreak(reasons.OPAQUE_CALL, f"{name} of numpy's numbers")
    placed = [(value.meta, value.device) for value in converter.tensors]
    device = metas.device_of(op, target, meta_args, meta_kwargs, placed)
    if device is None:
        raise GraphBreak(reasons.META_FAILED, f"{name}: tensors on different devices")
    other: OtherCall | None = None
    if converter.differ:
        other = OtherCall(m, op, target, args, kwargs, converter)
    muted = ambient.state(m).muted and any(value.cls not in subclass.PLAIN for value in converter.tensors)
    if muted:
        node = m.recorder.call("call_function", _muted(op, target), real_args, real_kwargs, m.origin())
    else:
        node = m.recorder.call(op, target, real_args, real_kwargs, m.origin())
    before = metas.versions(converter.tensors)
    try:
        result = run_meta(m, op, target, meta_args, meta_kwargs, device)
        if metas.changes_device(device, placed) and isinstance(result, torch.Tensor):
            result = result.clone()
    except Exception as error:
        reason = unanswered(name, error)
        if reason is None or metas.writes_to(target) or metas.versions(converter.tensors) != before:
            raise GraphBreak(reasons.META_FAILED, f"{name}: {str(error).splitlines()[0]}") from None
        node.meta["writes"] = False
        keep_errors_apart(m, node, False, name not in _TELL or any(t.meta.numel() != 1 for t in converter.tensors))
        cls = unknown_class(name, converter.tensors, real_kwargs)
        if cls in UNBACKED_EXAMPLES:
            return SymbolicNumber(node, unbacked(node, cls))
        if name == "tolist":
            listed = _listed(m, node, converter.tensors[0])
            if listed is not None:
                return listed
        if m.unbacked_sizes and cls is torch.Tensor:
            made_up = by_data.result(node, name, meta_args, device)
            if made_up is not None:
                return made_up
        return UnknownValue(node, cls, reason, name)
    exact = metas.is_exact(target, [(value.meta, value.exact_layout) for value in converter.tensors])
    writes = metas.writes_to(target) or metas.versions(converter.tensors) != before
    writes = writes or (before is None and name not in metas.RETURN_THEMSELVES)
    node.meta["writes"] = writes and target != "requires_grad_" and _shows(m, converter.tensors, before)
    if node.meta["writes"] and _overlap(converter.tensors) and errors_show(m):
        raise GraphBreak(reasons.WRITE_AND_ERROR, name)
    risky = may_fail(target, converter.tensors, args) or (other is not None and other.may_fail)
    keep_errors_apart(m, node, node.meta["writes"], risky)
    if other is not None:

        def call(args: Any, kwargs: Any) -> Any:
            return run_meta(m, op, target, args, kwargs, device)

        other.run(call, [t[2] for t in triples], {k: t[2] for k, t in named.items()}, writes, result)
    made = _Result(m, converter, device, exact, writes, other)
    return made.value(node, result, None if other is None else other.result)


def _muted(op: str, target: Any) -> Callable[..., Any]:
    """The call as it is where PyTorch asks no class."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return target(*args, **kwargs) if op == "call_function" else getattr(args[0], target)(*args[1:], **kwargs)

    call.__name__ = call.__qualname__ = target if isinstance(target, str) else getattr(target, "__name__", "call")
    return call


def _overlap(tensors: Sequence[TensorValue]) -> bool:
    """Whether the first shares memory with another one, but not all of it in the same way: to write to it may raise."""
    places = [
        (t.meta.untyped_storage()._cdata, t.meta.storage_offset(), t.meta.shape, t.meta.stride()) for t in tensors
    ]
    return any(place[0] == places[0][0] and place != places[0] for place in places[1:])


def _shows(m: Machine, tensors: Sequence[TensorValue], before: list[int] | None) -> bool:
    """Whether a write is one to memory that existed before the graph: only that cannot be done twice."""
    if m.shares_with_numpy or before is None or any(tensor.source is not None for tensor in tensors[:1]):
        return True
    inputs = {value.meta.untyped_storage()._cdata for value, _ in m.inputs.values()}
    after = metas.versions(tensors) or before
    written = [tensor for tensor, old, new in zip(tensors, before, after, strict=True) if old != new]
    return not written or any(tensor.meta.untyped_storage()._cdata in inputs for tensor in written)


def _listed(m: Machine, node: Any, tensor: TensorValue) -> Value | None:
    """`tensor.tolist()` of a short vector: a list of numbers that the data decides."""
    dtype = tensor.meta.dtype
    if tensor.other is not None or tensor.meta.dim() != 1 or dtype is torch.bool or dtype.is_complex:
        return None
    count = tensor.meta.shape[0]
    if count > LISTED:
        return None
    cls = float if dtype.is_floating_point else int
    items = [m.recorder.call("call_function", operator.getitem, (node, i), {}, m.origin()) for i in range(count)]
    return new_list(m, [SymbolicNumber(item, unbacked(item, cls)) for item in items])


def as_subclass(m: Machine, tensor: TensorValue, cls: Value) -> Value:
    """`tensor.as_subclass(cls)`, for classes that leave PyTorch's functions as they are."""
    cls = m.realize(cls)
    known = isinstance(cls, ClassValue) and (cls.cls is torch.Tensor or subclass.is_modelled(cls.cls))
    if not isinstance(cls, ClassValue) or not known or tensor.other is not None:
        raise GraphBreak(reasons.TENSOR_KIND, f"{tensor.describe()}.as_subclass({cls.describe()})")
    made = cls.cls
    if made is not torch.Tensor:
        subclass.stays_quiet(m, made)

    def convert(given: torch.Tensor) -> Any:
        return given.as_subclass(made)

    convert.__name__ = convert.__qualname__ = f"as_{made.__name__}"
    node = m.recorder.call("call_function", convert, (tensor.node,), {}, m.origin())
    meta = tensor.meta.view_as(tensor.meta)
    node.meta["val"], node.meta["device"], node.meta["writes"] = meta, tensor.device, False
    if made is not torch.Tensor:
        node.meta["class"] = made
    return TensorValue(node, meta, tensor.device, made, tensor.exact_layout)


_TELL = frozenset({"item", "tolist"})  # what a tensor of one element always can

LISTED = 64  # numbers that a list from a tensor may have to be taken apart


def run_meta(
    m: Machine, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], device: torch.device
) -> Any:
    """The call on meta tensors, under the autocast mode that the program has here."""
    casts_to = ambient.state(m).casts_to(device.type)
    if casts_to is not None:
        args, kwargs = autocast.cast(metas.name_of(target), device.type, casts_to, args, kwargs)
    return metas.run(op, target, args, kwargs)


# Facts about a tensor that do not depend on its sizes.
_SIZE_FREE = frozenset(
    """
dim ndimension element_size is_floating_point is_complex is_signed is_pinned is_shared is_inference is_conj is_neg
type get_device is_sparse is_quantized is_same_size result_type promote_types can_cast is_tensor has_names
""".split()
)


def record_effect(m: Machine, target: Any, args: Sequence[Any], *, writes: bool) -> Any:
    """Add a call that changes the state of PyTorch, or tells of it. `writes`: to repeat it makes a difference."""
    converter = Arguments(m, True)
    real = [converter.convert(arg)[0] if isinstance(arg, Value) else arg for arg in args]
    origin = m.origin() if m.frames else m.recorder.nodes[-1].meta["position"]
    node = m.recorder.call("call_function", target, real, {}, origin)
    node.meta["writes"] = writes
    if m.frames:
        keep_errors_apart(m, node, writes, False)
    return node


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


_PLAIN_ALGEBRA = frozenset(
    "linalg_vector_norm linalg_cross linalg_matmul linalg_multi_dot linalg_vecdot linalg_diagonal".split()
)


def may_fail(target: Any, tensors: Sequence[TensorValue], args: Sequence[Any]) -> bool:
    name = metas.name_of(target)
    if name in ("getitem", "setitem"):
        return len(tensors) > (1 if name == "getitem" else 2) or any(
            value.meta.dtype in (torch.int64, torch.int32, torch.bool, torch.uint8) for value in tensors[1:]
        )
    if name in ("floordiv", "mod", "floor_divide", "remainder", "fmod", "ifloordiv", "imod"):
        return any(not value.meta.dtype.is_floating_point for value in tensors)
    return name in _MAY_FAIL or (name.startswith("linalg_") and name not in _PLAIN_ALGEBRA)


def keep_errors_apart(m: Machine, node: Any, writes: bool, risky: bool) -> None:
    """A graph that fails is run again by Python from the start, unless it has written to a tensor.

    So an operation that may fail and a write do not share a graph where the difference would show: inside a try
    statement, or when the program has changed Python objects before.
    """
    node.meta["risky"] = risky
    if writes and any(n.target is demand for n in m.recorder.nodes):
        raise GraphBreak(reasons.WRITE_AND_ERROR, metas.name_of(node.target))
    if not (writes or risky) or not errors_show(m):
        return
    others = m.recorder.nodes[:-1]
    if (writes and any(n.meta.get("risky") for n in others)) or (risky and any(n.meta.get("writes") for n in others)):
        raise GraphBreak(reasons.WRITE_AND_ERROR, metas.name_of(node.target))


def errors_show(m: Machine) -> bool:
    """Whether something happens between an error and the end of the frame, or has happened already."""
    changed = any(key != ambient.KEY for key in m.heap.changed())  # what PyTorch has set, an error leaves set
    return m.is_protected() or changed


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


_AWAITED = "AsyncCollectiveTensor"  # what a functional collective returns; operations wait for it


def _same_memory(left: torch.Tensor, right: torch.Tensor) -> bool:
    return bool(left.untyped_storage()._cdata == right.untyped_storage()._cdata)


class _Result:
    """From what the meta call returned to values."""

    def __init__(
        self, m: Machine, converter: Arguments, device: torch.device, exact: bool, writes: bool, other: OtherCall | None
    ) -> None:
        self.m, self.device, self.exact, self.writes, self.other = m, device, exact, writes, other
        self.known = {id(value.meta): value for value in converter.tensors}

    def value(self, node: Any, result: Any, other: Any) -> Value:
        """other: the result of the other call, where there is one."""
        if isinstance(result, torch.Tensor):
            return self.tensor(node, result, other)
        if any(True for _ in metas.tensors_in(result)):
            return self.sequence(node, result, other)
        if result is None or result is NotImplemented:
            node.meta["val"] = None
            return Constant(result)
        self.m.recorder.erase_last(node)  # a fact about the tensor, not an operation
        if self.other is not None and self.other.name not in _SIZE_FREE:
            sizes.fix(self.m, self.other.converter.roots())
        return constant(self.m, result)

    def tensor(self, node: Any, result: torch.Tensor, other: torch.Tensor | None) -> Value:
        cls = self._class(result)
        if cls.__name__ == _AWAITED:
            result = getattr(result, "elem", result)
        elif type(result) not in (torch.Tensor, torch.nn.Parameter):
            return UnknownValue(node, cls, reasons.TENSOR_KIND, metas.name_of(node.target))
        if result.layout is not torch.strided or result.is_quantized:
            return UnknownValue(node, torch.Tensor, reasons.TENSOR_KIND, metas.name_of(node.target))
        known = self.known.get(id(result))
        node.meta["val"], node.meta["device"] = result, self.device
        if known is not None and cls not in subclass.PLAIN and not issubclass(known.cls, cls):
            result = result.view_as(result)  # another object of the class (`_convert` in torch/_tensor.py)
        elif known is not None:
            if self.writes:
                return known
            if known.exact_layout:  # eager returns its argument, too
                if self.m.recorder.nodes[-1] is node:
                    self.m.recorder.erase_last(node)
                return known
            result = result.view_as(result)
        found = self.other.sizes(result, other) if self.other is not None and other is not None else None
        if cls not in subclass.PLAIN:
            node.meta["class"] = cls
        if found is None or all(type(size) is int for size in found):
            return TensorValue(node, result, self.device, cls, self.exact)
        return TensorValue(node, result, self.device, cls, self.exact, other, found)

    def _class(self, result: torch.Tensor) -> type:
        """The class of the real result: a view of a collective's result is to be waited for, too."""
        if type(result) not in (torch.Tensor, torch.nn.Parameter):
            return type(result)
        for value in self.known.values():
            if value.cls.__name__ == _AWAITED and _same_memory(value.meta, result):
                return value.cls
        if ambient.state(self.m).muted:
            return torch.Tensor
        return subclass.result_class(list(self.known.values()))

    def sequence(self, node: Any, result: Any, other: Any) -> Value:
        node.meta["val"] = result
        if not isinstance(result, (tuple, list)):
            raise GraphBreak(reasons.TENSOR_KIND, f"a result of type {type(result).__name__}")
        items = []
        for i, item in enumerate(result):
            if isinstance(item, (torch.Tensor, tuple, list)):
                part = self.m.recorder.call("call_function", operator.getitem, (node, i), {}, node.meta["position"])
                items.append(self.value(part, item, None if other is None else other[i]))
            else:
                items.append(constant(self.m, item))
        if isinstance(result, list):
            return new_list(self.m, items)
        return TupleValue(tuple(items), type(result))
