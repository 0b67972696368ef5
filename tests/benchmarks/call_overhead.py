"""Warm call of a one-op function on two tensors of 8 floats, backend "eager": overhead over the plain call.

Budget: at most 2.5 us, and at most 1/6 of torch.compile(backend="eager")'s in the same run.
"""

import torch
from timing import interleaved, row

import dynajit


def plain(x, y):
    return x + y


def main() -> None:
    torch.set_num_threads(1)
    x, y = torch.randn(8), torch.randn(8)
    ours, theirs = dynajit.compile(plain, backend="eager"), torch.compile(plain, backend="eager")
    best = interleaved(
        {"plain": lambda: plain(x, y), "dynajit": lambda: ours(x, y), "torch": lambda: theirs(x, y)}, 2000, 30
    )
    mine, other = ((best[name] - best["plain"]) * 1e6 for name in ("dynajit", "torch"))
    row("call overhead", plain_us=best["plain"] * 1e6, dynajit_us=mine, torch_us=other, ratio=mine / other)


if __name__ == "__main__":
    main()
