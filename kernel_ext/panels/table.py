"""The table of panels, in the order of the tabs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynajit.report import Report


@dataclass(frozen=True)
class Panel:
    """render: a report -> HTML, "" if there is nothing to show. count: what stands behind the title."""

    title: str
    after: str
    render: Callable[[Report], str]
    count: Callable[[Report], int | None]


_TABLE: list[Panel] = []


def panel(
    title: str, *, after: str = "", count: Callable[[Report], int | None] = lambda report: None
) -> Callable[[Callable[[Report], str]], Callable[[Report], str]]:
    """Register a tab behind the one called `after`, or as the first."""

    def register(render: Callable[[Report], str]) -> Callable[[Report], str]:
        _TABLE.append(Panel(title, after, render, count))
        return render

    return register


def panels() -> list[Panel]:
    """All panels in the order of the tabs, whatever the order of registration was."""
    found: list[Panel] = []
    rest = list(_TABLE)
    while rest:
        placed = [panel.title for panel in found]
        ready = next((row for row in rest if not row.after or row.after in placed), rest[0])
        rest.remove(ready)
        found.insert(placed.index(ready.after) + 1 if ready.after in placed else len(found), ready)
    return found
