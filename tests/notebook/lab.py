"""A real JupyterLab on a free port, and a real browser in front of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).parents[2]
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
PRIVATE = ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR", "LAB_SETTINGS_DIR", "LAB_WORKSPACES_DIR")
PATIENCE = 120_000  # milliseconds; a busy machine needs them


def chromium() -> str | None:
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


class Lab:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]

    @contextlib.contextmanager
    def running(self) -> Iterator[Lab]:
        """The server, with settings, data and history of its own."""
        home = self.folder / "home"
        env = dict(
            os.environ, IPYTHONDIR=str(home / "ipython"), DYNAJIT_CACHE_DIR=str(home / "cache"),
            DYNAJIT_CC=str(self._compiler()),
        )  # fmt: skip
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        for name in PRIVATE:
            variable = f"JUPYTER{name}" if name.startswith("LAB") else f"JUPYTER_{name}"
            env[variable] = str(home / name.lower())
        news = home / "lab_settings_dir" / "@jupyterlab" / "apputils-extension"
        news.mkdir(parents=True, exist_ok=True)
        (news / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
        command = [
            sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={self.port}",
            "--ServerApp.port_retries=0", "--IdentityProvider.token=t", f"--ServerApp.root_dir={self.folder}",
            "--LabApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly",
            "--JupyterNotebookApp.expose_app_in_browser=True",
        ]  # fmt: skip
        with (self.folder / "lab.log").open("w") as log:
            server = subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=self.folder)
            try:
                self._wait(server)
                yield self
            finally:
                self.end_sessions()
                server.terminate()
                server.wait(30)

    def _compiler(self) -> Path:
        """The C compiler, which takes ten seconds while there is a file `slow`."""
        script = self.folder / "cc"
        real = shutil.which("gcc") or shutil.which("clang") or "cc"
        script.write_text(f'#!/bin/sh\n[ -e "{self.folder}/slow" ] && sleep 10.37\nexec {real} "$@"\n')
        script.chmod(0o755)
        return script

    def _wait(self, server: subprocess.Popen[bytes]) -> None:
        for _ in range(600):
            assert server.poll() is None, (self.folder / "lab.log").read_text()
            with contextlib.suppress(OSError):
                self.ask("/api/status")
                return
            time.sleep(0.2)
        raise AssertionError("JupyterLab does not answer: " + (self.folder / "lab.log").read_text())

    def ask(self, path: str, method: str = "GET") -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}?token=t", method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def end_sessions(self) -> None:
        with contextlib.suppress(OSError):
            for session in self.ask("/api/sessions"):
                self.ask(f"/api/sessions/{session['id']}", "DELETE")

    def write(self, name: str, cells: list[str]) -> Path:
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells], metadata=kernel)
        nbformat.write(notebook, self.folder / name)
        return self.folder / name


class Tab:
    """A page with a notebook open; what goes wrong in it is kept."""

    def __init__(self, browser: Any, lab: Lab) -> None:
        self.lab = lab
        self.page = browser.new_context(viewport={"width": 1280, "height": 1200}).new_page()
        self.faults: list[str] = []
        self.foreign: list[str] = []
        self.page.on("console", lambda message: message.type == "error" and self.faults.append(message.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", self._requested)

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((f"http://127.0.0.1:{self.lab.port}/", "data:", "blob:")):
            self.foreign.append(request.url)

    def open(self, name: str, with_kernel: bool = True, front: str = "lab/tree") -> None:
        self.page.goto(f"http://127.0.0.1:{self.lab.port}/{front}/{name}?token=t&reset", wait_until="domcontentloaded")
        self.page.wait_for_selector(".jp-Notebook", timeout=PATIENCE)
        if with_kernel:
            self.kernel_is("idle")

    def select(self, cell: int) -> None:
        self.page.evaluate(f"void (jupyterapp.shell.currentWidget.content.activeCellIndex = {cell})")

    def command(self, name: str, arguments: str = "{}") -> None:
        """Of a cell that runs, the answer comes when it has run."""
        self.page.evaluate(f"jupyterapp.commands.execute('{name}', {arguments}).then(() => 1)")

    def command_without_waiting(self, name: str) -> None:
        self.page.evaluate(f"void jupyterapp.commands.execute('{name}')")

    def restart(self) -> None:
        """The kernel, without the question whether."""
        self.page.evaluate(
            "jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.restart().then(() => 1)"
        )
        self.kernel_is("idle")

    def kernel_is(self, status: str) -> None:
        path = "window.jupyterapp.shell.currentWidget?.context?.sessionContext?.session?.kernel?.status"
        self.page.wait_for_function(f"{path} === '{status}'", timeout=PATIENCE)

    def close(self) -> None:
        self.page.context.close()
