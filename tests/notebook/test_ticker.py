"""Cards move while a cell takes long."""

from __future__ import annotations

import re
import threading
import time
from types import SimpleNamespace
from typing import Any

from dynajit import events
from kernel_ext.ticker import Ticker

CODE = compile("", "", "exec")


def test_a_long_compile_says_what_is_done() -> None:
    said: list[str] = []
    target: Any = SimpleNamespace(name="f")
    ticker = Ticker(lambda: said.append("refreshed"), lambda _, text, seconds: said.append(text))
    try:
        ticker.heard(target, events.CaptureStarted(CODE))
        ticker.heard(target, events.StageStarted(CODE, "lowering"))
        ticker.heard(target, events.StageEnded(CODE, "lowering", 0.012, "2 kernels"))
        ticker.heard(target, events.StageStarted(CODE, "building", "k0_gelu, k1_max"))
        wait_for(lambda: bool(said))
        assert re.match(
            "lowering ✓ 2 kernels → building 2 kernels \\(k0_gelu, k1_max\\) ▇+░* 0.. s \\(interrupt", said[0]
        )
        wait_for(lambda: len(said) > 2)
        assert said[1] != said[0]
        ticker.heard(target, events.EntryAdded(CODE, 1, None))
        wait_for(lambda: said[-1] == "refreshed")
    finally:
        ticker.stop()
    assert not any(thread.name == "dynajit cards" for thread in threading.enumerate())


def test_what_fails_does_not_end_the_thread() -> None:
    calls: list[int] = []

    def fails(*args: object) -> None:
        calls.append(1)
        raise RuntimeError("the compiler is at work on the record")

    target: Any = SimpleNamespace(name="f")
    ticker = Ticker(fails, fails)
    try:
        ticker.heard(target, events.CaptureStarted(CODE))
        wait_for(lambda: len(calls) > 1)
    finally:
        ticker.stop()


def test_the_card_fills_in_while_its_cell_still_runs(notebook: Any) -> None:
    notebook.cell("%%compile\ndef f(x):\n    return x + 1")
    notebook.shell.user_ns["seen"] = lambda: notebook.text("f")
    notebook.cell(
        "import time\ny = f(torch.ones(2))\nfor i in range(50):\n    time.sleep(0.1)\n"
        "    if 'graph' in seen():\n        break"
    )
    assert notebook["i"] < 49


def wait_for(condition: Any) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
