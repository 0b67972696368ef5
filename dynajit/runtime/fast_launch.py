"""The C launcher: found and tried out once; where anything looks different from what it expects, Python launches."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from dynajit.codegen.kernel import Operand
from dynajit.runtime.launch import PLAIN, Binary, Launch, python_launch
from dynajit.runtime.mathlib import address

ENVIRONMENT = "DYNAJIT_SPARE_MB"
SHIM = ("get_data_ptr", "get_sizes", "get_strides", "get_dim", "get_dtype")


def launcher(binary: Binary) -> Launch:
    """What launches a kernel fastest on this machine."""
    module = c_module()
    if module is None:
        return python_launch(binary)
    try:
        made: Launch = module.Launch(*table(binary))
    except (ValueError, TypeError):  # a kernel too large for the C tables, or an extension of another version
        return python_launch(binary)
    return made


def table(binary: Binary) -> tuple[Any, ...]:
    """A kernel as launch.c parses it."""
    kernel = binary.kernel
    return (
        binary.address,
        tuple(map(_row, kernel.inputs)),
        tuple(map(_row, kernel.outputs)),
        binary.keeps or (True,) * len(kernel.outputs),
        tuple(operand.dtype for operand in kernel.outputs),
        tuple((size.hint, size.operand, size.dim, size.extent, size.divide) for size in kernel.sizes),
        tuple(loop.axes for loop in kernel.loops),
        kernel.pins,
        "".join("i" if dtype == torch.int64 else "f" for _, dtype in kernel.scalars) + "s" * len(kernel.extents),
        kernel.measures,
        tuple((r.axes, r.factor, r.plus, r.terms, r.exact) for r in kernel.held),
    )


def _row(operand: Operand) -> tuple[Any, ...]:
    steps = tuple(-1 if step is None else step for step in operand.steps)
    kind = _code(operand.dtype), operand.dtype.itemsize
    return *kind, operand.dims, operand.layout, operand.dense, operand.strides, steps, operand.picked, operand.units


@functools.cache
def _code(dtype: torch.dtype) -> int:
    """libtorch's number for a dtype."""
    module = c_module()
    seen = module.facts(torch.empty(1, dtype=dtype)) if module is not None else None
    return seen[3] if seen is not None else -1


@functools.cache
def c_module() -> ModuleType | None:
    """The extension, if it is built and its view of tensors agrees with Python's."""
    try:
        module = importlib.import_module("dynajit.runtime._launch")
        return module if _calibrate(module) else None
    except (ImportError, AttributeError, RuntimeError):
        return None


def spare_bytes() -> int:
    """How much memory of results that nobody holds any more may wait for the next ones: a 32nd of what there is."""
    if os.environ.get(ENVIRONMENT):
        return int(float(os.environ[ENVIRONMENT]) * 2**20)
    return min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 32, 2**28)


def keep_results(module: ModuleType, size: int) -> int:
    """Set how much is kept, and let go of what is; what the limit was before."""
    count = torch._C._storage_Use_Count if size else None
    before: int = module.keep(size, count, torch.is_inference_mode_enabled, _laid_out)
    return before


def _laid_out(storage: Any, dtype: torch.dtype, size: Any, stride: Any) -> torch.Tensor:
    """A new tensor in the memory of an earlier one of as many bytes."""
    return torch.empty(0, dtype=dtype, device="cpu").set_(storage, 0, size, stride).data


def _empty_strided() -> Callable[..., torch.Tensor]:
    """(sizes, strides, dtype) -> a new tensor on the CPU. What PyTorch's own compiled code calls takes half the time of
    `torch.empty_strided` (torch/csrc/dynamo/guards.cpp); where a version lacks it, that one is called.
    """
    fast = getattr(getattr(getattr(torch._C, "_dynamo", None), "guards", None), "_empty_strided_cpu", None)
    if fast is not None:
        made = fast((2, 3), (1, 2), torch.float64)
        if (type(made), made.shape, made.stride(), made.dtype) == (torch.Tensor, (2, 3), (1, 2), torch.float64):
            return fast  # type: ignore[no-any-return]
    return lambda sizes, strides, dtype: torch.empty_strided(sizes, strides, dtype=dtype)


def _calibrate(module: ModuleType) -> bool:
    """Find where a Python tensor keeps its at::Tensor, and that its dispatch keys; then compare what the shim says.

    Nothing is assumed about offsets: `_cdata` is the TensorImpl's address, `_dispatch_keys` its key set, and both are
    looked for as words in memory.
    """
    addresses = tuple(address(f"aoti_torch_{name}") for name in SHIM)
    if not all(addresses):
        return False
    samples = [torch.empty(2, 3), torch.empty(4, dtype=torch.int64), torch.empty(3, 2).t(), torch.empty(())]
    tensor = {module.find_word(id(x), torch.Tensor.__basicsize__, x._cdata) for x in samples}
    keys = [torch._C._dispatch_keys(x).raw_repr() for x in samples]
    key = {module.find_word(x._cdata, 192, raw) for x, raw in zip(samples, keys, strict=True)}
    if len(tensor) != 1 or len(key) != 1 or -1 in tensor | key:
        return False
    plain = functools.reduce(int.__or__, keys)
    module.setup(addresses, tensor.pop(), key.pop(), plain, PLAIN, _empty_strided())
    keep_results(module, spare_bytes())
    odd = torch.empty(2, dtype=torch.complex64).conj().imag  # a float tensor with the negative bit
    return module.facts(odd) is None and all(
        module.facts(x)[:3] == (x.data_ptr(), tuple(x.shape), x.stride()) for x in samples
    )
