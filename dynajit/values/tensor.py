"""Tensors: a node of the graph and, as a meta tensor, everything but the data."""

from __future__ import annotations

import operator
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.source import Attr, InstanceAttr, Source
from dynajit.symbol import Number
from dynajit.values.base import Emitter, Tracer, Value
from dynajit.values.constant import Constant
from dynajit.values.wrap import kind, rule

# Attributes that are facts about a tensor, known from its meta tensor.
FACTS = frozenset({"dtype", "ndim", "layout", "requires_grad", "is_sparse", "is_quantized", "is_mkldnn",
                   "is_nested", "itemsize", "names", "is_meta", "is_cuda", "is_cpu"})  # fmt: skip
# Attributes that are tensors computed from it, recorded as they stand.
COMPUTED = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})
# Methods that look at the data or the memory of the tensor object itself.
NEEDS_DATA = frozenset({"numpy", "__array__", "__bool__", "__index__", "__complex__", "__dlpack__", "__contains__",
                        "data_ptr", "untyped_storage", "storage", "__format__", "__repr__", "__str__",
                        "__reduce_ex__", "__deepcopy__"})  # fmt: skip
# Methods that act on the autograd graph or on the tensor object itself.
AUTOGRAD = frozenset({"backward", "register_hook", "register_post_accumulate_grad_hook", "retain_grad", "detach_",
                      "set_", "share_memory_", "pin_memory", "rename_",
                      "apply_", "map_", "map2_", "to_dense", "__setstate__"})  # fmt: skip
# Whether these agree with eager depends on the kernel that made the tensor.
LAYOUT_FACTS = frozenset({"stride", "is_contiguous", "is_non_overlapping_and_dense", "storage_offset"})


@dataclass(frozen=True, eq=False)
class TensorValue(Value):
    """node: the fx node. meta: a meta tensor of its shape, strides, dtype and requires_grad. device: where it is.

    exact_layout: its strides are eager's own, not those of the meta kernel.
    other, sizes: only when some size is symbolic. The meta tensor in the other call (dynajit/symbol.py); for each
    dimension a constant, a symbol, or None where only the run can tell.
    """

    node: Any
    meta: torch.Tensor
    device: torch.device
    cls: type = torch.Tensor
    exact_layout: bool = True
    other: torch.Tensor | None = None
    sizes: tuple[Number | None, ...] | None = None

    kind = "tensor"

    def python_type(self) -> type:
        return self.cls

    def of_class(self, cls: type) -> TensorValue:
        return replace(self, cls=cls)

    def describe(self) -> str:
        name = self.source.text if self.source is not None else self.node.name
        return f"tensor {name}"

    def identity(self) -> Any:
        return ("node", self.node)

    def getattr(self, m: Tracer, name: str) -> Value:
        if name == "device":
            return m.constant(self.device)
        if name in ("is_cuda", "is_cpu", "is_meta"):
            return Constant(self.device.type == name[3:])
        if name == "shape":
            return m.shape(self)
        if name == "nbytes":
            return m.binary("*", m.element_count(self), m.constant(self.meta.itemsize))
        if name in FACTS:
            return m.constant(getattr(self.meta, name))
        if name in COMPUTED:
            return m.record("call_function", getattr, (self, Constant(name)), {})
        if name == "is_leaf" or (name == "grad_fn" and self.meta.grad_fn is None):
            if self.source is not None:
                m.guard(Attr(self.source, "is_leaf"), "EQUALS", m.real_tensor(self).is_leaf)
            return Constant(self.meta.is_leaf if name == "is_leaf" else None)
        if name == "grad" and self.source is not None and m.real_tensor(self).is_leaf:
            return self._gradient(m)
        if name in ("grad", "grad_fn", "_base", "_version"):
            raise GraphBreak(reasons.AUTOGRAD, f"{self.describe()}.{name}")
        if name == "__class__":
            return m.constant(self.cls)
        if callable(getattr(torch.Tensor, name, None)):
            return TensorMethod(self, name)
        if not hasattr(self.meta, name):
            return self._own_attribute(m, name)
        raise GraphBreak(reasons.NO_OPERATION, f"attribute {name!r} of {self.describe()}")

    def _gradient(self, m: Tracer) -> Value:
        """What was set here, or what the tensor came with: nothing in a graph computes gradients."""
        assert self.source is not None
        found = m.gradients().get(self.node)
        if found is not None:
            return found
        m.guard(Attr(self.source, "is_leaf"), "EQUALS", True)
        return m.wrap(m.real_tensor(self).grad, Attr(self.source, "grad"))

    def _own_attribute(self, m: Tracer, name: str) -> Value:
        """An attribute that the user put on an existing tensor."""
        if self.source is not None:
            own = getattr(m.real_tensor(self), "__dict__", {})
            if name in own:
                return m.wrap(own[name], InstanceAttr(self.source, name))
            m.guard(self.source, "INSTANCE_ABSENT", None, name)
        m.throw(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")

    def setattr(self, m: Tracer, name: str, value: Value) -> None:
        value = m.realize(value)
        if m.asks_class(self, value):
            raise GraphBreak(reasons.TENSOR_KIND, f"setting .{name} of {self.describe()}")
        if name == "requires_grad":
            m.call_method(self, "requires_grad_", value)
        elif name == "grad" and self.source is not None and self._takes_gradient(m, value):
            m.record_effect(setattr, (self, Constant("grad"), value), writes=True)
            m.set_gradient(self.node, value)
        elif name == "data" and isinstance(value, TensorValue) and self._takes(value):
            m.record("call_function", setattr, (self, Constant("data"), value), {})
        else:
            raise GraphBreak(reasons.AUTOGRAD, f"setting .{name} of {self.describe()}")

    def _takes_gradient(self, m: Tracer, value: Value) -> bool:
        if not m.real_tensor(self).is_leaf or self.other is not None:
            return False
        if isinstance(value, Constant):
            return value.value is None
        same = isinstance(value, TensorValue) and value.meta.shape == self.meta.shape and value.other is None
        return same and value.meta.dtype == self.meta.dtype and value.device == self.device  # type: ignore[attr-defined]

    def _takes(self, other: TensorValue) -> bool:
        """Whether its data can become the other's without a change of what is known of it."""
        mine, new = self.meta, other.meta
        same = mine.shape == new.shape and mine.stride() == new.stride() and mine.dtype == new.dtype
        known = self.other is None and other.other is None and other.exact_layout
        return same and known and self.device == other.device

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        m.throw(TypeError, "'Tensor' object is not callable")

    def getitem(self, m: Tracer, key: Value) -> Value:
        return m.record("call_function", operator.getitem, (self, key), {})

    def setitem(self, m: Tracer, key: Value, value: Value) -> None:
        m.record("call_function", operator.setitem, (self, key, value), {})

    def length(self, m: Tracer) -> int:
        if m.asks_class(self):
            raise GraphBreak(reasons.TENSOR_KIND, f"the length of {self.describe()}")
        if self.meta.dim() == 0:
            m.throw(TypeError, "len() of a 0-d tensor")
        return int(m.specialise(m.size(self, 0)).value)  # type: ignore[attr-defined]

    def truth(self, m: Tracer) -> bool:
        raise GraphBreak(reasons.BRANCH_ON_TENSOR, self.describe())

    def contains(self, m: Tracer, item: Value) -> bool:
        raise GraphBreak(reasons.TENSOR_DATA, f"`in` on {self.describe()}")

    def iterate(self, m: Tracer) -> Value:
        handled = m.handled_by_class("__iter__", (self,), {})
        if handled is not None:
            return handled
        if self.meta.dim() == 0:
            m.throw(TypeError, "iteration over a 0-d tensor")
        return m.iterate(m.record("call_method", "unbind", (self, Constant(0)), {}))

    def reload(self, emit: Emitter) -> None:
        emit.load_node(self.node)


@dataclass(frozen=True, eq=False)
class TensorMethod(Value):
    """A method of a tensor, bound."""

    owner: TensorValue
    name: str

    kind = "tensor method"

    def python_type(self) -> type:
        return types.BuiltinMethodType

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return call_tensor_method(m, self.owner, self.name, args, kwargs)

    def reload(self, emit: Emitter) -> None:
        emit.load(self.owner)
        emit.instruction("LOAD_ATTR", self.name)


def call_tensor_method(
    m: Tracer, owner: TensorValue, name: str, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """`owner.name(*args, **kwargs)`: recorded as it stands, answered from the meta tensor, or a break."""
    handled = m.handled_by_class(name, (owner, *args), kwargs)
    if handled is not None:
        return handled
    if name == "numpy" and not args:
        return m.array_of(owner, kwargs)
    if name in NEEDS_DATA:
        raise GraphBreak(reasons.TENSOR_DATA, f"{owner.describe()}.{name}()")
    if name == "register_hook" and len(args) == 1 and owner.source is None and owner.meta.requires_grad:
        return m.tensor_hook(owner, args[0])
    if name in AUTOGRAD and not (name in ("retain_grad", "detach_") and owner.source is None):
        raise GraphBreak(reasons.AUTOGRAD, f"{owner.describe()}.{name}()")
    if name in LAYOUT_FACTS and not owner.exact_layout:
        raise GraphBreak(reasons.LAYOUT, f"{owner.describe()}.{name}()")
    if name == "__getitem__":
        return owner.getitem(m, args[0])
    if name == "__setitem__":
        owner.setitem(m, *args)
        return Constant(None)
    if name == "is_inference":  # meta tensors are never made in inference mode
        raise GraphBreak(reasons.TENSOR_DATA, f"{owner.describe()}.{name}()")
    if name == "__len__":
        if owner.meta.dim() == 0:
            m.throw(TypeError, "len() of a 0-d tensor")
        return m.size(owner, 0)
    if name in ("numel", "nelement") and not args and not kwargs:
        return m.element_count(owner)
    if name == "size" and not kwargs and len(args) <= 1:
        found = _size(m, owner, args)
        if found is not None:
            return found
    if name == "__iter__":
        return owner.iterate(m)
    if name == "get_device":
        return Constant(owner.device.index if owner.device.type != "cpu" else -1)
    if name == "type" and not kwargs:
        return _type(m, owner, args)
    if name == "as_subclass" and len(args) == 1 and not kwargs:
        return m.as_subclass(owner, args[0])
    if name == "new":
        args = sizes_apart(m, args)
    if name == "requires_grad_" and owner.source is not None and _leaf_fact(owner) is False:
        raise GraphBreak(reasons.AUTOGRAD, f"{owner.describe()}.requires_grad_()")
    if name in ("resize_", "resize_as_") and (owner.source is not None or owner.other is not None):
        raise GraphBreak(reasons.AUTOGRAD, f"{owner.describe()}.{name}()")
    if name in ("cpu", "cuda") and not args and not kwargs and owner.device.type == name:
        return owner  # eager returns the tensor itself
    return m.record("call_method", name, (owner, *args), kwargs)


def sizes_apart(m: Tracer, args: Sequence[Value]) -> Sequence[Value]:
    """A `torch.Size` as the only argument is a shape where a tuple would be data: numbers say so in the graph."""
    size = m.realize(args[0]) if len(args) == 1 else None
    if size is None or size.python_type() is not torch.Size:
        return args
    numbers = m.unpack(size)
    if not numbers:
        raise GraphBreak(reasons.NO_OPERATION, "a tensor made with an empty torch.Size")
    return numbers


def _size(m: Tracer, owner: TensorValue, args: Sequence[Value]) -> Value | None:
    """`owner.size()` or `owner.size(dim)`; None where PyTorch shall say what is wrong."""
    if not args or (isinstance(args[0], Constant) and args[0].value is None):
        return m.shape(owner)
    dim = args[0].value if isinstance(args[0], Constant) else None
    rank = owner.meta.dim()
    return m.size(owner, dim % rank) if type(dim) is int and -rank <= dim < rank else None


def type_name(dtype: torch.dtype, device: torch.device) -> str:
    """What `type()` says of such a tensor."""
    name = torch.empty(0, dtype=dtype).type()
    return name if device.type == "cpu" else name.replace("torch.", f"torch.{device.type}.")


_DTYPES = {type_name(dtype, torch.device("cpu")): dtype for dtype in (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool)}  # fmt: skip


def _type(m: Tracer, owner: TensorValue, args: Sequence[Value]) -> Value:
    """`tensor.type()`, and `tensor.type(torch.LongTensor)` as the conversion that it is."""
    if not args:
        return Constant(type_name(owner.meta.dtype, owner.device))
    wanted = m.realize(args[0])
    cls = getattr(wanted, "cls", None)
    name = f"{cls.__module__}.{cls.__name__}" if isinstance(cls, type(torch.FloatTensor)) else None
    if isinstance(wanted, Constant) and isinstance(wanted.value, str):
        name = wanted.value
    if name is None:
        return m.record("call_method", "type", (owner, *args), {})
    if name not in _DTYPES or owner.device.type != "cpu":
        raise GraphBreak(reasons.NO_OPERATION, f"Tensor.type({name})")
    return m.record("call_method", "to", (owner, Constant(_DTYPES[name])), {})


def _leaf_fact(owner: TensorValue) -> bool:
    return owner.meta.is_leaf


def dense(obj: torch.Tensor) -> bool:
    """Whether the tensor is one that the graph can hold: strided, real, not nested, no functorch wrapper."""
    plain_layout = obj.layout is torch.strided and not obj.is_nested and not obj.is_quantized
    plain_layout = plain_layout and not obj.is_conj() and not obj.is_neg()
    return plain_layout and not torch._C._functorch.is_functorch_wrapped_tensor(obj)


@kind(torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
def wrap_tensor(m: Tracer, obj: torch.Tensor, source: Source) -> Value:
    if not dense(obj):
        m.guard(source, "TYPE_IS", type(obj))
        raise GraphBreak(reasons.TENSOR_KIND, source.text)
    return m.graph_input(obj, source)  # type: ignore[no-any-return]


@rule(0, lambda obj: isinstance(obj, torch.Tensor))
def wrap_tensor_subclass(m: Tracer, obj: torch.Tensor, source: Source) -> Value:
    m.guard(source, "TYPE_IS", type(obj))
    raise GraphBreak(reasons.TENSOR_KIND, f"{source.text} ({type(obj).__name__})")
