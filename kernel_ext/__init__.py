"""The notebook side of dynajit: `%load_ext kernel_ext`, then `%%compile` above a cell.

`to_html`, `to_dot` and `widget` give a report, or a compiled function's, in other forms; they need no IPython.
"""

from __future__ import annotations

import importlib
from typing import Any

from kernel_ext.forms import to_dot, to_html, widget

__all__ = ["load_ipython_extension", "to_dot", "to_html", "unload_ipython_extension", "widget"]

_LOADED: dict[int, Any] = {}


def load_ipython_extension(shell: Any) -> None:
    """Twice is as good as once."""
    if id(shell) not in _LOADED:
        _LOADED[id(shell)] = session = importlib.import_module("kernel_ext.session").Session(shell)
        session.start()


def unload_ipython_extension(shell: Any) -> None:
    """Everything is as it was before; what was compiled stays compiled."""
    session = _LOADED.pop(id(shell), None)
    if session is not None:
        session.stop()
