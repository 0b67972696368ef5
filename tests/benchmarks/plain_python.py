"""Call-heavy plain Python with the extension loaded and functions compiled, against a process without either.

Budget: no measurable slow-down, since the frame evaluator is installed only while a compiled call runs.
"""

from timing import fresh_process, row

WORK = """
import time
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def best():
    times = []
    for _ in range(9):
        started = time.process_time()
        fib(22)
        times.append(time.process_time() - started)
    return min(times)
"""
LOADED = """
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.instance().run_line_magic("load_ext", "kernel_ext")
import torch, dynajit
def f(x):
    y = x + 1
    print(end="")
    return y * 2
g = dynajit.compile(f, backend="eager")
for _ in range(3):
    g(torch.ones(3))
time.sleep(3)
"""


def main() -> None:
    without, loaded = [], []
    for _ in range(5):
        without += fresh_process(WORK + "print(best())", {})
        loaded += fresh_process(WORK + LOADED + "print(best())", {})
    row("plain Python, CPU s", without=min(without), loaded=min(loaded), ratio=min(loaded) / min(without))


if __name__ == "__main__":
    main()
