"""The budgets of the notebook, measured: `python tests/benchmarks/notebook.py`. Milliseconds, medians; sizes in kB.

Loading the extension, the armed card, a cell that is run again (over the same cell without `%%compile`), the report and
the card of a function of 100 lines and of a model of 3,000 operations.
"""

from __future__ import annotations

import contextlib
import io
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

LOAD = """
import sys, time
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
config = Config(); config.HistoryManager.enabled = False; config.Compile.preload = False
shell = InteractiveShell.instance(config=config)
started = time.perf_counter()
shell.run_line_magic("load_ext", "kernel_ext")
loaded = time.perf_counter()
shell.run_cell("%%compile\\ndef f(x):\\n    return x + 1")
print(1000 * (loaded - started), 1000 * (time.perf_counter() - loaded), "torch" in sys.modules)
"""
TALL = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, x):
        h = self.norm(x)
        for _ in range(5):
            h = (h * 0.5 + 1).relu() - h
        return x + self.down(self.up(h).softmax(-1))
class Tall(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(120))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
tall = Tall()
with torch.no_grad():
    tall(torch.randn(2, 8))
"""


def milliseconds(call: Callable[[], object], rounds: int = 9) -> float:
    found = []
    for _ in range(rounds):
        started = time.perf_counter()
        call()
        found.append(1000 * (time.perf_counter() - started))
    return statistics.median(found)


def shell_with_torch() -> Any:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.Compile.preload = False
    shell = InteractiveShell.instance(config=config)
    run(shell, "%load_ext kernel_ext")
    run(shell, "import torch\nfrom torch import nn")
    return shell


def run(shell: Any, cell: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        assert shell.run_cell(cell, store_history=True).success


def main() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    loads = [
        subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, env=environment, check=True).stdout
        for _ in range(5)
    ]
    rows = [line.split()[-3:] for line in (text.strip().splitlines()[-1] for text in loads)]
    print(f"load the extension     {statistics.median(float(row[0]) for row in rows):8.1f} ms   (300)")
    print(
        f"armed card             {statistics.median(float(row[1]) for row in rows):8.1f} ms   (50), torch: {rows[0][2]}"
    )

    shell = shell_with_torch()
    import dynajit
    import kernel_ext

    plain = "def g(x):\n    return x * 2 + 1\ng(torch.ones(4));"
    cell = "%%compile\n" + plain.replace("g(", "f(")
    run(shell, cell)
    over = milliseconds(lambda: run(shell, cell), 31) - milliseconds(lambda: run(shell, plain), 31)
    print(f"unchanged cell again   {over:8.1f} ms   (20) over a plain cell")

    steps = [
        "# next",
        "h = h @ w + b",
        "h = h.relu()",
        "a = h * 0.5",
        "h = torch.tanh(a) + h",
        "h = h - h.mean(-1)[:, None]",
        "",
    ]
    body = "\n".join(f"    {step}" for step in steps * 14)
    run(shell, f"%%compile\ndef hundred(h, w, b):\n{body}\n    return h")
    run(shell, "w, b = torch.randn(16, 16), torch.randn(16)\nfor n in (3, 4, 5): hundred(torch.randn(n, 16), w, b)")
    run(shell, "%%compile -b eager\n" + TALL)
    for name, budget in (("hundred", 60), ("tall", 400)):
        made = shell.user_ns[name]
        report = dynajit.report(made)
        print(f"{name}: {report.headline()}")
        print(f"  report               {milliseconds(lambda made=made: dynajit.report(made), 5):8.1f} ms")
        print(f"  card                 {milliseconds(lambda report=report: kernel_ext.to_html(report), 5):8.1f} ms")
        print(f"  card                 {len(kernel_ext.to_html(made)) / 1000:8.1f} kB   ({budget})")


if __name__ == "__main__":
    main()
