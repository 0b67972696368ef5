"""A shell in this process, with everything that it displays collected; and notebooks that are run by a kernel."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

ROOT = Path(__file__).parents[2]


class Collected(DisplayPublisher):  # type: ignore[misc]
    """What was displayed, in order; an update replaces what has the same display id."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.all: list[dict[str, Any]] = []
        self.by_id: dict[str, dict[str, Any]] = {}
        self.updates = 0

    def publish(self, data: Any, *args: Any, transient: Any = None, update: bool = False, **kwargs: Any) -> None:
        name = (transient or {}).get("display_id")
        if update:
            self.updates += 1
            self.by_id[name].clear()
            self.by_id[name].update(data)
            return
        self.all.append(dict(data))
        if name:
            self.by_id[name] = self.all[-1]


@dataclass
class Notebook:
    """Cells are run by `cell`; `cards` are the outputs as they stand now."""

    shell: InteractiveShell
    results: list[Any] = field(default_factory=list)

    def cell(self, text: str, fails: bool = False) -> Any:
        result = self.shell.run_cell(text, store_history=True)
        self.results.append(result)
        assert result.success is not fails, result.error_in_exec or result.error_before_exec
        return result.result

    @property
    def cards(self) -> list[dict[str, Any]]:
        return self.shell.display_pub.all

    def card(self, name: str) -> dict[str, Any]:
        """The last card of a function."""
        return next(card for card in reversed(self.cards) if card["text/plain"].startswith(name + ": "))

    def text(self, name: str) -> str:
        return str(self.card(name)["text/plain"])

    def __getitem__(self, name: str) -> Any:
        return self.shell.user_ns[name]


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    """A shell without the extension."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    config = Config()
    config.HistoryManager.enabled = False
    config.Compile.preload = False
    before = dict(vars(builtins))
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=config, display_pub_class=Collected)
    shell.colors = "nocolor"
    try:
        yield Notebook(shell)
    finally:
        shell.extension_manager.unload_extension("kernel_ext")
        InteractiveShell.clear_instance()
        for name in set(vars(builtins)) - set(before):
            delattr(builtins, name)


@pytest.fixture
def notebook(plain: Notebook) -> Notebook:
    """A shell with the extension and torch."""
    plain.cell("%load_ext kernel_ext")
    plain.cell("import torch\nfrom torch import nn\nfrom torch.nn import functional as F")
    return plain


@pytest.fixture
def execute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run cells in a kernel of its own; returns the notebook with its outputs."""
    nbclient = pytest.importorskip("nbclient")
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PYTHONPATH", path)

    def run(cells: list[str] | Any, **options: Any) -> Any:
        notebook = cells
        if isinstance(cells, list):
            notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
        client = nbclient.NotebookClient(
            notebook, timeout=120, kernel_name="python3", store_widget_state=False,
            resources={"metadata": {"path": str(tmp_path)}}, **options,
        )  # fmt: skip
        try:
            client.execute()
        finally:
            run.notebook = notebook  # type: ignore[attr-defined]
        return notebook

    return run
