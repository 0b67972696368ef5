"""The card as a widget, to be put in boxes and linked with others. It needs no answer from the kernel."""

from __future__ import annotations

import json
from typing import Any

import anywidget
import traitlets

from kernel_ext.forms import FRONT, packed_html, report_of


def _module() -> str:
    css = " ".join((FRONT / "report.css").read_text(encoding="utf-8").split())
    return f"const REPORT_CSS={json.dumps(css)};\n" + (FRONT / "report.js").read_text(encoding="utf-8")


class ReportWidget(anywidget.AnyWidget):  # type: ignore[misc]
    """tab: the tab that is open. selected_line, selected_node: what is pinned, 0 and "" if nothing is."""

    _esm = _module()
    html = traitlets.Unicode().tag(sync=True)
    packed = traitlets.Unicode().tag(sync=True)
    tab = traitlets.Unicode("source").tag(sync=True)
    selected_line = traitlets.Int(0).tag(sync=True)
    selected_node = traitlets.Unicode("").tag(sync=True)

    @classmethod
    def of(cls, thing: Any, **traits: Any) -> ReportWidget:
        """The widget for a report, or for a compiled function or module."""
        made = cls(**traits)
        made.update(thing)
        return made

    def update(self, thing: Any) -> None:
        """Show another report, or a newer one."""
        with self.hold_sync():
            self.html, self.packed = packed_html(report_of(thing), tab=self.tab)
