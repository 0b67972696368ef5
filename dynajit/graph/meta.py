"""What a torch call returns, without data: the call is made on meta tensors.

Meta tensors answer in microseconds where `FakeTensorMode` takes tens of them and 1.5 s to import. They do not know the
device (it is inferred here) and, for operations with several kernels, not eager's strides (`EXACT_LAYOUT` lists those
whose layout is certain).
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._compile import _disable_dynamo
from torch._decomp import global_decomposition_table

from dynajit.graph import pointwise

META = torch.device("meta")

# Functions that make tensors from numbers. They take `device=`.
CREATION = frozenset(
    getattr(torch, name)
    for name in (
        "zeros", "ones", "empty", "full", "arange", "linspace", "logspace", "eye", "rand", "randn", "randint",
        "randperm", "tensor", "scalar_tensor", "empty_strided", "tril_indices", "triu_indices", "range",
        "hann_window", "hamming_window", "blackman_window", "bartlett_window", "as_tensor",
    )
)  # fmt: skip
# Functions and methods that take `device=` beside a tensor that gives the default.
LIKE = frozenset({"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like",
                  "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "new_empty_strided"})  # fmt: skip

_POINTWISE = """
add sub mul div true_divide floor_divide remainder fmod pow neg abs exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin
cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh sigmoid relu relu6 gelu silu mish elu selu celu leaky_relu
hardtanh hardswish hardsigmoid softplus softsign logsigmoid erf erfc erfinv sign floor ceil round trunc frac reciprocal
square clamp clamp_min clamp_max clip maximum minimum fmax fmin where eq ne lt le gt ge logical_and logical_or
logical_not logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not lerp addcmul addcdiv masked_fill isnan isinf
isfinite nan_to_num hypot copysign heaviside threshold dropout lshift rshift and_ or_ xor invert truediv floordiv mod
iadd isub imul itruediv ifloordiv iand ior ixor ipow imod to float double half bfloat16 int long bool type_as clone
positive absolute negative subtract multiply divide ones_like zeros_like empty_like full_like rand_like randn_like
""".split()
_VIEWS = """
view reshape transpose permute t T mT H squeeze unsqueeze expand expand_as flatten unflatten narrow select getitem split
chunk unbind swapaxes movedim detach view_as contiguous diagonal swapdims unfold adjoint tensor_split ravel reshape_as
""".split()
_REST = """
sum mean prod amax amin max min argmax argmin any all var std logsumexp softmax log_softmax cumsum norm matmul mm bmm
linear layer_norm rms_norm embedding cat stack zeros ones empty full arange linspace eye rand randn randint tensor
scalar_tensor tril triu one_hot new_zeros new_ones new_full new_empty addmm baddbmm outer dot mv index_select gather
repeat masked_fill_ getattr Parameter Variable roll flip mse_loss l1_loss
""".split()
# Functions that draw random numbers, or may.
RANDOM = frozenset({"rand", "randn", "randint", "randperm", "dropout", "bernoulli", "multinomial", "normal", "uniform",
                     "rand_like", "randn_like", "randint_like", "alpha_dropout", "feature_alpha_dropout", "rrelu",
                     "dropout1d", "dropout2d", "dropout3d", "gumbel_softmax", "fractional_max_pool2d", "exponential",
                     "scaled_dot_product_attention", "multi_head_attention_forward", "random", "geometric", "cauchy",
                     "log_normal", "poisson"})  # fmt: skip
EXACT_LAYOUT = frozenset([*_POINTWISE, *_VIEWS, *_REST])


def _spare_the_import() -> None:
    """Keep PyTorch's Python shape rules from importing its compiler.

    Rules wrapped by `torch._disable_dynamo` import torch._dynamo at their first call (1.4 s) to be excluded from its
    capture, and remember the result as `__dynamo_disable` (torch/_compile.py). Where it is not loaded
    there is nothing to be excluded from.
    """
    if "torch._dynamo" in sys.modules:
        return
    for table in global_decomposition_table.values():
        for rule in table.values():
            _mark(rule)


def _mark(rule: Any) -> None:
    """Walk through the wrappers of one rule. `__wrapped__` skips some; closures have them all."""
    code = getattr(rule, "__code__", None)
    if code is None or hasattr(rule, "__dynamo_disable"):
        return
    for name, cell in zip(code.co_freevars, rule.__closure__ or (), strict=True):
        if name == "fn" and callable(cell.cell_contents):
            _mark(cell.cell_contents)
            if code is _DISABLING:
                cell.cell_contents.__dynamo_disable = cell.cell_contents


_DISABLING = _disable_dynamo(_mark).__code__
_spare_the_import()


def meta_like(real: torch.Tensor) -> torch.Tensor:
    """A meta tensor with the size, strides, dtype and requires_grad of a real one."""
    meta = torch.empty_strided(
        real.size(), real.stride(), dtype=real.dtype, device=META, requires_grad=real.requires_grad and real.is_leaf
    )
    if real.requires_grad and not real.is_leaf:
        meta = torch.empty_strided(real.size(), real.stride(), dtype=real.dtype, device=META, requires_grad=True)
        with torch.enable_grad():
            copy = meta.view_as(meta).clone(memory_format=torch.preserve_format)
        return copy if copy.stride() == meta.stride() else meta
    return meta


def meta_of(like: torch.Tensor, sizes: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    """A meta tensor of these sizes and strides, in everything else like another tensor."""
    meta = torch.empty_strided(sizes, strides, dtype=like.dtype, device=META)
    if like.requires_grad:
        meta.requires_grad_()
        if not like.is_leaf:
            with torch.enable_grad():
                return meta.view_as(meta)
    return meta


def name_of(target: Any) -> str:
    """The bare name of a function, operator or method."""
    if isinstance(target, str):
        return target.rstrip("_") if not target.startswith("__") else target.strip("_")
    return str(getattr(target, "__name__", target)).rstrip("_")


# In evaluation the CPU kernels save no statistics (aten/src/ATen/native/Normalization.cpp); the meta rule says they do.
_STATISTICS = frozenset({"native_batch_norm", "_native_batch_norm_legit"})


def run(op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Make the call on meta tensors. `args` and `kwargs` hold meta tensors where the program has tensors."""
    args, kwargs = list(args), dict(kwargs)
    name = name_of(target)
    if (target in CREATION if not isinstance(target, str) else name in LIKE) or name in LIKE:
        kwargs["device"] = META
    elif op == "call_method" and name in ("to", "cuda", "cpu"):
        return _to(name, args, kwargs)
    elif "device" in kwargs:
        kwargs["device"] = META
    if not writes_to(target):
        quick = pointwise.result(name, args, kwargs)
        if quick is not None:
            return quick
    if name in _STATISTICS and len(args) > 5 and not args[5]:
        result = target(*args, **kwargs)
        return (result[0], *(saved.new_empty(0) for saved in result[1:]))
    if op == "call_method":
        return getattr(args[0], target)(*args[1:], **kwargs)
    if target is operator.setitem and any(mask.dtype in (torch.bool, torch.uint8) for mask in tensors_in(args[1])):
        return _write_by_mask(args[0], args[2])
    return target(*args, **kwargs)


def _write_by_mask(target: torch.Tensor, value: Any) -> None:
    """`target[mask] = value`: whatever the mask selects, the size stays."""
    if isinstance(value, torch.Tensor) and value.requires_grad and torch.is_grad_enabled():
        target.add_(value.sum())
    else:
        target.zero_()


def _to(name: str, args: list[Any], kwargs: dict[str, Any]) -> torch.Tensor:
    """`tensor.to(...)` without the device: the caller looks after that."""
    kwargs.pop("device", None)
    rest = [META if isinstance(arg, (str, torch.device)) else arg for arg in args[1:]]
    result: torch.Tensor = args[0].to(*rest, **kwargs) if rest or kwargs else args[0]
    return result


def device_of(
    op: str,
    target: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    tensors: Iterable[tuple[torch.Tensor, torch.device]],
) -> torch.device | None:
    """Where the result is: as asked for, or where the tensors are; None when eager would refuse the mixture."""
    asked = kwargs.get("device")
    if asked is None and op == "call_method" and target == "to":
        asked = next((arg for arg in args[1:] if isinstance(arg, (str, torch.device))), None)
        like = [device for meta, device in list(tensors)[1:2]]
        asked = asked if asked is not None else (like[0] if like else None)
    if op == "call_method" and target in ("cpu", "cuda"):
        asked = target
    if asked is not None:
        return _indexed(torch.device(asked))
    found = list(tensors)
    if not found:
        return torch.device("cpu")
    places = {device for meta, device in found if meta.dim() > 0} or {found[0][1]}
    return places.pop() if len(places) == 1 else None


def _indexed(device: torch.device) -> torch.device:
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def changes_device(device: torch.device, tensors: Sequence[tuple[torch.Tensor, torch.device]]) -> bool:
    return bool(tensors) and device != tensors[0][1]


def is_exact(target: Any, inputs: Sequence[tuple[torch.Tensor, bool]]) -> bool:
    """Whether the strides of the result are those of a real call. inputs: (meta tensor, whether its own strides are).

    Where a dimension of size 0 or 1 has an odd stride, PyTorch's meta rules and kernels do not agree.
    """
    return name_of(target) in EXACT_LAYOUT and all(exact and _has_one_order(meta) for meta, exact in inputs)


def _has_one_order(tensor: torch.Tensor) -> bool:
    if all(size > 1 for size in tensor.shape):
        return True
    expected = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if size == 0 or stride != expected:
            return False
        expected *= size
    return True


@functools.cache
def writes_to(target: Any) -> bool:
    """Whether the call changes its first argument: the returned tensor is that very object."""
    if isinstance(target, str):
        return (target.endswith("_") and not target.endswith("__")) or (
            target.startswith("__i") and target != "__invert__" and target not in ("__index__", "__int__")
        )
    if target in (operator.setitem, operator.delitem, setattr):
        return True
    name = getattr(target, "__name__", "")
    if getattr(target, "__module__", "") in ("operator", "_operator"):
        return name in {"iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand", "ior",
                        "ixor", "ilshift", "irshift"}  # fmt: skip
    return name.endswith("_") and not name.endswith("__")


# Functions that may return their argument itself without having changed it.
RETURN_THEMSELVES = frozenset(
    """
to contiguous float double half bfloat16 int long bool type_as cpu cuda reshape expand dropout squeeze view flatten
positive alias resolve_conj resolve_neg broadcast_to getitem dropout1d dropout2d dropout3d alpha_dropout
""".split()
)


def versions(tensors: Iterable[Any]) -> list[int] | None:
    """How often each tensor was written to; None in inference mode, where PyTorch does not count."""
    metas = [value.meta for value in tensors]
    return None if any(meta.is_inference() for meta in metas) else [meta._version for meta in metas]


def tensors_in(structure: Any) -> Iterator[torch.Tensor]:
    if isinstance(structure, torch.Tensor):
        yield structure
    elif isinstance(structure, (tuple, list)):
        for item in structure:
            yield from tensors_in(item)
    elif isinstance(structure, dict):
        for item in structure.values():
            yield from tensors_in(item)
