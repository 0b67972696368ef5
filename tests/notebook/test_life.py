"""What a long notebook does: cells that are run again, code from everywhere, changes that must be honoured."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def compiled(value: Any) -> bool:
    return type(value).__name__ == "Dispatcher"


def test_an_unchanged_cell_is_free(notebook: Any) -> None:
    """Fifty runs: under 20 ms over those of a plain cell, one entry; then a changed constant."""
    plain = "def g(x):\n    return x * 2 + 1\ng(torch.ones(4))"
    cell = "%%compile\n" + plain.replace("g(", "f(")
    notebook.cell(cell)
    spent: dict[str, list[float]] = {cell: [], plain: []}
    for _ in range(50):
        for text, seconds in spent.items():
            started = time.perf_counter()
            notebook.cell(text)
            seconds.append(time.perf_counter() - started)
    assert min(spent[cell]) - min(spent[plain]) < 0.02
    import dynajit

    report = dynajit.report(notebook["f"])
    assert (len(report.entries), report.recompiles, report.status) == (1, (), "compiled")
    assert notebook.cell(cell.replace("+ 1", "+ 5")).tolist() == [7.0] * 4
    assert "+ 5" in notebook.text("f")


def test_old_entries_are_released(notebook: Any) -> None:
    notebook.cell("%%compile\ndef f(x):\n    return x + 1\nf(torch.ones(2));")
    code = weakref.ref(notebook["f"].__wrapped__.__code__)
    for i in range(2, 5):
        notebook.cell(f"%%compile\ndef f(x):\n    return x + {i}\nf(torch.ones(2));")
    notebook.cell("import linecache; linecache.clearcache()")
    notebook.results.clear()
    gc.collect()
    assert code() is None


def test_code_from_everywhere_is_compiled_or_declined(notebook: Any, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "script.py").write_text("import torch\ndef from_run(x):\n    return x.sin() + 1\n")
    notebook.cell(
        "%%compile\n"
        "exec('def from_exec(x):\\n    return x * 3')\n"
        "def outer(k):\n"
        "    def inner(x):\n"
        "        return x * k\n"
        "    return inner\n"
        "class Tools:\n"
        "    @staticmethod\n"
        "    def twice(x):\n"
        "        return x * 2\n"
        "    def method(self, x):\n"
        "        return self.twice(x) + 1\n"
        "def uses(x):\n"
        "    return outer(4)(x) + Tools().method(x) + from_exec(x)\n"
        "add = lambda x: x + 1\n"
    )
    assert notebook.cell("uses(torch.ones(2))").tolist() == [10.0, 10.0]
    assert notebook.text("uses").startswith("uses: 1 graph · 0 breaks")
    assert notebook.cell("add(torch.ones(2))").tolist() == [2.0, 2.0]
    notebook.cell(f"%run {tmp_path}/script.py")
    notebook.cell("%%compile\nagain = from_run\ndef calls(x):\n    return from_run(x)")
    notebook.cell(
        "z = calls(torch.zeros(2)); import dynajit; made = dynajit.compile(from_run); z = made(torch.zeros(2))"
    )
    assert notebook["z"].tolist() == [1.0, 1.0]
    assert "x.sin() + 1" in str(notebook.cell("dynajit.report(made)"))
    notebook.cell(
        "namespace = {}\nexec('def hidden(x):\\n    return x - 1', namespace)\nh = dynajit.compile(namespace['hidden'])"
    )
    assert notebook.cell("h(torch.ones(2))").tolist() == [0.0, 0.0]
    notebook.cell("%compile show h")
    assert "source of this function is not available" in notebook.cards[-1]["text/html"]


def test_async_cells(notebook: Any) -> None:
    notebook.cell(
        "%%compile\n"
        "import asyncio\n"
        "def work(x):\n"
        "    return x * 2\n"
        "async def later(x):\n"
        "    await asyncio.sleep(0)\n"
        "    return work(x)\n"
        "value = await later(torch.ones(2))"
    )
    assert notebook["value"].tolist() == [2.0, 2.0]
    assert "DJ-S001" in notebook.text("later")
    assert notebook.text("work").startswith("work: 1 graph")


def test_a_module_that_is_reloaded(notebook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "reloaded_tool.py"
    module.write_text("def scale(x):\n    return x * 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    notebook.cell("%load_ext autoreload")
    notebook.cell("%autoreload 2")
    try:
        notebook.cell("import reloaded_tool\nfrom reloaded_tool import scale")
        notebook.cell("%%compile\ndef f(x):\n    return reloaded_tool.scale(x) + scale(x)")
        assert notebook.cell("f(torch.ones(2))").tolist() == [4.0, 4.0]
        module.write_text("def scale(x):\n    return x * 10  # changed\n")
        os.utime(module, (time.time() + 5, time.time() + 5))
        assert notebook.cell("f(torch.ones(2))").tolist() == [20.0, 20.0]
    finally:
        notebook.cell("%autoreload 0")
        notebook.shell.extension_manager.unload_extension("autoreload")
        sys.modules.pop("reloaded_tool", None)


def test_changes_in_later_cells_are_honoured(notebook: Any) -> None:
    notebook.cell("rate = 2.0\nclass Base:\n    def gain(self):\n        return 1.0")
    notebook.cell("%%compile\ndef f(x, base):\n    return x * rate + base.gain()")
    notebook.cell("base, x = Base(), torch.ones(2)")
    assert notebook.cell("f(x, base)").tolist() == [3.0, 3.0]
    notebook.cell("rate = 5.0")
    assert notebook.cell("f(x, base)").tolist() == [6.0, 6.0]
    notebook.cell("Base.gain = lambda self: 7.0")
    assert notebook.cell("f(x, base)").tolist() == [12.0, 12.0]
    notebook.cell("%%compile\nline = nn.Linear(2, 2)")
    notebook.cell("line(x); before = line(x)\nhandle = line.register_forward_hook(lambda m, args, out: out * 0)")
    assert notebook.cell("line(x)").tolist() == [0.0, 0.0]
    notebook.cell("handle.remove()")
    assert notebook.cell("torch.equal(line(x), before)")


def test_a_function_that_runs_eagerly_says_why(notebook: Any, capsys: Any) -> None:
    notebook.cell("%%compile\ndef f(x, k):\n    return x + len(k)")
    notebook.cell("import dynajit\ng = dynajit.compile(f.__wrapped__, limit=2)")
    notebook.cell("for n in range(1, 6): g(torch.ones(2), 'a' * n)")
    report = notebook.cell("dynajit.report(g)")
    assert report.status == "eager"
    assert "compiled too often" in report.reason
    assert "runs eagerly (compiled too often" in notebook.text("f")
    capsys.readouterr()
    notebook.cell("%compile why f")
    assert "it runs eagerly: compiled too often" in capsys.readouterr().out


def test_two_instances_of_one_class_say_that_they_share(notebook: Any) -> None:
    notebook.cell("%%compile\none = nn.Softsign()\ntwo = nn.Softsign()")
    notebook.cell("one(torch.ones(2));")
    assert "shares its compiled code with two" in notebook.text("one")
    assert "shares its compiled code with one" in notebook.text("two")


def test_without_triton_its_text_is_shown(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "sys.modules['triton'] = None\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "from traitlets.config import Config\n"
        "c = Config(); c.HistoryManager.enabled = False; c.Compile.preload = False\n"
        "shell = InteractiveShell.instance(config=c)\n"
        "for cell in ('%load_ext kernel_ext', 'import torch', '%%compile\\ndef f(x):\\n    return x.exp() * 2 + 1',\n"
        "             'f(torch.ones(3));', '%compile kernels f'):\n"
        "    assert shell.run_cell(cell).success\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[triton, not run here]" in done.stdout
    assert "[c, ran]" in done.stdout
    assert re.search(r"line 3 \| +.*tl\.\w+", done.stdout)


def test_a_terminal_gets_text(tmp_path: Path) -> None:
    cells = ["%load_ext kernel_ext", "import torch", "%%compile\ndef f(x):\n    return x.exp()\nf(torch.ones(2));"]
    program = (
        "from IPython.terminal.interactiveshell import TerminalInteractiveShell\n"
        "from traitlets.config import Config\n"
        "c = Config(); c.HistoryManager.enabled = False; c.Compile.preload = False\n"
        "c.TerminalInteractiveShell.simple_prompt = True\n"
        "shell = TerminalInteractiveShell.instance(config=c)\n"
        f"for cell in {cells!r}:\n    assert shell.run_cell(cell).success\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "f: 1 graph · 0 breaks" in done.stdout
    assert "3 ●     return x.exp()" in done.stdout
    assert "<div" not in done.stdout
