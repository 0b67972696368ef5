"""Interrupting the kernel while something is compiled: at once, without a trace, and the next run of the cell works."""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

SLOW_COMPILER = """#!/bin/sh
if [ -e "{folder}/quick" ]; then exec {compiler} "$@"; fi
echo started >> "{folder}/started"
exec sleep 53.19
"""
BUILT = "%%compile\ndef f(x):\n    return (x * 2 + 1).tanh() * 3\n"
TRACED = "%%compile\ndef f(x):\n    for i in range(200_000):\n        x = x + i\n    return x\n"

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning",
                                        "ignore::pytest.PytestUnraisableExceptionWarning")  # fmt: skip


class Kernel:
    """A kernel of its own, and what its cells say."""

    def __init__(self, manager: Any, client: Any) -> None:
        self.manager, self.client = manager, client

    def start(self, text: str) -> str:
        return str(self.client.execute(text))

    def finish(self, cell: str, timeout: float = 120) -> dict[str, Any]:
        """status, traceback and printed text of a cell that was started."""
        found: dict[str, Any] = {"status": "ok", "traceback": "", "text": "", "ended": 0.0}
        end = time.monotonic() + timeout
        while True:
            message = self.client.get_iopub_msg(timeout=max(0.1, end - time.monotonic()))
            if message["parent_header"].get("msg_id") != cell:
                continue
            content = message["content"]
            if message["msg_type"] == "error":
                found |= {"status": content["ename"], "traceback": plain("\n".join(content["traceback"]))}
                found["ended"] = time.monotonic()
            elif message["msg_type"] == "stream":
                found["text"] += content["text"]
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return found

    def run(self, text: str) -> str:
        found = self.finish(self.start(text))
        assert found["status"] == "ok", found["traceback"]
        return str(found["text"]).strip()


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    manager_module = pytest.importorskip("jupyter_client.manager")
    compiler = tmp_path / "slow-cc"
    compiler.write_text(SLOW_COMPILER.format(folder=tmp_path, compiler=shutil.which("gcc") or shutil.which("clang")))
    compiler.chmod(0o755)
    env = dict(
        os.environ, DYNAJIT_CC=str(compiler), DYNAJIT_CACHE_DIR=str(tmp_path / "cache"), IPYTHONDIR=str(tmp_path),
        PYTHONPATH=os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
    )  # fmt: skip
    manager, client = manager_module.start_new_kernel(env=env, kernel_name="python3", cwd=str(tmp_path))
    try:
        made = Kernel(manager, client)
        made.run("%load_ext kernel_ext\nimport torch, dynajit")
        yield made
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def interrupted(kernel: Kernel, cell: str) -> dict[str, Any]:
    """What the cell says when it is interrupted now, with the time that this took as `after`."""
    sent = time.monotonic()
    kernel.manager.interrupt_kernel()
    found = kernel.finish(cell, timeout=60)
    found["after"] = found["ended"] - sent
    return found


def soon(kernel: Kernel) -> float:
    """A second, and what interrupting a plain loop takes on this machine now."""
    cell = kernel.start("while True: pass")
    time.sleep(0.3)
    return 1.0 + 2 * float(interrupted(kernel, cell)["after"])


def wait_for(condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def running(text: str) -> bool:
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return any(text in line for line in found.splitlines())


@pytest.mark.skipif(sys.platform != "linux", reason="asks ps for processes")
def test_while_kernels_are_built(kernel: Kernel, tmp_path: Path) -> None:
    limit = soon(kernel)
    kernel.run(BUILT)
    cell = kernel.start("y = f(torch.ones(3))")
    wait_for((tmp_path / "started").exists)
    found = interrupted(kernel, cell)
    assert found["status"] == "KeyboardInterrupt"
    assert found["after"] < limit
    assert len(found["traceback"].splitlines()) < 25
    assert "f(torch.ones(3))" in found["traceback"]
    assert not running("sleep 53.19")  # the compiler is gone
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []
    assert list((tmp_path / "cache").rglob(".new-*")) == []
    assert kernel.run("print(dynajit.report(f).status, 'y' in globals())") == "waiting False"
    (tmp_path / "quick").touch()
    assert kernel.run("print(torch.allclose(f(torch.ones(3)), torch.tensor(3.0).tanh() * 3))") == "True"
    assert kernel.run("print(dynajit.report(f).headline())").startswith("f: 1 graph · 0 breaks")
    assert list((tmp_path / "cache").rglob("*.so"))


def test_while_a_program_is_traced(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "quick").touch()
    limit = soon(kernel)
    kernel.run(TRACED)
    cell = kernel.start("print('traced'); y = f(torch.zeros(()))")
    while True:  # the cell runs
        try:
            message = kernel.client.get_iopub_msg(timeout=60)
        except queue.Empty:
            raise AssertionError("the cell has not started") from None
        if message["msg_type"] == "stream" and message["content"]["text"].startswith("traced"):
            break
    time.sleep(0.7)
    found = interrupted(kernel, cell)
    assert found["status"] == "KeyboardInterrupt"
    assert found["after"] < limit
    assert len(found["traceback"].splitlines()) < 25
    assert kernel.run("print(dynajit.report(f).status)") == "waiting"
    assert kernel.run("import threading; print([t.name for t in threading.enumerate() if 'build' in t.name])") == "[]"
    kernel.run(TRACED.replace("200_000", "20"))
    assert kernel.run("print(f(torch.zeros(())).item(), dynajit.report(f).status)") == "190.0 compiled"
