"""A torch-level call -> the aten calls it makes, seen on meta tensors: no data, no FakeTensor, no tracer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dynajit.lower.build import broadcast
from dynajit.lower.shapes import META, RULES, NoRule, is_dense


@dataclass(frozen=True, eq=False)
class Call:
    """One aten call; tensors in args and result are the meta tensors of the run."""

    op: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any


@dataclass(frozen=True, eq=False)
class Record:
    """What one torch-level call did. error: it could not be run on meta tensors, so nothing is known of it."""

    calls: tuple[Call, ...] = ()
    result: Any = None
    error: str = ""
    warned: bool = False


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down each aten call. Factories are turned to the meta device, whatever device they name."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # torch/utils/_python_dispatch.py wraps a mode's __torch_dispatch__ in torch._disable_dynamo unless this says
        # no, and the first call of that wrapper imports torch._dynamo (1.4 s).
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = _result(func, args, kwargs)
        self.calls.append(Call(func, args, kwargs, result))
        return result


def _result(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call returns, by the cheapest way that knows."""
    if func._schema.is_mutable:
        if func._schema.name.endswith("_") and torch.Tag.inplace_view not in func.tags:
            return args[0]
    elif func in RULES:
        try:
            return RULES[func](*args, **kwargs)
        except (NoRule, TypeError, IndexError):
            pass  # the meta kernel knows, or raises what eager raises
    elif torch.Tag.pointwise in func.tags:
        return elementwise(func, args, kwargs)
    if kwargs.get("device") is not None:
        kwargs = {**kwargs, "device": META}
    return func(*args, **kwargs)


def is_random(func: Any, args: Sequence[Any]) -> bool:
    """Does a call draw random numbers? Attention does only with dropout."""
    if func is torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default:
        return len(args) > 3 and args[3] != 0.0
    return torch.Tag.nondeterministic_seeded in func.tags


def record(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Record:
    """Run a call on meta tensors. Whatever it raises means that eager has to run it, so nothing is let through."""
    recorder = Recorder()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with torch.no_grad(), recorder:
                result = function(*args, **kwargs)
        except Exception as error:
            return Record(error=f"{type(error).__name__}: {error}".split("\n")[0])
    return Record(tuple(recorder.calls), result, warned=bool(caught))


def meta_like(tensor: torch.Tensor) -> torch.Tensor:
    """A meta tensor with the size, strides and dtype of a real one."""
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=META)


def elementwise(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """What an elementwise operation returns.

    Not by running it on meta tensors: that goes through torch._refs, which costs 50-500 us a call and whose promotion
    wrapper imports torch._dynamo (torch/_prims_common/wrappers.py, _disable_dynamo). The dtype is asked of a real
    call on single elements.
    """
    tensors = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, torch.Tensor)]
    shape = broadcast([tuple(tensor.shape) for tensor in tensors])
    signature = (func, tuple(map(_kind, args)), tuple((name, _kind(arg)) for name, arg in kwargs.items()))
    dtype = _DTYPES.get(signature)
    if dtype is None:
        made = func(*map(_one, args), **{name: _one(arg) for name, arg in kwargs.items()})
        if not isinstance(made, torch.Tensor):
            raise TypeError(f"{func} returns more than a tensor")
        dtype = _DTYPES[signature] = made.dtype
    numbers = any(
        _is_number(arg) for arg, spec in zip(args, func._schema.arguments, strict=False) if spec.name == "other"
    )
    strides = elementwise_strides(tensors, shape, not numbers)
    return torch.empty_strided(shape, strides, dtype=dtype, device=META)


def _is_number(arg: Any) -> bool:
    return isinstance(arg, (bool, int, float, complex))


_DTYPES: dict[Any, torch.dtype] = {}  # by what promotion looks at; bounded by the number of operations and dtypes


def _kind(arg: Any) -> Any:
    if isinstance(arg, torch.Tensor):
        return arg.dtype, arg.dim() > 0, torch.get_default_dtype()
    return arg if isinstance(arg, (str, torch.dtype)) else type(arg)


def _one(arg: Any) -> Any:
    return torch.ones([1] * arg.dim(), dtype=arg.dtype) if isinstance(arg, torch.Tensor) else arg


def elementwise_strides(tensors: Sequence[torch.Tensor], shape: Sequence[int], alike: bool = True) -> Sequence[int]:
    """Strides that TensorIterator gives a result: row-major if all operands are, else a common order of dimensions.

    alike: whether these are all operands; a number beside them is an operand without dimensions.
    """
    order = list(range(len(shape)))[::-1]  # fastest first
    if len(shape) > 1 and not all(tensor.dim() == 0 or _is_row_major(tensor) for tensor in tensors):
        if alike and all(tensor.shape == torch.Size(shape) for tensor in tensors):  # TensorIteratorBase::fast_set_up
            if all(tensor.is_contiguous() for tensor in tensors):
                return _packed(order, shape)
            if len(shape) in CHANNELS_LAST and all(
                tensor.is_contiguous(memory_format=CHANNELS_LAST[len(shape)]) for tensor in tensors
            ):
                return _packed([1, *order[:-2], 0], shape)
            same = all(tensor.stride() == tensors[0].stride() for tensor in tensors)
            if same and is_dense(tensors[0]):
                return tensors[0].stride()
        strides = [_broadcast_strides(tensor, shape) for tensor in tensors]
        for i in range(1, len(order)):  # TensorIteratorBase::reorder_dimensions, an insertion sort
            at = i
            for other in range(i - 1, -1, -1):
                swap = _compare(order[other], order[at], strides, shape)
                if swap < 0:
                    break
                if swap > 0:
                    order[other], order[at] = order[at], order[other]
                    at = other
    return _packed(order, shape)


def _is_row_major(tensor: torch.Tensor) -> bool:
    """Contiguous, and a dimension of size 1, which may have any stride, has the one that is expected."""
    order = range(tensor.dim())[::-1]
    return tensor.stride() == tuple(_packed(list(order), tensor.shape))


CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def _packed(order: list[int], shape: Sequence[int]) -> list[int]:
    """Strides without gaps, the first dimension of `order` fastest."""
    made, step = [0] * len(shape), 1
    for dim in order:
        made[dim] = step
        step *= max(shape[dim], 1)
    return made


def _broadcast_strides(tensor: torch.Tensor, shape: Sequence[int]) -> list[int]:
    lead = len(shape) - tensor.dim()
    own = [
        0 if size == 1 != wanted else stride
        for size, stride, wanted in zip(tensor.shape, tensor.stride(), shape[lead:], strict=True)
    ]
    return [0] * lead + own


def _compare(dim0: int, dim1: int, strides: list[list[int]], shape: Sequence[int]) -> int:
    """Is dim0 slower (1) or faster (-1) than dim1? The first operand that says something decides."""
    for stride in strides:
        a, b = stride[dim0], stride[dim1]
        if a == 0 or b == 0:
            continue
        if a != b:
            return -1 if a < b else 1
        if shape[dim0] > shape[dim1]:
            return 1
    return 0
