"""The fused pointwise chain at 1e5 and 1e6 elements: eager, torch.compile's default, dynajit's native backend.

Budget: at least as fast as torch.compile.
"""

import functools

import torch
import torch.nn.functional as F
from timing import interleaved, row

import dynajit


def chain(x, y, z):
    a = x * y + z
    b = F.gelu(a, approximate="tanh")
    c = torch.tanh(b) * 0.5 + torch.exp(-a.abs())
    d = torch.sigmoid(c) * b - x
    return d * 1.1 + y


def light(x, y, z):
    a = (x + y) * z - x
    b = F.relu(a) + 0.5 * y
    return (b.abs() + 1) * 0.25 - a.clamp(-1, 1) / 3


def main() -> None:
    for function in (chain, light):
        ours, theirs = dynajit.compile(function, backend="native"), torch.compile(function)
        for n in (100_000, 1_000_000):
            tensors = [torch.randn(n) for _ in range(3)]
            runs = {"eager": function, "torch": theirs, "dynajit": ours}
            for run in runs.values():
                run(*tensors)
            best = interleaved(
                {k: functools.partial(run, *tensors) for k, run in runs.items()}, max(2, 2_000_000 // n), 25
            )
            numbers = {f"{name}_us": seconds * 1e6 for name, seconds in best.items()}
            row(f"{function.__name__} {n:.0e}", **numbers, speedup_over_torch=best["torch"] / best["dynajit"])


if __name__ == "__main__":
    main()
