"""What a call of one kernel costs beside the kernel: guards, launch, memory for the result. Tensors of 8 floats.

The kernel itself takes some tens of nanoseconds there, so all of the call is overhead. Budget: at most 3 us.
"""

import torch
from timing import interleaved, row

import dynajit


def small(x, y):
    return (x + y) * 2


def main() -> None:
    torch.set_num_threads(1)
    x, y = torch.randn(8), torch.randn(8)
    ours, theirs = dynajit.compile(small, backend="native", build="sync"), torch.compile(small)
    runs = {"eager": lambda: small(x, y), "dynajit": lambda: ours(x, y), "torch": lambda: theirs(x, y)}
    runs["nothing"] = lambda: None
    for call in runs.values():
        call(), call()
    best = interleaved(runs, 2000, 30)
    mine, eager, other = ((best[name] - best["nothing"]) * 1e6 for name in ("dynajit", "eager", "torch"))
    row("one kernel on 8 floats", dynajit_us=mine, eager_us=eager, torch_us=other, ratio=mine / other)


if __name__ == "__main__":
    main()
