"""Shape rules of elementwise operations, norms and softmax on contiguous tensors: answered here, without PyTorch's
Python rules.

Those rules cost about 0.1 ms each and import sympy (0.5 s). What is not certain here goes to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

META = torch.device("meta")
_SAME = "same"  # the common dtype of the arguments
_FLOAT = "float"  # the same, integers become the default dtype
_BOOL = "bool"

_BINARY = {
    "add": _SAME, "sub": _SAME, "mul": _SAME, "truediv": _FLOAT, "true_divide": _FLOAT, "maximum": _SAME,
    "minimum": _SAME, "eq": _BOOL, "ne": _BOOL, "lt": _BOOL, "le": _BOOL, "gt": _BOOL, "ge": _BOOL, "atan2": _FLOAT,
}  # fmt: skip
_UNARY = {
    "exp": _FLOAT, "exp2": _FLOAT, "expm1": _FLOAT, "log": _FLOAT, "log2": _FLOAT, "log10": _FLOAT, "log1p": _FLOAT,
    "sqrt": _FLOAT, "rsqrt": _FLOAT, "sin": _FLOAT, "cos": _FLOAT, "tan": _FLOAT, "tanh": _FLOAT, "sigmoid": _FLOAT,
    "erf": _FLOAT, "sinh": _FLOAT, "cosh": _FLOAT, "relu": _SAME, "abs": _SAME, "neg": _SAME, "square": _SAME,
    "reciprocal": _FLOAT,
}  # fmt: skip
_FLOAT_ONLY = frozenset({"gelu", "silu", "mish", "softplus", "logsigmoid", "elu", "leaky_relu"})


def result(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """The meta tensor that `name(*args, **kwargs)` returns, or None where only PyTorch's rules can tell."""
    if name in _BINARY and len(args) == 2 and not kwargs:
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        numbers = all(isinstance(arg, (torch.Tensor, int, float)) for arg in args)
        how = _BINARY[name]
        if name == "sub" and tensors and any(getattr(arg, "dtype", type(arg)) in (torch.bool, bool) for arg in args):
            raise RuntimeError("subtraction with a bool tensor")  # the meta rule does not say so
        if not tensors or not numbers or not all(map(_is_simple, tensors)):
            return None
        shape = _broadcast(tensors[0].shape, tensors[-1].shape)
        if shape is None:
            return None
        return _made(shape, _dtype(how, torch.result_type(*args)), tensors)
    if name == "layer_norm" and 2 <= len(args) <= 5 and kwargs.keys() <= {*("weight", "bias", "eps")[len(args) - 2 :]}:
        return _layer_norm(*args, **kwargs)
    if name in ("softmax", "log_softmax") and len(args) == 2 and not kwargs:
        return _softmax(*args)
    if len(args) == 1 and isinstance(args[0], torch.Tensor) and _is_simple(args[0]):
        dtype = args[0].dtype
        if name in _UNARY and not kwargs and not (dtype is torch.bool and name in ("neg", "relu", "square")):
            return _made(args[0].shape, _dtype(_UNARY[name], dtype), args)
        if (
            name in _FLOAT_ONLY
            and dtype.is_floating_point
            and all(isinstance(v, (str, float)) for v in kwargs.values())
        ):
            return _made(args[0].shape, dtype, args)
    return None


def _layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> torch.Tensor | None:
    given = [x, *(tensor for tensor in (weight, bias) if tensor is not None)]
    if type(eps) is not float or not all(isinstance(tensor, torch.Tensor) for tensor in given):
        return None
    if not isinstance(shape, (tuple, list)) or not shape or tuple(x.shape[-len(shape) :]) != tuple(shape):
        return None
    same = all(tuple(tensor.shape) == tuple(shape) for tensor in given[1:])
    if not same or not x.is_floating_point() or any(tensor.dtype != x.dtype for tensor in given):
        return None
    return _made(x.shape, x.dtype, given) if all(map(_is_simple, given)) else None


def _softmax(x: Any, dim: Any) -> torch.Tensor | None:
    if not isinstance(x, torch.Tensor) or type(dim) is not int or not x.is_floating_point() or not _is_simple(x):
        return None
    return _made(x.shape, x.dtype, [x]) if -x.dim() <= dim < x.dim() else None


def _broadcast(left: Sequence[int], right: Sequence[int]) -> Sequence[int] | None:
    if left == right:
        return left
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    out = list(longer)
    for i in range(1, len(shorter) + 1):
        n, k = longer[-i], shorter[-i]
        if n != k and 1 not in (n, k):
            return None
        out[-i] = k if n == 1 else n
    return out


def _is_simple(tensor: torch.Tensor) -> bool:
    """Contiguous and without dimensions whose stride could be read in two ways, so that the result is contiguous."""
    return type(tensor) is torch.Tensor and _is_row_major(tensor) and not tensor.is_complex()


def _is_row_major(tensor: torch.Tensor) -> bool:
    """A dimension of size 1 may have any stride in a contiguous tensor, and results can inherit it."""
    expected = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if stride != expected:
            return False
        expected *= size or 1
    return True


def _dtype(how: str, common: torch.dtype) -> torch.dtype:
    if how == _BOOL:
        return torch.bool
    if how == _FLOAT and not common.is_floating_point:
        return torch.get_default_dtype()
    return common


def _made(shape: Sequence[int], dtype: torch.dtype, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    made = torch.empty(shape, dtype=dtype, device=META)
    if dtype.is_floating_point and torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return made.requires_grad_().clone()  # not a leaf
    return made
