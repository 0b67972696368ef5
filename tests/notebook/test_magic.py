"""`%%compile` and `%compile`: what a cell defines becomes compiled, and everything else is as in a plain cell."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

BLOCK = """%%compile
def helper(h):
    return h * 2 + 1

def block(x):
    h = helper(x).relu()
    print("rows", x.shape[0])
    return h.softmax(-1)
"""


def compiled(value: Any) -> bool:
    return type(value).__name__ == "Dispatcher"


# ---- what is compiled ----


def test_functions_are_compiled_and_give_eagers_result(notebook: Any, capsys: Any) -> None:
    notebook.cell(BLOCK)
    assert notebook.text("block") == "block: waiting for its first call"
    notebook.cell("x = torch.randn(3, 4); y = block(x)")
    assert capsys.readouterr().out == "rows 3\n"
    assert compiled(notebook["block"])
    assert notebook.cell("torch.allclose(y, (x * 2 + 1).relu().softmax(-1))")
    assert notebook.text("block").startswith("block: 2 graphs · 1 break")
    assert "DJ-B001" in notebook.text("block")
    assert notebook.text("helper") == "helper: captured as a part of block"


def test_a_call_in_the_same_cell_is_compiled_too(notebook: Any) -> None:
    notebook.cell("%%compile\ndef f(x):\n    return x + 1\n\ny = f(torch.ones(2))")
    assert notebook.text("f").startswith("f: 1 graph · 0 breaks")


def test_lambdas_classes_and_instances(notebook: Any) -> None:
    notebook.cell(
        "%%compile\n"
        "double = lambda x: x * 2\n"
        "class Net(nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x.tanh() + 1\n"
        "class Plain:\n"
        "    def forward(self, x):\n"
        "        return x\n"
        "net = Net()\n"
        "line: nn.Module = nn.Linear(2, 2)\n"
    )
    notebook.cell("x = torch.ones(2); double(x), net(x), line(x)")
    assert [notebook.text(name).split(" ·")[0] for name in ("double", "Net.forward")] == [
        "double: 1 graph",
        "Net.forward: 1 graph",
    ]
    assert re.match(r"line: \d+ graphs? ·", notebook.text("line"))  # other tests may have compiled nn.Linear as well
    assert not compiled(notebook["Plain"].forward)
    assert isinstance(notebook["line"], notebook["nn"].Linear)
    assert sorted(notebook["line"].state_dict()) == ["bias", "weight"]


def test_classes_that_use_each_other_are_captured_as_one_graph(notebook: Any) -> None:
    notebook.cell(
        "%%compile\n"
        "class Block(nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x.relu() + 1\n"
        "class Wide(Block):\n"
        "    def forward(self, x):\n"
        "        return super().forward(x) + Block.forward(self, x)\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.parts = nn.ModuleList([Block(), Wide()])\n"
        "    def forward(self, x):\n"
        "        for part in self.parts:\n"
        "            x = part(x)\n"
        "        return x\n"
    )
    assert notebook.cell("Net()(torch.ones(2))").tolist() == [6.0, 6.0]
    assert notebook.text("Net.forward").startswith("Net.forward: 1 graph · 0 breaks · 7 ops")
    assert notebook.text("Block.forward") == "Block.forward: captured as a part of Net.forward"


def test_definitions_inside_if_with_and_try_are_top_level(notebook: Any) -> None:
    notebook.cell(
        "%%compile\nif True:\n    def f(x):\n        return x + 1\ntry:\n    g = lambda x: x\nfinally:\n    pass"
    )
    assert compiled(notebook["f"])
    assert compiled(notebook["g"])


def test_only_the_names_that_are_listed(notebook: Any) -> None:
    notebook.cell("%%compile g\ndef f(x):\n    return x\n\ndef g(x):\n    return x + 1")
    assert not compiled(notebook["f"])
    assert compiled(notebook["g"])


def test_generators_and_coroutines_are_declined_with_a_reason(notebook: Any) -> None:
    notebook.cell("%%compile\ndef g(n):\n    yield n\n\nasync def c(x):\n    return x")
    assert list(notebook["g"](3)) == [3]
    assert "DJ-S001" in notebook.text("g")
    assert "DJ-S001" in notebook.text("c")


def test_decorators_stand_around_the_compiled_function(notebook: Any) -> None:
    notebook.cell(
        "%%compile\nimport functools\n\n@functools.lru_cache\ndef f(n):\n    return torch.ones(n) + 1\n\n"
        "@torch.no_grad()\ndef g(x):\n    return x * 2\n"
    )
    notebook.cell("f(3); w = torch.ones(2, requires_grad=True); z = g(w)")
    assert not notebook["z"].requires_grad
    assert notebook.text("g").startswith("g: 1 graph")
    assert notebook.text("f").startswith("f: 1 graph")


# ---- as in a plain cell ----


def test_value_of_the_last_line_and_semicolon(notebook: Any) -> None:
    assert notebook.cell("%%compile\ndef f(x):\n    return x\n40 + 2") == 42
    assert notebook["_"] == 42
    notebook.cell("%%compile\ndef f(x):\n    return x\n43;")
    assert notebook["_"] == 42


def test_await_magics_and_shell_lines_inside(notebook: Any) -> None:
    notebook.cell(
        "%%compile\nimport asyncio\nawait asyncio.sleep(0)\nout = !echo hello\n%time z = 1\n"
        "async def later():\n    return 5\nv = await later()"
    )
    assert list(notebook["out"]) == ["hello"]
    assert notebook["v"] == 5


def test_future_imports_stay_first(notebook: Any) -> None:
    notebook.cell("%%compile\nfrom __future__ import annotations\ndef f(x: Unknown) -> Unknown:\n    return x + 1")
    assert notebook["f"].__annotations__["x"] == "Unknown"


def test_errors_name_the_editors_lines(notebook: Any, capsys: Any) -> None:
    notebook.cell("%%compile\ndef f(x):\n    raise ValueError('boo')\n\nf(torch.ones(2))", fails=True)
    said = capsys.readouterr().out
    assert ", line 3, in f(x)" in said
    assert ", line 5\n" in said
    notebook.cell("%%compile --tab graph\n1 / 0", fails=True)
    said += capsys.readouterr().out
    assert "1 # %%compile --tab graph\n----> 2 1 / 0" in said
    assert "kernel_ext" not in said
    assert "dynajit" not in said
    assert "__compile_cell__" not in said


def test_syntax_errors_name_the_editors_line(notebook: Any, capsys: Any) -> None:
    notebook.cell("%%compile\ndef f(x):\n    return x +\n", fails=True)
    assert "line 3" in capsys.readouterr().out


def test_pythons_own_compile_still_works(notebook: Any) -> None:
    assert notebook.cell("eval(compile('1 + 1', 'x', 'eval'))") == 2
    assert notebook.cell("compile = compile; compile is __builtins__.compile")


# ---- run again, run elsewhere ----


def test_an_unchanged_cell_that_is_run_again_captures_nothing(notebook: Any) -> None:
    notebook.cell(BLOCK)
    notebook.cell("y = block(torch.ones(2, 3))")
    first = notebook["block"]
    for _ in range(5):
        notebook.cell(BLOCK)
        started = time.perf_counter()
        notebook.cell("y = block(torch.ones(2, 3))")
        assert time.perf_counter() - started < 0.5
    assert notebook["block"] is not first
    assert notebook.text("block").startswith("block: 2 graphs · 1 break")
    import dynajit

    assert len(dynajit.report(notebook["block"]).entries) == 2


def test_a_changed_constant_gives_the_new_result(notebook: Any) -> None:
    notebook.cell("%%compile\ndef f(x):\n    return x + 1")
    assert float(notebook.cell("f(torch.zeros(()))")) == 1
    notebook.cell("%%compile\ndef f(x):\n    return x + 5")
    assert float(notebook.cell("f(torch.zeros(()))")) == 5
    assert "return x + 5" in notebook.text("f")


def test_a_helper_that_is_redefined_is_used(notebook: Any) -> None:
    notebook.cell("%%compile\ndef h(x):\n    return x + 1")
    notebook.cell("%%compile\ndef f(x):\n    return h(x) * 2")
    assert float(notebook.cell("f(torch.zeros(()))")) == 2
    notebook.cell("%%compile\ndef h(x):\n    return x + 2")
    assert float(notebook.cell("f(torch.zeros(()))")) == 4


def test_below_time(notebook: Any, capsys: Any) -> None:
    notebook.cell("%%time\n%%compile\ndef f(x):\n    return x * 3\ny = f(torch.ones(2))")
    assert compiled(notebook["f"])
    assert "return x * 3" in notebook.text("f")
    assert "Wall time" in capsys.readouterr().out


def test_as_a_real_magic(notebook: Any) -> None:
    value = notebook.shell.run_cell_magic("compile", "", "def f(x):\n    return x * 3\nf(torch.ones(()))")
    assert float(value) == 3
    assert notebook.text("f").startswith("f: 1 graph")
    with pytest.raises(ZeroDivisionError) as error:
        notebook.shell.run_cell_magic("compile", "", "def f(x):\n    return x\n1 / 0")
    assert error.traceback[-1].lineno == 3  # counted from 0: the line under `%%compile` is the second


# ---- options ----


def test_wrong_options_are_one_line(notebook: Any, capsys: Any) -> None:
    wrong = {
        "--fulgraph": "there is no option --fulgraph; did you mean --fullgraph?",
        "nope": "there is no function or module 'nope' in this cell; it defines f",
        "-b nativ": "there is no backend 'nativ'",
        "--view huge": "invalid choice: 'huge'",
        "-w f(": "a bracket is not closed",
        "-o 3x": "'3x' is not a name",
    }
    for line, words in wrong.items():
        notebook.cell(f"%%compile {line}\ndef f(x):\n    return x", fails=True)
        said = capsys.readouterr()
        assert words in said.err
        assert len((said.err + said.out).strip().splitlines()) == 1


def test_warm_calls_after_the_cell(notebook: Any) -> None:
    notebook.cell("text = []")
    notebook.cell("%%compile -w f(torch.ones(2), \"a  b\") -w 'f(torch.ones(3), \"c\")'\n"
                  "def f(x, word):\n    text.append(word)\n    return x + 1")  # fmt: skip
    assert notebook["text"] == ["a  b", "c"]
    assert notebook.text("f").startswith("f: ")
    assert "waiting" not in notebook.text("f")


def test_check_compares_with_eager(notebook: Any, capsys: Any) -> None:
    notebook.cell("%%compile --check\ndef f(x):\n    print('once')\n    x.add_(1)\n    return x.exp()")
    notebook.cell("x = torch.zeros(3); y = f(x); f(x)")
    assert capsys.readouterr().out.count("once") == 2
    assert "✓ check" in notebook.text("f")
    assert compiled(notebook["f"])
    assert notebook["x"].tolist() == [2.0, 2.0, 2.0]


def test_check_of_a_module_compiles_it_once(notebook: Any) -> None:
    notebook.cell("%%compile --check\nclass M(nn.Module):\n    def forward(self, x):\n        return x.sin()\nm = M()")
    assert [card["text/plain"].split(":")[0] for card in notebook.cards] == ["M.forward"]
    notebook.cell("m(torch.ones(2))")
    assert "✓ check" in notebook.text("M.forward")
    assert compiled(notebook["M"].forward)
    assert notebook.shell.display_pub.updates == 1


def test_fullgraph_says_where_and_what_to_try(notebook: Any, capsys: Any) -> None:
    notebook.cell("%%compile --fullgraph\ndef f(x):\n    if x.sum() > 0:\n        return x\n    return -x")
    number = notebook.shell.execution_count - 1
    notebook.cell("f(torch.ones(2))", fails=True)
    said = capsys.readouterr().out
    assert "DJ-D001" in said
    assert f"CompileError: In[{number}], line 3: fullgraph=True, but a branch on a tensor value" in said
    assert "try: use torch.where" in said
    assert "ipykernel" not in said
    assert len(said.strip().splitlines()) < 12
    assert "not compiled, line 3" in notebook.text("f")


def test_out_view_quiet_and_dynamic(notebook: Any) -> None:
    notebook.cell("%%compile -o r --quiet\ndef f(x):\n    return x + 1\nf(torch.ones(2))")
    assert notebook.cards == []
    assert notebook["r"].headline().startswith("f: 1 graph")
    notebook.cell("%%compile -q -o both\ndef f(x):\n    return x + 1\ndef g(x):\n    return x - 1")
    assert [report.status for report in notebook["both"]] == ["waiting", "waiting"]
    notebook.cell("g(torch.ones(2))")
    assert [report.status for report in notebook["both"]] == ["waiting", "compiled"]
    notebook.cell("%%compile --view text -d on -b eager\ndef g(x):\n    return x + 1\ng(torch.ones(2))")
    assert list(notebook.card("g")) == ["text/plain"]
    assert notebook.cell("%compile show g") is None


def test_settings(notebook: Any, capsys: Any) -> None:
    notebook.cell("%config Compile.view = 'none'")
    notebook.cell("%%compile\ndef f(x):\n    return x + 1\nf(torch.ones(2));")
    assert notebook.cards == []
    notebook.cell("%config Compile.view = 'open'")
    notebook.cell("%%compile\ndef g(x):\n    return x + 1\ng(torch.ones(2));")
    assert 'data-open="all"' in notebook.card("g")["text/html"]
    assert notebook.card("g")["text/html"].count('<details class="dj-tab"') == 6
    assert notebook.card("g")["text/html"].count(" open><summary") >= 6
    notebook.cell("%config Compile.view = 'card'")


def test_force_captures_again(notebook: Any) -> None:
    cell = "%%compile {}\ndef f(x):\n    return x + 1"
    notebook.cell(cell.format(""))
    notebook.cell("f(torch.ones(2)); f(torch.ones(2)); f(torch.ones(2))")
    notebook.cell(cell.format("--force"))
    notebook.cell("f(torch.ones(2))")
    import dynajit

    assert dynajit.report(notebook["f"]).entries[0].hits == 1


# ---- %compile ----


def test_line_commands(notebook: Any, capsys: Any) -> None:
    notebook.cell("%compile")
    assert "nothing is compiled yet" in capsys.readouterr().out
    notebook.cell(BLOCK)
    notebook.cell("y = block(torch.ones(2, 3)); y = block(torch.ones(2, 3, 1))")
    capsys.readouterr()
    notebook.cell("%compile")
    table = capsys.readouterr().out
    assert table.split()[:3] == ["name", "status", "graphs"]
    assert "block" in table
    said = {}
    for command in ("why", "guards", "graph", "dot", "kernels"):
        notebook.cell(f"%compile {command} block")
        said[command] = capsys.readouterr().out
    assert "compiled again: x is a tensor" in said["why"]
    assert "try: " in said["why"]
    assert "✗ failed once" in said["guards"]
    assert "def forward(self, x" in said["graph"]
    assert said["dot"].startswith('digraph "block graph 0"')
    assert "block: " in said["kernels"]
    notebook.cell("%compile show block")
    assert notebook.cards[-1]["text/plain"].startswith("block: ")
    notebook.cell("%compile reset block")
    notebook.cell("%compile why block")
    assert "waiting" in capsys.readouterr().out


def test_line_commands_that_are_wrong(notebook: Any, capsys: Any) -> None:
    wrong = {"shw f": "did you mean show?", "show": "nothing is compiled yet", "show f": "f is not compiled"}
    for line, words in wrong.items():
        notebook.cell(f"%compile {line}", fails=True)
        said = capsys.readouterr()
        assert words in said.err
        assert len((said.err + said.out).strip().splitlines()) == 1


def test_explain_leaves_the_entries_alone(notebook: Any, capsys: Any) -> None:
    notebook.cell("%%compile\ndef f(x):\n    return x + 1")
    notebook.cell("%compile explain f(torch.ones(2))")
    assert notebook.cards[-1]["text/plain"].startswith("f: 1 graph")
    notebook.cell("%compile why f")
    assert "waiting for its first call" in capsys.readouterr().out


def test_off_and_on(notebook: Any) -> None:
    notebook.cell(
        "%%compile\ndef f(x):\n    return x + 1\n"
        "class N(nn.Module):\n    def forward(self, x):\n        return x\nm = nn.ReLU()"
    )
    notebook.cell("%compile off")
    assert not compiled(notebook["f"])
    assert not compiled(notebook["N"].forward)
    assert "forward" not in vars(notebook["m"])
    notebook.cell("%%compile\ndef g(x):\n    return x")
    assert not compiled(notebook["g"])
    notebook.cell("%compile on")
    assert compiled(notebook["f"])
    assert compiled(notebook["N"].forward)
    assert compiled(notebook["m"].forward.__func__)


def test_export_and_dot_files(notebook: Any, tmp_path: Path) -> None:
    notebook.cell("%%compile\ndef f(x):\n    return x + 1\nf(torch.ones(2))")
    notebook.cell(f"%compile export f {tmp_path}/f.html")
    notebook.cell(f"%compile dot f {tmp_path}/f.dot")
    page = (tmp_path / "f.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "return x + 1" in page
    assert "->" in (tmp_path / "f.dot").read_text()


def test_a_report_as_a_value_is_a_card(notebook: Any) -> None:
    notebook.cell("%%compile\ndef f(x):\n    return x + 1\nf(torch.ones(2))")
    bundle, _ = notebook.shell.display_formatter.format(notebook.cell("import dynajit; dynajit.report(f)"))
    assert bundle["text/html"].startswith("<div")
    assert bundle["text/plain"].startswith("f: 1 graph")


def test_help_lists_every_option_and_command(notebook: Any) -> None:
    from kernel_ext.arguments import OPTIONS
    from kernel_ext.subcommands import SUBCOMMANDS

    text = notebook.shell.magics_manager.magics["line"]["compile"].__doc__
    assert all(flag in text for option in OPTIONS for flag in option.flags)
    assert all(f"%compile {word}" in text or f"| {word}" in text for word in SUBCOMMANDS)


# ---- completion ----


def completions(notebook: Any, text: str) -> list[str]:
    # the table of matchers is asked as a front end does
    context = notebook.shell.Completer
    return [item.text for item in context.completions(text, len(text))]


@pytest.mark.filterwarnings("ignore::IPython.core.completer.ProvisionalCompleterWarning")
def test_completions(notebook: Any) -> None:
    from kernel_ext.arguments import OPTIONS, TABS

    notebook.cell("%%compile\ndef double(x):\n    return x * 2")
    assert completions(notebook, "%%compile --f") == ["--force", "--fullgraph"]
    assert completions(notebook, "%%compile --view t") == ["text"]
    assert completions(notebook, "%%compile -b n") == ["native"]
    assert "why" in completions(notebook, "%compile w")
    assert "double" in completions(notebook, "%compile show d")
    from kernel_ext.subcommands import SUBCOMMANDS

    assert sorted(completions(notebook, "%compile ")) == sorted(SUBCOMMANDS)
    assert sorted(completions(notebook, "%compile graph ")) == ["--level", "--pass", "--save", "double"]
    assert sorted(completions(notebook, "%compile graph double --level ")) == ["kernel", "line", "module", "op"]
    assert sorted(completions(notebook, "%compile cache ")) == ["clear", "ls", "path"]
    assert completions(notebook, "%compile bench do") == ["double"]
    notebook.cell("double(torch.ones(3))")
    assert sorted(completions(notebook, "%compile diff double c")) == ["called", "captured"]
    flags = completions(notebook, "%%compile --")
    assert sorted(flags) == sorted(option.flags[-1] for option in OPTIONS)
    assert sorted(completions(notebook, "%%compile --tab ")) == sorted(TABS)


# ---- loading and unloading ----


def test_loading_is_quick_and_silent() -> None:
    program = (
        "import sys, time\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "from traitlets.config import Config\n"
        "c = Config(); c.HistoryManager.enabled = False; c.Compile.preload = False\n"
        "shell = InteractiveShell.instance(config=c)\n"
        "started = time.perf_counter()\n"
        "shell.run_line_magic('load_ext', 'kernel_ext')\n"
        "took = time.perf_counter() - started\n"
        "shell.run_cell('%load_ext kernel_ext')\n"
        "assert 'torch' not in sys.modules and 'dynajit' not in sys.modules\n"
        "assert len(shell.input_transformers_cleanup) == len(set(map(id, shell.input_transformers_cleanup)))\n"
        "print(took, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.strip()
        == "The kernel_ext extension is already loaded. To reload it, use:\n  %reload_ext kernel_ext"
    )
    assert float(done.stderr) < 0.3


def test_an_armed_card_needs_no_torch() -> None:
    program = (
        "import sys, time\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "from traitlets.config import Config\n"
        "c = Config(); c.HistoryManager.enabled = False; c.Compile.preload = False\n"
        "shell = InteractiveShell.instance(config=c)\n"
        "def run(cell):\n"
        "    result = shell.run_cell(cell, store_history=True)\n"
        "    assert result.success\n"
        "    return result.result\n"
        "run('%load_ext kernel_ext')\n"
        "started = time.perf_counter()\n"
        "run('%%compile\\ndef h(x):\\n    return x * 2\\ndef f(x):\\n    return h(x) + 1\\nalias = f')\n"
        "took = time.perf_counter() - started\n"
        "assert 'torch' not in sys.modules and 'dynajit' not in sys.modules\n"
        "run('x = 1')\n"
        "assert 'torch' not in sys.modules\n"
        "run('import torch')\n"
        "assert run('f(torch.ones(2)).tolist()') == [3.0, 3.0]\n"
        "assert type(run('f')).__name__ == type(run('h')).__name__ == 'Dispatcher'\n"
        "assert run('alias(torch.ones(2)).tolist()') == [3.0, 3.0]\n"
        "import dynajit\n"
        "assert dynajit.report(run('f')).headline().startswith('f: 1 graph · 0 breaks · 2 ops')\n"
        "print(took, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "f: waiting for its first call" in done.stdout
    assert float(done.stderr) < 0.05 + 0.1  # 50 ms on a machine with nothing else to do


def test_preloading_ends_with_the_process() -> None:
    program = (
        "import sys, threading\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "from traitlets.config import Config\n"
        "c = Config(); c.HistoryManager.enabled = False\n"
        "shell = InteractiveShell.instance(config=c)\n"
        "shell.run_line_magic('load_ext', 'kernel_ext')\n"
        "assert any(t.name == 'dynajit preload' and t.daemon for t in threading.enumerate())\n"
        "import time; time.sleep(0.3)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_unloading_restores_the_shell(plain: Any, capsys: Any) -> None:
    shell = plain.shell
    formatter = shell.display_formatter.formatters["text/html"]

    def state() -> Any:
        return (
            list(shell.input_transformers_cleanup), list(shell.ast_transformers), list(shell.Completer.custom_matchers),
            {kind: sorted(table) for kind, table in shell.magics_manager.magics.items()},
            dict(shell.builtin_trap.auto_builtins),
            {name: list(found) for name, found in shell.events.callbacks.items()}, dict(formatter.deferred_printers),
            sorted(name for name in vars(__import__("builtins")) if "compile" in name),
        )  # fmt: skip

    before = state()
    plain.cell("%load_ext kernel_ext")
    plain.cell("import torch")
    plain.cell("%%compile\ndef f(x):\n    return x + 1\nf(torch.ones(2))")
    import dynajit.events

    assert state() != before
    heard = len(dynajit.events._SUBSCRIBERS)
    plain.cell("%unload_ext kernel_ext")
    assert state() == before
    assert len(dynajit.events._SUBSCRIBERS) == heard - 1
    assert float(plain.cell("f(torch.zeros(()))")) == 1
    plain.cell("%%compile\ndef g(x):\n    return x", fails=True)
    plain.cell("%load_ext kernel_ext")
    plain.cell("%%compile\ndef g(x):\n    return x")
    assert compiled(plain["g"])
