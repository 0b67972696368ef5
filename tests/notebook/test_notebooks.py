"""Whole notebooks, run by a kernel without a browser, as `jupyter execute` does."""

from __future__ import annotations

import json
import re
import resource
from pathlib import Path
from typing import Any

import nbformat
import pytest
from sanitiser import sanitised, text_of

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


def bundles(notebook: Any) -> list[dict[str, str]]:
    return [out["data"] for cell in notebook.cells for out in cell.get("outputs", []) if "data" in out]


def test_a_failing_cell_stops_the_notebook_and_cards_are_saved(execute: Any) -> None:
    from nbclient.exceptions import CellExecutionError

    with pytest.raises(CellExecutionError, match="boo"):
        execute(
            [
                "%load_ext kernel_ext\nimport torch",
                "%%compile\ndef f(x):\n    return x.exp().sum()",
                "f(torch.ones(3))",
                "%%compile\ndef g(x):\n    raise ValueError('boo')\n\ng(torch.ones(3))",
                "print('not reached')",
            ]
        )
    _, defined, called, failed, after = execute.notebook.cells
    (card,) = defined["outputs"]  # filled in by the call in the next cell
    assert card["data"]["text/plain"].startswith("f: 1 graph")
    assert "dj-report" in card["data"]["text/html"]
    assert [out["output_type"] for out in called["outputs"]] == ["execute_result"]
    said = "\n".join(line for out in failed["outputs"] for line in out.get("traceback", []))
    said = re.sub(r"\x1b\[[0-9;]*m", "", said)
    assert "Cell In[4], line 3, in g(x)" in said
    assert "kernel_ext" not in said
    assert after["outputs"] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path: Path, execute: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run from top to bottom, on one thread; no kernel takes more than 1.5 GB."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(path, 4)
    for cell in notebook.cells:
        cell.outputs = []
    execute(notebook)
    assert_cards(notebook)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 1_500_000  # kilobytes, of the largest child


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs(path: Path) -> None:
    """What GitHub and a notebook that was just opened show."""
    notebook = nbformat.read(path, 4)
    assert_cards(notebook)
    assert path.stat().st_size < 500_000
    assert not [out for cell in notebook.cells for out in cell.get("outputs", []) if out.output_type == "error"]
    assert not re.search(r"/(root|home|work)/|/tmp/(?!dynajit-)", "".join(map(str, outputs(notebook))))


def outputs(notebook: Any) -> list[Any]:
    return [out for cell in notebook.cells for out in cell.get("outputs", [])]


def assert_cards(notebook: Any) -> None:
    cards = [bundle for bundle in bundles(notebook) if "dj-report" in bundle.get("text/html", "")]
    assert cards
    for card in cards:
        assert card["text/plain"]
        assert len(card["text/html"]) < 400_000
    said = " ".join(text_of(sanitised(card["text/html"])) for card in cards)
    assert "captured" in said or "inlined" in said
    assert "widgets" not in notebook.metadata
    assert set(re.findall(r"https?://[^\"' <\\]*", json.dumps(cards))) <= {"http://www.w3.org/2000/svg"}


def test_the_start_notebook_shows_what_it_says() -> None:
    """Its text and its code belong together."""
    cells = {cell["id"]: cell for cell in nbformat.read(ROOT / "notebooks" / "00_start.ipynb", 4).cells}
    source = "\n".join(cell["source"] for cell in cells.values())
    assert source.count("%%compile") >= 3
    assert "print(" in source
    assert "nn.Module" in source
    assert "transformers" in source
    assert source.count("torch.testing.assert_close") >= 3


def test_notebooks_convert_to_pages(execute: Any, tmp_path: Path) -> None:
    nbconvert = pytest.importorskip("nbconvert")
    notebook = execute(
        ["%load_ext kernel_ext\nimport torch", "%%compile\ndef f(x):\n    return x.exp()\nf(torch.ones(2));"]
    )
    page, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    assert "dj-report" in page
    assert "● " in page
