"""First call of a 10-op pointwise function in a fresh process, native backend, synchronous build.

The extension is loaded first, as in a notebook. Budget: 1.5 s with an empty cache and 1/10 of torch.compile's default;
0.5 s with a warm disk cache.
"""

import tempfile

from timing import fresh_process, row

FUNCTION = """
import time, torch
import torch.nn.functional as F
def f(x, y):
    a = x * y + 1.5
    b = torch.tanh(a) * torch.sigmoid(x)
    c = b - a.abs()
    return F.relu(c) / (y * y + 1)
x, y = torch.randn(1000), torch.randn(1000)
"""
OURS = """
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.instance().run_line_magic("load_ext", "kernel_ext")
time.sleep({pause})
started = time.perf_counter()
import dynajit
g = dynajit.compile(f, backend="native", build="sync")
g(x, y)
print(time.perf_counter() - started)
"""
THEIRS = """
started = time.perf_counter()
g = torch.compile(f)
g(x, y)
print(time.perf_counter() - started)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        env = {"DYNAJIT_CACHE_DIR": f"{folder}/ours", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/theirs"}
        for pause in (0.0, 3.0):  # at once, and after the extension's preloading had its time
            env["DYNAJIT_CACHE_DIR"] = f"{folder}/ours{pause}"
            cold = fresh_process(FUNCTION + OURS.format(pause=pause), env)[0]
            warm = fresh_process(FUNCTION + OURS.format(pause=pause), env)[0]
            row(f"dynajit, first call {pause:.0f} s after loading", cold_s=cold, warm_s=warm)
        other = fresh_process(FUNCTION + THEIRS, env)[0]
        other_warm = fresh_process(FUNCTION + THEIRS, env)[0]
        row("torch.compile", cold_s=other, warm_s=other_warm, ratio=cold / other)


if __name__ == "__main__":
    main()
