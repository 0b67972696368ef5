"""The output under a cell: one line until the first call, then the report. HTML first, text always."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from IPython.display import DisplayHandle, display

from kernel_ext.forms import line_html, live_html, widget
from kernel_ext.html import TINTS, div, esc
from kernel_ext.names import relabelled

if TYPE_CHECKING:
    from kernel_ext.cells import Cells
    from kernel_ext.targets import Target


class Passing:
    """A line in the cell that waits, taken back when it has waited long enough."""

    def __init__(self, text: str) -> None:
        self.handle = DisplayHandle(f"dynajit-{uuid.uuid4().hex}")
        said = {"text/plain": text, "text/html": div(esc(text), "opacity:.8")}
        display(said, raw=True, display_id=self.handle.display_id)

    def clear(self) -> None:
        self.handle.update({"text/plain": "", "text/html": ""}, raw=True)


class Card:
    """One display, updated in place."""

    def __init__(self, target: Target, cells: Cells, has_html: bool, most: int = 0) -> None:
        self.target, self.cells, self.has_html, self.most = target, cells, has_html, most
        self.handle = DisplayHandle(f"dynajit-{uuid.uuid4().hex}")
        self.is_open = self.is_told = False
        self.shown: dict[str, Any] = {}

    def line(self, text: str, verdict: str = "eager") -> None:
        """One line of state: waiting, compiling."""
        name = self.target.name
        self._put({"text/plain": f"{name}: {text}", "text/html": line_html(name, text, verdict)})

    def report(self) -> None:
        """The report as of now."""
        target = self.target
        if target.is_deferred:
            self.line("waiting for its first call")
            return
        found = target.fresh_report()
        if found.status == "waiting":
            self.line(target.inlined or "waiting for its first call")
            return
        in_full = target.options.view in ("open", "text") or self.has_html or not self.is_told
        text = str(found) if in_full else found.headline()  # a terminal cannot take back what it has printed
        self.is_told = True
        said = [text for text in (target.checked, target.timed, target.shared) if text]
        plain = "\n".join([text, *said])
        if target.options.view == "text" or not self.has_html:
            self._put({"text/plain": plain})
            return
        options = target.options
        extra = "".join(div(esc(line), f"background:{TINTS['eager']};padding:2px 8px;margin:3px 0") for line in said)
        if options.view == "widget":
            self._put_widget(plain)
            return
        view = {"tab": options.tab, "open_all": options.view == "open", "extra": extra, "most": self.most}
        self._put({"text/plain": plain, "text/html": live_html(found, self.cells.label, **view)})

    def _put_widget(self, plain: str) -> None:
        found = relabelled(self.target.fresh_report(), self.cells.label)
        bundle = dict(widget(found, tab=self.target.options.tab)._repr_mimebundle_()[0])
        self._put({**bundle, "text/plain": plain})

    def _put(self, bundle: dict[str, Any]) -> None:
        if bundle == self.shown or (bundle["text/plain"] == self.shown.get("text/plain") and not self.has_html):
            return
        self.shown = bundle
        if self.is_open:
            self.handle.update(bundle, raw=True)
        else:
            display(bundle, raw=True, display_id=self.handle.display_id)
            self.is_open = True
