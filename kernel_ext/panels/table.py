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
    render: Callable[[Report], str]
    count: Callable[[Report], int | None]


PANELS: list[Panel] = []


def panel(
    title: str, *, after: str = "", count: Callable[[Report], int | None] = lambda report: None
) -> Callable[[Callable[[Report], str]], Callable[[Report], str]]:
    """Register a tab behind the one called `after`, or as the last."""

    def register(render: Callable[[Report], str]) -> Callable[[Report], str]:
        at = next((i + 1 for i, known in enumerate(PANELS) if known.title == after), len(PANELS))
        PANELS.insert(at, Panel(title, render, count))
        return render

    return register
