"""Which functions of libtorch_cpu eager's own kernels call on this machine, and where they are."""

from __future__ import annotations

import ctypes
import functools
import platform
from pathlib import Path

import torch

from dynajit.codegen.functions import Function

MKL_NAMES = {
    "exp": "Exp",
    "log": "Ln",
    "log2": "Log2",
    "log10": "Log10",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "tanh": "Tanh",
    "erf": "Erf",
    "erfc": "Erfc",
    "erfinv": "ErfInv",
    "sqrt": "Sqrt",
}
SUFFIX = {"erfc": "_u15", "hypot": "_u05", "fmod": ""}  # _u10 for all others, as cpu/vec/vec512/vec512_float.h


@functools.cache
def library() -> ctypes.CDLL | None:
    for name in ("libtorch_cpu.so", "libtorch_cpu.dylib"):
        path = Path(torch.__file__).parent / "lib" / name
        if path.exists():
            return ctypes.CDLL(str(path))
    return None


@functools.cache
def function(name: str) -> Function | None:
    """The function that a kernel calls `name` (operation_way_dtype), or None if eager's own cannot be called."""
    operation, way, dtype = name.split("_")
    if way == "std":
        return Function(operation, way, dtype, "", 0)
    if way == "vml" and operation in MKL_NAMES:
        # aten/src/ATen/cpu/vml.h: these are MKL's wherever torch was built with MKL, and SLEEF's elsewhere.
        symbol = f"vm{'s' if dtype == 'f32' else 'd'}{MKL_NAMES[operation]}"
        if address(symbol):
            return Function(operation, way, dtype, symbol, 0)
    lanes = vector_lanes()
    if not lanes:  # eager's vectors are loops over libm then
        return Function(operation, way, dtype, "", 0)
    letter, lanes = ("f", lanes) if dtype == "f32" else ("d", lanes // 2)
    symbol = f"Sleef_{operation}{letter}{lanes}{SUFFIX.get(operation, '_u10')}"
    return Function(operation, way, dtype, symbol, lanes) if address(symbol) else None


def vector_lanes() -> int:
    """float32 elements of the vectors that eager's kernels use; 0 if they use none."""
    if platform.machine() in ("aarch64", "arm64"):
        return 4
    return {"AVX512": 16, "AVX2": 8}.get(torch.backends.cpu.get_cpu_capability(), 0)


@functools.cache
def address(symbol: str) -> int:
    """Where a function of libtorch_cpu is; 0 if it is not exported."""
    found = getattr(library(), symbol, None) if library() is not None else None
    return ctypes.cast(found, ctypes.c_void_p).value or 0 if found is not None else 0
