"""Compile the kernels of named cases for a GPU target; one line of JSON per case with what the binaries look like."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import traceback
from math import prod
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton_rows import CASES, Case, kernels_of

from dynajit.caching.store import Store
from dynajit.codegen.kernel import Kernel
from dynajit.codegen.triton import print_triton
from dynajit.runtime.gpu import OPTIONS, load_kernel, shape_of

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
POINTER = {
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.bool: "*i1",
    torch.uint8: "*u8",
    torch.int8: "*i8",
    torch.int16: "*i16",
    torch.int32: "*i32",
    torch.int64: "*i64",
}
# What eager does not do: approximate division and root, flushed denormals. (CUDA's own expf has ex2.approx.ftz.)
APPROXIMATE = re.compile(r"div\.(full|approx)|\bsqrt\.approx|(rsqrt\.approx|add|sub|mul|fma|max|min)[.\w]*\.ftz")
WITH_FMA = ("exp", "tanh", "sin", "log", "log1p", "div", "rsqrt", "reciprocal", "fma")


def compile_kernel(kernel: Kernel, target: GPUTarget, store: Store) -> list[Any]:
    """The compiled functions of a kernel: one, or two where rows are reduced in parts."""
    printed = print_triton(kernel, kernel.name)
    functions = [function for function in load_kernel(printed, store) if function is not None]
    rows = prod(loop.hint for loop in kernel.loops if not loop.reduced)
    length = prod(loop.hint for loop in kernel.loops if loop.reduced)
    blocks, warps = shape_of(kernel, rows, length)
    if printed.mode == "parts":
        blocks, warps = {"XBLOCK": 1, "RBLOCK": 2048}, 4
    constants = {**blocks, "WIDE": False}
    pointers = [POINTER[operand.dtype] for operand in kernel.operands]
    kinds = dict.fromkeys(printed.arguments, "i32") | dict(zip(printed.arguments, pointers, strict=False))
    buffers = [name for name in printed.arguments if name.endswith("_parts")]
    kinds |= {name: POINTER[dtype] for name, dtype in zip(buffers, printed.parts, strict=True)}
    signature = kinds | dict.fromkeys(constants, "constexpr")
    divisible = {(i,): [["tt.divisibility", 16]] for i in range(len(pointers))}
    chosen = {"num_warps": warps, **options(target)}
    sources = [ASTSource(fn=f, signature=signature, constexprs=constants, attrs=divisible) for f in functions]
    return [triton.compile(source, target=target, options=chosen) for source in sources]


def options(target: GPUTarget) -> dict[str, Any]:
    if target.backend != "cuda":
        return {"enable_fp_fusion": False}
    from triton.backends.nvidia.compiler import CUDAOptions

    return {name: value for name, value in OPTIONS.items() if name in CUDAOptions.__dataclass_fields__}


def registers_of(compiled: Any, folder: Path) -> tuple[int, int]:
    """Registers of a thread and bytes it spills."""
    if "amdgcn" in compiled.asm:
        text = compiled.asm["amdgcn"]
        found = {name: int(value) for name, value in re.findall(r"\.(vgpr_count|vgpr_spill_count):\s+(\d+)", text)}
        return found.get("vgpr_count", 0), found.get("vgpr_spill_count", 0)
    cubin = folder / "kernel.cubin"
    cubin.write_bytes(compiled.asm["cubin"])
    tool = triton.knobs.nvidia.cuobjdump.path
    shown = subprocess.run([tool, "-res-usage", str(cubin)], capture_output=True, text=True, check=False)
    numbers = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", shown.stdout + shown.stderr)
    assert numbers is not None, shown
    return int(numbers[1]), int(numbers[2]) + int(numbers[3])


def look_at(case: Case, target: GPUTarget, folder: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"registers": 0, "spills": 0, "approximate": False, "fused": False}
    for kernel in kernels_of(case):
        own = not any(stmt.op in WITH_FMA for stmt in kernel.body)
        for compiled in compile_kernel(kernel, target, Store(folder)):
            registers, spills = registers_of(compiled, folder)
            row["registers"], row["spills"] = max(row["registers"], registers), row["spills"] + spills
            ptx = compiled.asm.get("ptx", "")
            row["approximate"] = row["approximate"] or bool(APPROXIMATE.search(ptx))
            row["fused"] = row["fused"] or (own and "fma." in ptx)
    return row


def main() -> None:
    target = TARGETS[sys.argv[1]]
    with tempfile.TemporaryDirectory() as folder:
        triton.knobs.cache.dir = folder
        for case in CASES:
            if case.name in sys.argv[2:]:
                try:
                    row = {"name": case.name, "error": "", **look_at(case, target, Path(folder))}
                except Exception:
                    row = {"name": case.name, "error": traceback.format_exc()[-1500:]}
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
