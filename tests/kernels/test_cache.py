"""The disk cache and the toolchain: damage, strangers, folders that cannot be written, interrupts, no compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx import symbolic_trace

from dynajit.backends import CompiledGraph, compile_graph
from dynajit.caching.store import Store, temporary_root
from dynajit.errors import OptionError, ToolchainError
from dynajit.options import Options
from dynajit.runtime import toolchain as toolchain_module
from dynajit.runtime.toolchain import Toolchain, toolchain

ROOT = Path(__file__).parents[2]
X = torch.arange(6.0)


def function(x: Any) -> Any:
    return (x * 2 + 1,)


def build(**options: Any) -> CompiledGraph:
    return compile_graph(symbolic_trace(function), (X,), Options(backend="native", **options))


def launched(graph: CompiledGraph) -> Any:
    (kernel,) = [k for k in graph.kernels if k.launched]
    return kernel


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DYNAJIT_CACHE_DIR", str(tmp_path / "cache"))
    temporary_root.cache_clear()
    return tmp_path / "cache"


def test_second_build_is_a_hit(folder: Path) -> None:
    assert not launched(build()).cache_hit
    again = build()
    assert launched(again).cache_hit
    assert torch.equal(again.fn(X)[0], X * 2 + 1)


@pytest.mark.parametrize("damage", ["truncate", "other bytes", "no checksum", "empty checksum", "a folder"])
def test_damaged_entries_are_built_again(folder: Path, damage: str) -> None:
    build()
    (entry,) = folder.rglob("*.so")
    checksum = entry.with_suffix(".so.sum")
    content = entry.read_bytes()
    entry.unlink()  # the process still has the old file mapped: never write into it
    if damage == "truncate":
        entry.write_bytes(content[:100])
    elif damage == "other bytes":
        entry.write_bytes(content[:-8] + b"12345678")
    elif damage == "a folder":
        entry.mkdir()
    else:
        entry.write_bytes(content)
        checksum.unlink() if damage == "no checksum" else checksum.write_text("")
    again = build()
    assert not launched(again).cache_hit
    assert torch.equal(again.fn(X)[0], X * 2 + 1)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")
def test_foreign_entries_are_not_loaded(folder: Path) -> None:
    build()
    (entry,) = folder.rglob("*.so")
    os.chown(entry, 12345, 12345)
    assert not launched(build()).cache_hit


def test_unwritable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("DYNAJIT_CACHE_DIR", str(blocked / "below"))
    assert torch.equal(build().fn(X)[0], X * 2 + 1)


def test_the_key_covers_source_flags_compiler_and_processor(folder: Path) -> None:
    chain = toolchain()
    assert chain is not None
    text = "int f(void) { return 1; }"
    paths = {
        chain.build(text, Store())[0],
        chain.build(text + "\n", Store())[0],
        Toolchain(chain.command, chain.identity, (*chain.flags, "-DX"), chain.run).build(text, Store())[0],
        Toolchain(chain.command, chain.identity + "2", chain.flags, chain.run).build(text, Store())[0],
    }
    assert len(paths) == 4


def test_a_compiler_that_fails(folder: Path) -> None:
    chain = toolchain()
    assert chain is not None
    with pytest.raises(ToolchainError, match="expected"):
        chain.build("int f(void) { return ", Store())
    assert not list(folder.rglob("*.so"))


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAJIT_CC", "")
    toolchain_module.toolchain.cache_clear()
    try:
        graph = build()
        assert "no C compiler" in graph.notes[0]
        assert torch.equal(graph.fn(X)[0], X * 2 + 1)
    finally:
        monkeypatch.undo()
        toolchain_module.toolchain.cache_clear()


def test_unknown_backend_lists_the_names() -> None:
    with pytest.raises(OptionError, match="native"):
        compile_graph(symbolic_trace(function), (X,), Options(backend="nothing"))


def test_foreign_callable() -> None:
    graph = compile_graph(symbolic_trace(function), (X,), Options(backend=lambda gm, inputs: gm.forward))
    assert torch.equal(graph.fn(X)[0], X * 2 + 1)


PROGRAM = """
import json, sys, torch
from torch.fx import symbolic_trace
from dynajit.backends import compile_graph
from dynajit.options import Options
x = torch.arange(6.0)
graph = compile_graph(symbolic_trace(lambda x: (torch.tanh(x * 3) + 1,)), (x,), Options(backend="native"))
ok = torch.equal(graph.fn(x)[0], torch.tanh(x * 3) + 1)
heavy = [m for m in ("torch._dynamo", "torch._inductor", "sympy", "triton", "IPython") if m in sys.modules]
print(json.dumps({"ok": ok, "hit": graph.kernels[0].cache_hit, "heavy": heavy}))
"""


def spawn(program: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    given = {**os.environ, "DYNAJIT_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT), **environment}
    return subprocess.Popen([sys.executable, "-c", program], env=given, stdout=subprocess.PIPE, text=True)


def test_two_processes_at_once_and_nothing_heavy_is_imported(folder: Path) -> None:
    both = [spawn(PROGRAM, folder) for _ in range(2)]
    for process in both:
        row = json.loads(process.communicate(timeout=120)[0])
        assert row["ok"]
        assert row["heavy"] == []
    assert len(list(folder.rglob("*.so"))) == 1
    assert not list(folder.rglob(".new-*"))


SLOW_COMPILER = """#!/bin/sh
echo $$ > {pid}
exec sleep 60
"""


def wait_until(holds: Callable[[], bool]) -> None:
    """Until it does; a busy machine may take its time."""
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_running(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_interrupting_a_build_leaves_nothing_behind(folder: Path, tmp_path: Path) -> None:
    compiler, pid = tmp_path / "slowcc", tmp_path / "pid"
    compiler.write_text(SLOW_COMPILER.format(pid=pid))
    compiler.chmod(0o755)
    program = PROGRAM.replace("graph = compile_graph", "import signal\ngraph = compile_graph")
    process = spawn(program, folder, DYNAJIT_CC=str(compiler))
    wait_until(lambda: pid.exists() and bool(pid.read_text().strip()))
    process.send_signal(2)
    process.communicate(timeout=120)
    assert process.returncode != 0
    wait_until(lambda: not is_running(int(pid.read_text())))
    assert not list(folder.rglob("*.so*"))
    assert not list(folder.rglob(".new-*"))


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    def sums(x: Any) -> Any:
        y = x * 1.1
        return y.sum(), y.sum(0), y.sum(1), torch.softmax(y, -1), y.std()

    x = torch.rand(300, 1500, generator=torch.Generator().manual_seed(0))
    graph = compile_graph(symbolic_trace(sums), (x,), Options(backend="native"))
    threads = torch.get_num_threads()
    try:
        found = []
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(graph.fn(x))
        for other in found[1:]:
            assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
    finally:
        torch.set_num_threads(threads)


def test_denormals_stay() -> None:
    graph = compile_graph(symbolic_trace(lambda x: (x * 0.5 + 0.0,)), (X,), Options(backend="native"))
    tiny = torch.full((6,), 1e-40)
    assert torch.equal(graph.fn(tiny)[0], tiny * 0.5 + 0.0)
    assert (tiny * 0.5 > 0).all()  # nobody turned flushing on for the whole process


def test_building_in_the_background(folder: Path) -> None:
    def wide(x: Any) -> Any:
        return (torch.tanh(x * 3 - 1) * 2,)

    x = torch.linspace(-1, 1, 50)
    heard: list[str] = []

    def note(stage: str, detail: str, seconds: float | None) -> None:
        if seconds is not None:
            heard.append(stage)

    options = Options(backend="native", build="async")
    graph = compile_graph(symbolic_trace(wide), (x,), options, note)
    assert graph.kernels
    assert torch.equal(graph.fn(x)[0], wide(x)[0])
    for _ in range(200):
        if "building" in heard:
            break
        time.sleep(0.05)
    assert torch.equal(graph.fn(x)[0], wide(x)[0])
    assert launched(compile_graph(symbolic_trace(wide), (x,), options)).cache_hit
