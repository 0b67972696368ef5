"""NumPy's functions as operations of a graph: which ones, and what stands in for an array while capturing.

Only functions are here whose result has a type, a dtype and a shape that follow from those of the arguments. With
NumPy 2 that is so for all arithmetic (before, the value of a scalar decided, too).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

# Whether the value of a number plays no role for the dtype of a result (NEP 50).
BY_TYPE = bool(np.result_type(np.float32(3), 3.0) == np.float32)

SIZE_LIMIT = 1 << 20  # elements of one stand-in
TOTAL_LIMIT = 1 << 25  # elements of all stand-ins of a graph

# Which positional arguments may be arrays of the program; all others decide about sizes, and must be known. `*`: all.
_TABLE = """
0    sum prod mean std var min max amin amax argmin argmax any all cumsum cumprod nansum nanprod nanmean nanstd nanvar
     nanmin nanmax nancumsum nancumprod median nanmedian ptp reshape ravel transpose squeeze expand_dims swapaxes
     moveaxis rollaxis flip fliplr flipud rot90 roll repeat tile broadcast_to concatenate stack vstack hstack dstack
     column_stack split array_split hsplit vsplit dsplit diag diagonal diagflat trace tril triu round around fix
     nan_to_num real imag angle sort argsort copy array asarray asanyarray ascontiguousarray asfortranarray zeros_like
     ones_like empty_like diff ediff1d pad unwrap sinc iscomplex isreal isneginf isposinf percentile quantile
     nanpercentile nanquantile average resize permute_dims matrix_transpose
01   full_like dot inner outer vdot kron cross tensordot convolve correlate searchsorted digitize take take_along_axis
     allclose array_equal array_equiv isclose polyval append isin linspace logspace geomspace copyto fill_diagonal
     trapezoid cov corrcoef
012  clip interp select putmask
1    full
*    where einsum meshgrid broadcast_arrays atleast_1d atleast_2d atleast_3d gradient
-    zeros ones empty arange eye identity tri indices vander
"""
_LINALG = "norm trace diagonal outer cross matmul vecdot tensordot matrix_norm vector_norm matrix_transpose"
_FFT = "fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn fftshift ifftshift"
# Functions that are about dtypes and shapes: what they return is known.
FACTS = tuple(
    getattr(np, name)
    for name in ("ndim", "shape", "size", "isscalar", "iscomplexobj", "isrealobj", "result_type", "can_cast",
                 "promote_types", "issubdtype", "broadcast_shapes")
)  # fmt: skip
# Arguments by name that may be arrays.
NAMED_DATA = frozenset("a x y b v arr out where initial min max a_min a_max fill_value start stop weights condition"
                       " prepend append values".split())  # fmt: skip
# Functions that write to their first argument.
WRITES = frozenset({"copyto", "fill_diagonal", "putmask"})
# Functions of which an array of integers is an index: a stand-in of ones may be out of range, zeros only for no items.
INDEXED = frozenset({"getitem", "setitem", "__getitem__", "__setitem__", "take", "take_along_axis", "at", "reduceat"})


def _positions(text: str) -> Sequence[int] | None:
    return None if text == "*" else () if text == "-" else tuple(map(int, text))


def _collect() -> dict[Any, Sequence[int] | None]:
    found: dict[Any, Sequence[int] | None] = {}
    positions: Sequence[int] | None = ()
    for word in _TABLE.split():
        if word in ("0", "01", "012", "1", "*", "-"):
            positions = _positions(word)
        elif hasattr(np, word):
            found[getattr(np, word)] = positions
    for home, names in ((np.linalg, _LINALG), (np.fft, _FFT)):
        for name in names.split():
            if hasattr(home, name):
                found.setdefault(getattr(home, name), (0, 1) if home is np.linalg else (0,))
    for function in vars(np).values():
        if isinstance(function, np.ufunc):
            found[function] = None
            for method in ("reduce", "accumulate", "outer"):
                found[getattr(function, method)] = None if method == "outer" else (0,)
            found[function.at], found[function.reduceat] = (0, 1, 2), (0,)
    return found


# The functions that run in a graph, with the positions of their arguments that may be arrays.
FUNCTIONS = _collect()
TYPES = tuple(dict.fromkeys(vars(np)[name] for name in (
    "float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool_",
    "complex64", "complex128")))  # fmt: skip
# Functions of PyTorch that make tensors of arrays.
CONVERSIONS = frozenset({torch.from_numpy, torch.as_tensor, torch.tensor, torch.asarray})


def is_plain_dtype(dtype: Any) -> bool:
    """Whether it is one of numbers, in this machine's byte order."""
    return dtype.kind in "biufc" and dtype.isnative and dtype.isbuiltin == 1


# Of an array's `flags.num` (numpy/_core/include/numpy/ndarraytypes.h).
WRITEABLE, _ALIGNED, _WARNS = 0x400, 0x100, 1 << 31


def are_plain(flags: int) -> bool:
    """Whether an array is aligned, and not one of which NumPy warns when it is asked whether it is writeable."""
    return bool(flags & _ALIGNED) and not flags & _WARNS


def stand_in(shape: Sequence[int], strides: Sequence[int], dtype: Any, *, writeable: bool = True) -> Any:
    """An array of ones with this layout; None where there is none, or it would be too large."""
    pairs = list(zip(shape, strides, strict=True))
    low = sum(min(0, (n - 1) * s) for n, s in pairs)
    high = sum(max(0, (n - 1) * s) for n, s in pairs)
    count = (high - low) // dtype.itemsize + 1
    if any(stride % dtype.itemsize for stride in strides) or max(count, int(np.prod(shape))) > SIZE_LIMIT:
        return None
    if 0 in shape:
        made: Any = np.empty(shape, dtype)
    else:
        made = np.ndarray(tuple(shape), dtype, np.ones(count, dtype), -low, tuple(strides))
    made.flags.writeable = writeable
    return made


def tensor_stand_in(meta: torch.Tensor) -> torch.Tensor | None:
    """A tensor of ones with the layout of a meta tensor."""
    span = 1 + sum((n - 1) * s for n, s in zip(meta.shape, meta.stride(), strict=True))
    if max(span, meta.numel()) > SIZE_LIMIT:
        return None
    made = torch.empty_strided(meta.shape, meta.stride(), dtype=meta.dtype, device="cpu").fill_(1)
    return made.requires_grad_() if meta.requires_grad else made


def numpy_dtype(dtype: torch.dtype) -> Any:
    """The dtype of `tensor.numpy()`; None where NumPy has none."""
    try:
        return torch.empty(0, dtype=dtype, device="cpu").numpy().dtype
    except TypeError:
        return None


def memory(array: Any) -> Any:
    """The array that owns the memory of a stand-in."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def writable(array: Any) -> Any:
    """The same, to write to: of arrays that are not, PyTorch warns only once in a process."""
    return array if array.flags.writeable else array.copy(order="K")


def zeros_for_indices(array: Any) -> Any:
    """What stands for an array that is an index: the first item, over and over."""
    return np.zeros_like(array) if array.dtype.kind in "iu" else array


def literal(obj: Any) -> Callable[[], Any]:
    """A function for the graph that returns an object which a printed graph cannot name."""

    def get() -> Any:
        return obj

    return named(get, getattr(obj, "__name__", None) or type(obj).__name__)


def method_of(function: Any) -> Callable[..., Any]:
    """`np.add.reduce` and its like, with a name that a printed graph can use."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return named(call, f"numpy_{function.__self__.__name__}_{function.__name__}")


def named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = "".join(c if c.isalnum() else "_" for c in name)
    return function
