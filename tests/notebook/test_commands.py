"""The commands of `%compile`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from reports import small
from sanitiser import text_of

ROOT = Path(__file__).parents[2]
BLOCK = "%%compile\ndef f(x, w):\n    h = (x @ w).relu() * 2\n    return (h - h.mean()).softmax(-1)"


@pytest.fixture
def block(notebook: Any, capsys: Any) -> Any:
    notebook.cell(BLOCK)
    notebook.cell("w = torch.randn(8, 8)\nfor n in (3, 4, 5): y = f(torch.randn(n, 8), w)")
    capsys.readouterr()
    return notebook


def said(notebook: Any, capsys: Any, line: str, fails: bool = False) -> str:
    notebook.cell(f"%compile {line}", fails=fails)
    read = capsys.readouterr()
    return str(read.err if fails else read.out)


def test_bench(block: Any, capsys: Any) -> None:
    block.cell("%compile bench f(torch.randn(4, 8), w) -r 3 -n 5 -o timed")
    bench = block["timed"]
    assert list(bench.seconds) == ["eager", "dynajit"]
    assert all(len(seconds) == 3 and min(seconds) > 0 for seconds in bench.seconds.values())
    assert bench.calls == 5
    assert bench.ratio > 0
    assert any(name.startswith("k0_") for name in bench.kernels)
    shown = block.cards[-1]
    assert "times the speed of eager" in shown["text/plain"]
    assert "medians of 3 rounds of 5 calls" in text_of(shown["text/html"])
    assert re.search(r"k0 .*%", text_of(block.card("f")["text/html"]))  # the card has the share of the time, too
    assert "times the speed of eager for f(" in block.text("f")
    assert "is not compiled" in said(block, capsys, "bench max(1, 2)", fails=True)
    assert "bench needs a call" in said(block, capsys, "bench", fails=True)
    assert "explain needs a function or a call" in said(block, capsys, "explain", fails=True)
    assert "needs a number" in said(block, capsys, "bench f(w, w) -n x", fails=True)
    assert "there is no option --tortch" in said(block, capsys, "bench f(w, w) --tortch", fails=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_bench_with_torch_compile(notebook: Any) -> None:
    notebook.cell("%%compile\ndef f(x):\n    return x * 2")
    notebook.cell("%compile bench f(torch.ones(3)) -r 2 -n 2 -o timed --torch")
    assert list(notebook["timed"].seconds) == ["eager", "dynajit", "torch.compile"]


def test_check_compares_everything(notebook: Any, capsys: Any) -> None:
    notebook.cell(
        "%%compile\ndef f(x, seen):\n    x.add_(1)\n    seen.append('a')\n    print('printed')\n"
        "    return torch.nn.functional.dropout(x, 0.5), {'n': len(seen)}\n"
        "def g(x):\n    raise KeyError('no')"
    )
    notebook.cell("x, seen = torch.zeros(4), []; before = torch.random.get_rng_state()")
    text = said(notebook, capsys, "check f(x, seen)")
    assert text.splitlines() == [
        "f(x, seen): the same as eager",
        "✓ result: equal in every bit",
        "✓ arguments afterwards: equal in every bit",
        "✓ printed text: the same",
        "✓ random numbers: the same state",
    ]
    assert notebook["x"].tolist() == [0] * 4
    assert notebook["seen"] == []
    assert bool((notebook["torch"].random.get_rng_state() == notebook["before"]).all())
    assert "✓ error: the same KeyError" in said(notebook, capsys, "check g(x)")


def test_check_finds_what_differs() -> None:
    import torch

    from kernel_ext.check import check

    def eager(x: Any, seen: Any) -> Any:
        print("one")
        return x + 1

    def wrong(x: Any, seen: Any) -> Any:
        print("two")
        seen.append(torch.rand(1))
        x.add_(1)
        return x.double()

    lines = check(wrong, eager, (torch.zeros(2), []), {})
    assert [line[0] for line in lines] == ["✗"] * 4
    assert "dtype torch.float32 in eager, torch.float64 compiled" in lines[0]

    def raises(x: Any, seen: Any) -> Any:
        raise ValueError("no")

    assert "✗ error: eager raises nothing, compiled ValueError: no" in check(raises, eager, (torch.zeros(2), []), {})


def test_diff(block: Any, capsys: Any) -> None:
    text = said(block, capsys, "diff f 0 1")
    assert "-guard: x is a tensor float32[3, 8]" in text
    assert "+guard: x is a tensor float32[*, 8]" in text
    assert said(block, capsys, "diff f 0 0") == "entry 0 and entry 0 are the same\n"
    text = said(block, capsys, "diff f captured lowered")
    assert text.startswith("--- captured\n+++ lowered")
    assert "has 2 entries" in said(block, capsys, "diff f 0 7", fails=True)
    assert "captured, lowered, fused, called" in said(block, capsys, "diff f 0 nothing", fails=True)


def test_graph_levels_passes_and_files(block: Any, capsys: Any, tmp_path: Path) -> None:
    assert "def forward(self, x" in said(block, capsys, "graph f")
    assert "by kernel" in said(block, capsys, "graph f --level kernel")
    lines = said(block, capsys, "graph f --level line").splitlines()
    assert sum("line" not in line and ": " in line for line in lines) >= 2
    assert "reduce(" in said(block, capsys, "graph f --pass lowered")
    assert re.search(r"k0_\w+:\n", said(block, capsys, "graph f --pass fused"))
    for suffix, begin in ((".svg", "<svg"), (".dot", "digraph"), (".html", "<!doctype html>")):
        said(block, capsys, f"graph f --save {tmp_path}/graph{suffix}")
        assert (tmp_path / f"graph{suffix}").read_text().lstrip().startswith(begin)
    assert "must end in" in said(block, capsys, f"graph f --save {tmp_path}/graph.png", fails=True)
    assert "there is no level 'x'" in said(block, capsys, "graph f --level x", fails=True)


def test_kernels_of_one_name_and_language(block: Any, capsys: Any, tmp_path: Path) -> None:
    text = said(block, capsys, "kernels f")
    assert "[c, ran]" in text
    assert "[triton, not run here] what a GPU would run" in text
    assert re.search(r"line 3 +\|", text)
    only = said(block, capsys, "kernels f k0 --lang triton")
    assert "@triton.jit" in only
    assert "[c, ran]" not in only
    names = said(block, capsys, f"kernels f --save {tmp_path}/out").split()
    assert {Path(name).suffix for name in names} == {".c", ".py"}
    assert all(Path(name).read_text() for name in names)
    assert "has no kernel 'k9'" in said(block, capsys, "kernels f k9", fails=True)


def test_a_kernel_is_edited_and_run(notebook: Any, capsys: Any) -> None:
    notebook.cell("%%compile\ndef f(x):\n    return x.relu() * 2 + 1\nf(torch.ones(4));")
    capsys.readouterr()
    offered: list[str] = []
    notebook.shell.set_next_input = offered.append
    notebook.cell("%compile kernels f k0 --edit")
    (cell,) = offered
    assert cell.startswith("%%compile_kernel f k0\nvoid k0_")
    assert "2.0f" in cell
    notebook.cell(cell.replace("2.0f", "40.0f"))
    assert "runs by this text now, in 1 graph" in capsys.readouterr().out
    assert notebook.cell("f(torch.ones(4))").tolist() == [41.0] * 4
    assert "edited by hand" in text_of(notebook.card("f")["text/html"])
    assert "NOT the same as eager" in said(notebook, capsys, "check f(torch.ones(4))")
    notebook.cell(cell.replace("2.0f", "2.0f +"), fails=True)
    text = capsys.readouterr().err
    assert "nothing is changed" in text
    assert "error: expected" in text
    assert "Traceback" not in text
    assert notebook.cell("f(torch.ones(4))").tolist() == [41.0] * 4
    notebook.cell("%compile reset f")
    assert notebook.cell("f(torch.ones(4))").tolist() == [3.0] * 4
    assert "has no kernel 'k9'" in said(notebook, capsys, "kernels f k9 --edit", fails=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_a_kernel_becomes_on_a_gpu_that_is_not_here(block: Any, capsys: Any) -> None:
    pytest.importorskip("triton")
    text = said(block, capsys, "kernels f k0 --ahead sm_90")
    assert re.fullmatch(r"k0_\w+: sm_90: \d+ registers, no spills, \d+ bytes of shared memory\n", text)
    assert "there is no target 'sm_1'" in said(block, capsys, "kernels f k0 --ahead sm_1", fails=True)
    import dynajit

    assert "registers" in next(k.note for k in dynajit.report(block["f"]).kernels if k.language == "triton")
    (found,) = dynajit.resources(block["f"], "sm_80", [text.split(":")[0]]).values()
    assert ".visible .entry" in found[0].text


def test_cache(notebook: Any, capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAJIT_CACHE_DIR", str(tmp_path / "kernels"))
    notebook.cell("%%compile\ndef f(x):\n    return (x * 7.125 + 3).tanh()\nf(torch.ones(3));")
    capsys.readouterr()
    assert said(notebook, capsys, "cache path").strip() == str(tmp_path / "kernels")
    assert said(notebook, capsys, "cache").startswith("1 libraries of kernels, ")
    assert ".so" in said(notebook, capsys, "cache ls")
    (tmp_path / "kernels" / "mine.txt").write_text("stays")
    assert "removed" in said(notebook, capsys, "cache clear")
    assert said(notebook, capsys, "cache").startswith("0 libraries of kernels, 0 B")
    assert (tmp_path / "kernels" / "mine.txt").exists()
    notebook.cell("f(torch.ones(3))")
    assert "use cache ls, cache path, cache clear" in said(notebook, capsys, "cache drop", fails=True)


def test_explain_of_a_name_runs_nothing(notebook: Any, capsys: Any) -> None:
    notebook.cell("seen = []\n")
    notebook.cell("%%compile\ndef g(x):\n    print('effect')\n    seen.append(1)\n    return x + 1")
    notebook.cell("%compile explain g")
    assert capsys.readouterr().out == ""
    assert notebook["seen"] == []
    assert notebook.cards[-1]["text/plain"].startswith("g: waiting")


def test_why_names_a_cure_that_works(notebook: Any, capsys: Any) -> None:
    notebook.cell("%%compile\ndef f(xs):\n    return sum(x.sin() for x in xs)")
    notebook.cell("for n in (2, 3): f([torch.ones(2)] * n)")
    text = said(notebook, capsys, "why f")
    assert "compiled again: len(xs) == 2; now 3" in text
    assert "the guard that failed, once: len(xs) == 2; then it was 3" in text
    assert "try: pass one tensor (torch.stack)" in text
    notebook.cell("%%compile --dynamic on\ndef g(xs):\n    return xs.sin().sum(0)")
    notebook.cell("for n in (2, 3, 4): g(torch.stack([torch.ones(2)] * n))")
    assert "never compiled again" in said(notebook, capsys, "why g")


def test_a_function_that_is_compiled_often_says_so_where_it_is_called(notebook: Any, capsys: Any) -> None:
    notebook.cell("%%compile\ndef f(xs):\n    return sum(xs)")
    notebook.cell("for n in (2, 3): f([torch.ones(2)] * n)")
    assert "compiled again" not in capsys.readouterr().out
    notebook.cell("for n in (4, 5): f([torch.ones(2)] * n)")
    text = capsys.readouterr().out
    assert text.startswith("f was compiled again, 3 times by now: len(xs) == ")
    assert "; try: " in text
    notebook.cell("f([torch.ones(2)] * 5);")
    assert capsys.readouterr().out == ""
    notebook.cell("%config Compile.notice = 'never'")
    notebook.cell("for n in (6, 7): f([torch.ones(2)] * n)")
    assert capsys.readouterr().out == ""


def test_a_report_has_other_forms_without_a_notebook(tmp_path: Path) -> None:
    program = (
        "import sys, dynajit, torch\n"
        "f = dynajit.compile(lambda x: x.exp() + 1)\n"
        "f(torch.ones(3))\n"
        "r = dynajit.report(f)\n"
        "print(r)\n"
        "r.to_html('r.html'); r.to_json('r.json')\n"
        "assert 'exp -> add' in r.to_dot()\n"
        "assert 'IPython' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=100,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "1 graph" in done.stdout
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    data = json.loads((tmp_path / "r.json").read_text())
    assert data["graphs"][0]["nodes"][0]["target"] == "exp"
    assert small().to_dict()["breaks"][0]["code"] == "DJ-D001"
    assert set(small()._repr_mimebundle_()) == {"text/plain", "text/html"}
