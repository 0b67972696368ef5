"""First call of a 5-line tensor function after the first such function of the process, backend "eager".

Budget: at most 1/2 of torch.compile(backend="eager")'s CPU time in the same run.
"""

import statistics
import time

import torch
import torch.nn.functional as F
from timing import row

import dynajit

TEXT = """
def f(x, w, b):
    h = F.linear(x, w, b)
    h = F.gelu(h) * {n}.5 + x
    m = h.mean(-1, keepdim=True)
    h = (h - m) / (h.var(-1, keepdim=True) + 1e-5).sqrt()
    return h.softmax(-1)
"""


def first_call(compiler, n: int) -> float:
    namespace = {"F": F}
    exec(compile(TEXT.format(n=n), f"<function {n}>", "exec"), namespace)
    compiled = compiler(namespace["f"], backend="eager")
    x, w, b = torch.randn(4, 8), torch.randn(8, 8), torch.randn(8)
    started = time.process_time()
    compiled(x, w, b)
    return (time.process_time() - started) * 1e3


def main() -> None:
    torch.set_num_threads(1)
    first_call(dynajit.compile, 0), first_call(torch.compile, 1)
    mine, other = [], []
    for n in range(2, 22, 2):
        mine.append(first_call(dynajit.compile, n))
        other.append(first_call(torch.compile, n + 1))
    a, b = statistics.median(mine), statistics.median(other)
    row("capture of five lines, CPU ms", dynajit_ms=a, torch_ms=b, ratio=a / b)


if __name__ == "__main__":
    main()
