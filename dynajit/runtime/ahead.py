"""Triton kernels compiled for a GPU that need not be here: registers, spills, shared memory and the assembler text."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import tempfile
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch

from dynajit.caching.store import Store
from dynajit.codegen.kernel import Kernel
from dynajit.codegen.triton import print_triton
from dynajit.errors import OptionError, ToolchainError
from dynajit.runtime.gpu import load_kernel, shape_of, supported_options

TARGETS = {"sm_80": ("cuda", 80, 32), "sm_90": ("cuda", 90, 32), "gfx942": ("hip", "gfx942", 64)}
POINTERS = {
    torch.float32: "*fp32", torch.float64: "*fp64", torch.bfloat16: "*bf16", torch.float16: "*fp16", torch.bool: "*i1",
    torch.uint8: "*u8", torch.int8: "*i8", torch.int16: "*i16", torch.int32: "*i32", torch.int64: "*i64",
}  # fmt: skip


@dataclass(frozen=True)
class Ahead:
    """Of one GPU function: registers of a thread, bytes it spills, shared memory of a block in bytes, assembler."""

    target: str
    registers: int
    spills: int
    shared: int
    text: str

    def __str__(self) -> str:
        spills = f"{self.spills} bytes spilled" if self.spills else "no spills"
        return f"{self.target}: {self.registers} registers, {spills}, {self.shared} bytes of shared memory"


def compile_ahead(kernel: Kernel, target: str) -> tuple[Ahead, ...]:
    """One, or two where rows are reduced in parts. For the sizes of the example."""
    if target not in TARGETS:
        raise OptionError(f"there is no target {target!r}: use one of {', '.join(TARGETS)}")
    if importlib.util.find_spec("triton") is None:
        raise ToolchainError("Triton", "import triton", "Triton is not installed: pip install triton")
    with tempfile.TemporaryDirectory(prefix="dynajit-") as folder:
        return tuple(
            looked_at(made, target, Path(folder)) for made in compiled_for(kernel, target, Store(Path(folder)))
        )


def compiled_for(kernel: Kernel, target: str, store: Store) -> list[Any]:
    """The functions of a kernel as Triton compiled them: one, or two where rows are reduced in parts."""
    triton = importlib.import_module("triton")
    source = importlib.import_module("triton.compiler").ASTSource
    gpu = importlib.import_module("triton.backends.compiler").GPUTarget(*TARGETS[target])
    printed = print_triton(kernel, kernel.name)
    functions = [function for function in load_kernel(printed, store) if function is not None]
    rows = prod(loop.hint for loop in kernel.loops if not loop.reduced)
    length = prod(loop.hint for loop in kernel.loops if loop.reduced)
    blocks, warps = shape_of(kernel, rows, length)
    if printed.mode == "parts":
        blocks, warps = {"XBLOCK": 1, "RBLOCK": 2048}, 4
    constants = {**blocks, "WIDE": False}
    pointers = [POINTERS[operand.dtype] for operand in kernel.operands]
    kinds = dict.fromkeys(printed.arguments, "i32") | dict(zip(printed.arguments, pointers, strict=False))
    buffers = [name for name in printed.arguments if name.endswith("_parts")]
    kinds |= {name: POINTERS[dtype] for name, dtype in zip(buffers, printed.parts, strict=True)}
    signature = kinds | dict.fromkeys(constants, "constexpr")
    divisible = {(i,): [["tt.divisibility", 16]] for i in range(len(pointers))}
    options = supported_options() if gpu.backend == "cuda" else {"enable_fp_fusion": False}
    sources = [source(fn=f, signature=signature, constexprs=constants, attrs=divisible) for f in functions]
    return [triton.compile(each, target=gpu, options={"num_warps": warps, **options}) for each in sources]


def looked_at(compiled: Any, target: str, folder: Path) -> Ahead:
    """What a compiled function takes; `folder` is where its binary may be written."""
    shared = int(getattr(compiled.metadata, "shared", 0))
    if "amdgcn" in compiled.asm:
        text = compiled.asm["amdgcn"]
        found = {name: int(value) for name, value in re.findall(r"\.(vgpr_count|vgpr_spill_count):\s+(\d+)", text)}
        return Ahead(target, found.get("vgpr_count", 0), 4 * found.get("vgpr_spill_count", 0), shared, text)
    cubin = folder / "kernel.cubin"
    cubin.write_bytes(compiled.asm["cubin"])
    tool = importlib.import_module("triton").knobs.nvidia.cuobjdump.path
    shown = subprocess.run([tool, "-res-usage", str(cubin)], capture_output=True, text=True, check=False)
    numbers = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", shown.stdout + shown.stderr)
    if numbers is None:
        raise ToolchainError("Triton", "cuobjdump -res-usage", shown.stdout + shown.stderr)
    return Ahead(target, int(numbers[1]), int(numbers[2]) + int(numbers[3]), shared, compiled.asm["ptx"])
