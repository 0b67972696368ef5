"""The sessions that are loaded: they know the cells, so what is shown by hand reads as what is shown under a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernel_ext.names import short_file

if TYPE_CHECKING:
    from dynajit.report import Report
    from kernel_ext.session import Session

SESSIONS: list[Session] = []


def label(filename: str) -> str:
    """A file as the reader knows it."""
    return SESSIONS[-1].cells.label(filename) if SESSIONS else short_file(filename)


def known_report(thing: Any) -> Report | None:
    """The report of what a `%%compile` cell compiled, with the text of the cell."""
    return SESSIONS[-1].report_of(thing) if SESSIONS else None
