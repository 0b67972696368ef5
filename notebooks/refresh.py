"""Run the notebooks from top to bottom and store their outputs: `python notebooks/refresh.py [NAME ...]`."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import nbclient
import nbformat

HERE = Path(__file__).parent


def refresh(path: Path) -> float:
    """The seconds it took."""
    notebook = nbformat.read(path, 4)
    started = time.perf_counter()
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", store_widget_state=False,
        resources={"metadata": {"path": str(HERE)}}, record_timing=False,
    )  # fmt: skip
    client.execute()
    notebook.metadata.pop("language_info", None)
    nbformat.write(notebook, path)
    return time.perf_counter() - started


if __name__ == "__main__":
    os.environ |= {"OMP_NUM_THREADS": "1", "DYNAJIT_CACHE_DIR": tempfile.mkdtemp(prefix="dynajit-")}  # as on Binder
    for name in sys.argv[1:] or sorted(path.stem for path in HERE.glob("*.ipynb")):
        path = HERE / f"{name.removesuffix('.ipynb')}.ipynb"
        print(f"{path.name}: {refresh(path):.1f} s, {path.stat().st_size / 1e3:.0f} kB", flush=True)
