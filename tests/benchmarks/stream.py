"""Bandwidth-bound kernels against STREAM: how near a kernel comes to the machine's bandwidth for its size.

    python stream.py [--threads 1 2] [--sizes 1e4 1e5 1e6 1e7] [--only NAME ...]

The C of STREAM (copy: one read, one write; triad: two reads, one write; sum: one read) is built by dynajit's own
compiler and flags, into memory that is there already, as is the memory of our results in a second call. Bound of a
kernel: its bytes by the bandwidth of the loop of its kind, for arrays as large as its own, taking turns in one run.
closeness = bound / time, where two rows are taken off for what a call costs at all, which launch.py measures. In
brackets eager's, which makes new memory for each result. Budget: at least 0.85. What the caches hold, mathematical
functions and sums in eager's order of additions take longer to compute than to move.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from timing import interleaved

import dynajit
from dynajit.caching.store import Store
from dynajit.runtime.toolchain import toolchain

SOURCE = """
void copy(long n, const float *a, const float *b, float *restrict c) {
#pragma omp parallel for simd schedule(static)
  for (long i = 0; i < n; i++) c[i] = a[i];
}
void triad(long n, const float *a, const float *b, float *restrict c) {
#pragma omp parallel for simd schedule(static)
  for (long i = 0; i < n; i++) c[i] = a[i] + 3.0f * b[i];
}
void sum(long n, const float *a, const float *b, float *restrict c) {
  float parts[64] = {0};
#pragma omp parallel for schedule(static) reduction(+ : parts)
  for (long i = 0; i < n / 64; i++) {
#pragma omp simd
    for (int k = 0; k < 64; k++) parts[k] += a[64 * i + k];
  }
  for (int k = 0; k < 64; k++) c[0] += parts[k];
}
"""


def light(x, y, z):
    a = (x + y) * z - x
    return (F.relu(a) + 0.5 * y).abs() * 0.25


def layer_norm(x, w, b):
    return F.layer_norm(x, (x.shape[-1],), w, b) * 2


# name -> (function, tensors of n elements that it reads, tensors that it writes, further vectors, loop of STREAM)
CASES: dict[str, tuple[Callable[..., Any], int, int, int, str]] = {
    "chain": (light, 3, 1, 0, "triad"),
    "add": (lambda x, y: x + y * 2, 2, 1, 0, "triad"),
    "softmax": (lambda x: torch.softmax(x * 0.5, -1), 1, 1, 0, "copy"),
    "layer norm": (layer_norm, 1, 1, 2, "copy"),
    "row sum": (lambda x: (x * 2).sum(-1), 1, 0, 0, "sum"),
    "whole sum": (lambda x: (x * 2).sum(), 1, 0, 0, "sum"),
}


def stream(folder: str) -> dict[str, Callable[[int, Any, Any, Any], None]]:
    chain = toolchain()
    assert chain is not None
    path, _ = chain.build(SOURCE, Store(Path(folder)))
    library = ctypes.CDLL(str(path))

    def call(name: str, n: int, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        pointers = [ctypes.c_void_p(x.data_ptr()) for x in (a, b, c)]
        getattr(library, name)(ctypes.c_long(n), *pointers)

    return {name: functools.partial(call, name) for name in ("copy", "triad", "sum")}


def measure(name: str, n: int, loops: dict[str, Any], rounds: int) -> tuple[float, float]:
    """Closeness, ours and eager's."""
    function, reads, writes, vectors, kind = CASES[name]
    compiled = dynajit.compile(function, backend="native", build="sync")
    width = min(1000, n // 4)

    def args(rows: int) -> list[torch.Tensor]:
        return [*(torch.randn(rows, width) for _ in range(reads)), *(torch.randn(width) for _ in range(vectors))]

    small, large = args(2), args(n // width)
    a, b, c = (torch.randn(n) for _ in range(3))
    for _ in range(3):
        compiled(*small), compiled(*large)
    number = max(1, min(1000, 1_000_000 // n))
    runs = {
        "small": lambda: compiled(*small),
        "large": lambda: compiled(*large),
        "eager small": lambda: function(*small),
        "eager large": lambda: function(*large),
        "none": lambda: loops[kind](16, a, b, c),
        "loop": lambda: loops[kind](n, a, b, c),
    }
    best = interleaved(runs, number, rounds)
    speed = {"copy": 8, "triad": 12, "sum": 4}[kind] * n / max(best["loop"] - best["none"], 1e-9)
    moved = 4 * (n - 2 * width) * (reads + writes)
    mine, theirs = (max(best[f"{who}large"] - best[f"{who}small"], 1e-9) for who in ("", "eager "))
    return moved / mine / speed, moved / theirs / speed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--sizes", nargs="*", type=float, default=[1e4, 1e5, 1e6, 1e7])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    os.environ.setdefault("DYNAJIT_SPARE_MB", "512")
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        loops = stream(folder)
        for threads in options.threads:
            torch.set_num_threads(threads)
            print(f"{'threads: ' + str(threads):<19}" + "".join(f"{size:>18.0e}" for size in options.sizes))
            for name in CASES:
                if options.only and name not in options.only:
                    continue
                cells = ""
                for size in options.sizes:
                    found = measure(name, int(size), loops, options.rounds)
                    dynajit.reset()
                    cells += f"{found[0]:>9.2f}{'<' if found[0] < 0.85 else ' '}({found[1]:>4.2f})  "
                print(f"{name:<19}{cells}", flush=True)


if __name__ == "__main__":
    main()
