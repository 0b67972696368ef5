"""Launching Triton kernels: the text is written to a file, loaded when first needed, and called with a grid.

Nothing here imports Triton by itself: the file of a kernel does, when there is a GPU to run it on.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from dynajit.caching.key import key
from dynajit.caching.store import Store
from dynajit.codegen.kernel import Kernel
from dynajit.codegen.triton import PERSISTENT, TritonKernel, mode_for, print_triton, strides
from dynajit.runtime.launch import Launch, axis_sizes, fits, lookup_numbers, loop_steps, output_strides

# Eager's kernels neither flush denormals nor may a multiplication and an addition be one rounding here.
OPTIONS = {"enable_fp_fusion": False, "enable_reflect_ftz": False}
TILE = 4096  # elements that a program of the default number of warps holds
PART = 65536  # elements of one of few rows that a program reduces
MOST_PARTS = 512
LOOPED = 2048  # elements of a long row that a program takes at a time


def available() -> bool:
    return torch.cuda.is_available() and importlib.util.find_spec("triton") is not None


def load_kernel(printed: TritonKernel, store: Store) -> tuple[Any, Any]:
    """The `@triton.jit` functions of a kernel: Triton wants to read their source from a file."""
    source = printed.source
    path = store.put(key(source), ".py", lambda target: _write(target, source), {})
    spec = importlib.util.spec_from_file_location(f"dynajit_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, printed.name), getattr(module, f"{printed.name}_end", None)


def _write(target: Path, source: str) -> None:
    target.write_text(source)


def triton_launch(
    kernel: Kernel, store: Store, device: str = "cuda", options: Mapping[str, Any] | None = None
) -> Launch:
    """A function that launches a kernel on the device of its tensors, or returns None if it does not fit them."""
    loaded: dict[str, tuple[TritonKernel, Any, Any]] = {}
    tensors = len(kernel.inputs)
    count = tensors + len(kernel.scalars)
    passed = supported_options() if options is None else dict(options)

    def form(mode: str) -> tuple[TritonKernel, Any, Any]:
        if mode not in loaded:
            printed = print_triton(kernel, kernel.name, mode)
            loaded[mode] = printed, *load_kernel(printed, store)
        return loaded[mode]

    def launch(*args: Any) -> Any:
        given = args[:tensors]
        if not all(fits(operand, tensor, device) for operand, tensor in zip(kernel.inputs, given, strict=True)):
            return None
        numbers, extents = args[tensors:count], args[count:]
        sizes = axis_sizes(kernel, given, extents)
        if sizes is None or not _numbers_fit(kernel, numbers):
            return None
        steps = [loop_steps(kernel, op, x.stride(), sizes) for op, x in zip(kernel.inputs, given, strict=True)]
        if any(found is None for found in steps):
            return None
        outputs = []
        for operand in kernel.outputs:
            shape = [prod(sizes[axis] for axis in dim) for dim in operand.dims]
            made = output_strides(operand, shape)
            outputs.append(torch.empty_strided(shape, made, dtype=operand.dtype, device=given[0].device))
            steps.append(loop_steps(kernel, operand, made, sizes))
        turns = [prod(sizes[axis] for axis in loop.axes) for loop in kernel.loops]
        rows = prod(n for n, loop in zip(turns, kernel.loops, strict=True) if not loop.reduced)
        length = prod(n for n, loop in zip(turns, kernel.loops, strict=True) if loop.reduced)
        given_steps = [row[i] for k, i in strides(kernel) if (row := steps[k]) is not None]
        printed, first, end = form(mode_for(kernel, rows, length))
        wide = any(_reach(x) >= 2**31 for x in (*given, *outputs)) or rows * length >= 2**31
        common = (*given, *outputs, *turns, *given_steps, *lookup_numbers(kernel, given), *numbers)
        # Triton launches on the current device and its current stream.
        with torch.cuda.device_of(given[0]):  # type: ignore[no-untyped-call]
            if printed.mode == "parts":
                part = max(PART, -(-length // MOST_PARTS // LOOPED) * LOOPED)
                parts = -(-length // part)
                buffers = [torch.empty(rows * parts, dtype=d, device=given[0].device) for d in printed.parts]
                common = (*common, *buffers, part, parts)
                first[rows * parts,](*common, XBLOCK=1, RBLOCK=LOOPED, WIDE=wide, num_warps=4, **passed)
                end[rows,](*common, XBLOCK=1, RBLOCK=_power(parts), WIDE=wide, num_warps=4, **passed)
            else:
                blocks, warps = shape_of(kernel, rows, length)
                grid = (-(-rows // blocks["XBLOCK"]),)
                first[grid](*common, **blocks, WIDE=wide, num_warps=warps, **passed)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return launch


def shape_of(kernel: Kernel, rows: int, length: int) -> tuple[dict[str, int], int]:
    """Block sizes of a launch, and how many warps share a tile."""
    if not kernel.reduced:
        return {"XBLOCK": 1024}, 4
    across = min(_power(length), LOOPED if length > PERSISTENT else PERSISTENT)
    if kernel.operands and _inner_is_strided(kernel):  # neighbouring rows lie side by side: take many of them
        across = min(across, 64)
        return {"XBLOCK": min(_power(rows), 64), "RBLOCK": across if length > PERSISTENT else _power(length)}, 4
    block = max(1, min(_power(rows), 1024 // across))
    return {"XBLOCK": block, "RBLOCK": across}, max(4, min(16, block * across // 512))


def _inner_is_strided(kernel: Kernel) -> bool:
    last = max(kernel.reduced)
    return all(operand.steps[last] != 1 for operand in kernel.inputs if operand.steps[last] != 0)


def _power(n: int) -> int:
    """The next power of two."""
    return 1 << max(n - 1, 0).bit_length()


def _reach(tensor: torch.Tensor) -> int:
    """The largest offset of an element."""
    return sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _numbers_fit(kernel: Kernel, numbers: tuple[Any, ...]) -> bool:
    return all(
        type(number) is (int if dtype == torch.int64 else float)
        for (_, dtype), number in zip(kernel.scalars, numbers, strict=True)
    )


def supported_options() -> dict[str, Any]:
    """Those of OPTIONS that the installed Triton knows."""
    fields: Callable[..., Any] | Any = getattr(
        importlib.import_module("triton.backends.nvidia.compiler"), "CUDAOptions", None
    )
    return {name: value for name, value in OPTIONS.items() if name in getattr(fields, "__dataclass_fields__", {})}
