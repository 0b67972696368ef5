"""Correctness and speed of the Triton kernels on a GPU, in one run of a few minutes that writes one report.

    PYTHONPATH=tests/kernels python tests/gpu/check.py [--device cuda] [--out report.md]

With --device cpu it runs the C kernels instead: to try the script out where there is no GPU.
"""

from __future__ import annotations

import argparse
import statistics
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import symbolic_trace
from triton_rows import CASES, Case, rms_norm

import dynajit
from dynajit.backends.native import native
from dynajit.options import Options

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12, torch.bfloat16: 2e-2, torch.float16: 2e-3}
SIZES = (1 << 16, 1 << 20, 1 << 24, 1 << 28)
LARGE_CACHE = 1 << 26  # elements: 256 MB, more than any second-level cache


def on(device: str, values: tuple[Any, ...]) -> list[Any]:
    return [value.to(device) if isinstance(value, torch.Tensor) else value for value in values]


def check(case: Case, device: str) -> str:
    """Empty if the kernels of a case do what eager's do, else what is different."""
    args = on(device, case.args)
    compile_it: Any = native
    compiled = compile_it(symbolic_trace(case.function), args, Options(build="sync"), lone=True)
    if not any(kernel.launched for kernel in compiled.kernels):
        return f"no kernel was made: {compiled.notes}"
    for result, wanted in zip(compiled.fn(*args), case.function(*args), strict=True):
        if result.dtype != wanted.dtype or result.shape != wanted.shape or result.stride() != wanted.stride():
            return f"{result.dtype}{list(result.shape)} strides {result.stride()}, want {wanted.dtype}{wanted.stride()}"
        if not wanted.dtype.is_floating_point:
            if not torch.equal(result, wanted):
                return f"{int((result != wanted).sum())} elements differ"
            continue
        bound = TOLERANCE[wanted.dtype]
        if not torch.allclose(result.double(), wanted.double(), rtol=bound, atol=bound, equal_nan=True):
            return f"error {(result.double() - wanted.double()).abs().nan_to_num(0).max().item():.3g}"
    return ""


def bias_gelu(x: Any, b: Any, r: Any) -> Any:
    return F.gelu(x + b, approximate="tanh") * 0.5 + r


def workloads(n: int, device: str) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]]:
    """Functions with their arguments, and how many passes over n elements of float32 they have to make."""
    width = 1024
    x, r = torch.randn(n // width, width, device=device), torch.randn(n // width, width, device=device)
    w, b = torch.randn(width, device=device), torch.randn(width, device=device)
    return {
        "bias gelu residual": (bias_gelu, (x, b, r), 3),
        "softmax": (lambda x: torch.softmax(x * 0.5, -1), (x,), 2),
        "layer norm": (lambda x, r, w, b: F.layer_norm(x + r, (width,), w, b), (x, r, w, b), 3),
        "rms norm": (rms_norm, (x, r, w), 4),
        "row sums": (lambda x, r: (x * r).sum(-1), (x, r), 2),
        "column sums": (lambda x, r: (x * r).sum(0), (x, r), 2),
        "whole sum": (lambda x, r: (x * r).sum(), (x, r), 2),
        "transposed": (lambda x: x.t().contiguous() * 2, (x,), 2),
    }


def seconds(run: Callable[[], Any], device: str, flush: torch.Tensor, rounds: int) -> float:
    """The median time of a call with a cold cache."""
    for _ in range(3):
        run()
    times = []
    for _ in range(rounds):
        flush.zero_()
        if device == "cuda":
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) / 1e3)
        else:
            since = time.perf_counter()
            run()
            times.append(time.perf_counter() - since)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("gpu_report.md"))
    parser.add_argument("--limit", type=float, default=500, help="seconds after which no further size is timed")
    options = parser.parse_args()
    device, began = options.device, time.perf_counter()
    name = torch.cuda.get_device_name(0) if device == "cuda" else "CPU"
    lines = [f"# dynajit on {name}, torch {torch.__version__}", "", "## Correctness", ""]
    wrong = 0
    for case in CASES:
        try:
            said = check(case, device)
        except Exception:
            said = traceback.format_exc().strip().splitlines()[-1]
        wrong += bool(said)
        lines.append(f"- {case.name}: {said or 'right'}")
        print(lines[-1], flush=True)
    flush = torch.empty(LARGE_CACHE if device == "cuda" else 1, device=device)
    lines += ["", f"{len(CASES) - wrong} of {len(CASES)} right", "", "## Speed", ""]
    lines += [
        "| workload | elements | eager us | torch.compile us | dynajit us | of the copy |",
        "|---|---|---|---|---|---|",
    ]
    for n in SIZES if device == "cuda" else SIZES[:2]:
        if time.perf_counter() - began > options.limit:
            break
        a, b = torch.empty(n, device=device), torch.empty(n, device=device)
        roof = 2 * n * 4 / seconds(lambda a=a, b=b: a.copy_(b), device, flush, 20)
        for title, (function, args, passes) in workloads(n, device).items():
            torch._dynamo.reset()
            forms = {"eager": function, "torch": torch.compile(function)}
            forms["dynajit"] = dynajit.compile(function, backend="native", build="sync")
            best = {k: seconds(lambda f=f, args=args: f(*args), device, flush, 15) for k, f in forms.items()}
            share = passes * n * 4 / best["dynajit"] / roof
            times = " | ".join(f"{best[key] * 1e6:.1f}" for key in ("eager", "torch", "dynajit"))
            lines.append(f"| {title} | {n} | {times} | {share:.2f} |")
            print(lines[-1], flush=True)
    options.out.write_text("\n".join(lines) + "\n")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
