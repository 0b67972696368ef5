"""Functions that a program calls to speak to the compiler. Outside a compiled function they do nothing."""

from __future__ import annotations


def is_compiling() -> bool:
    """True in code that dynajit is capturing or has captured, False in code that runs eagerly."""
    return False


def graph_break() -> None:
    """End the graph here; a new one starts behind the call."""
