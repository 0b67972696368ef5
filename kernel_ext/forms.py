"""A report in its forms: HTML for a notebook, a whole page, DOT text, and the widget."""

from __future__ import annotations

import hashlib
import importlib
import json
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel_ext import current, html, late
from kernel_ext.dot import dot_text
from kernel_ext.html import div, esc, span
from kernel_ext.names import relabelled
from kernel_ext.panels import panels
from kernel_ext.payload import pack

if TYPE_CHECKING:
    from dynajit.report import Report

FRONT = Path(__file__).parent / "front"
_STATUS = {"compiled": "captured", "partly": "break", "eager": "eager", "waiting": "eager"}
_BOX = (
    "border:1px solid rgba(128,128,128,.35);border-radius:6px;padding:6px 10px;margin:2px 0;"
    "font-size:13px;line-height:1.35"
)


def report_of(thing: Any) -> Report:
    """A report as it is; of a compiled function or module, its report."""
    if type(thing).__name__ != "Report":
        thing = current.known_report(thing) or late.compiler().report(thing)
    return thing  # type: ignore[no-any-return]


def to_html(
    thing: Any, path: str | Path | None = None, label: Callable[[str], str] = current.label, **view: Any
) -> str:
    """The card as HTML; with a path, a page of its own is written there."""
    report = report_of(thing)
    text = live_html(report, label, **view)
    if path is not None:
        head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{esc(report.name)}</title>'
        Path(path).write_text(head + '<body style="font-family:sans-serif">' + text + "</body>\n", encoding="utf-8")
    return text


def to_dot(thing: Any, graph: int = 0) -> str:
    """DOT text of one captured graph."""
    return dot_text(relabelled(report_of(thing), current.label), graph)


def widget(thing: Any, **traits: Any) -> Any:
    """The card as an ipywidgets widget, with the traits `tab`, `selected_line` and `selected_node`."""
    return importlib.import_module("kernel_ext.widget").ReportWidget.of(thing, **traits)


def live_html(report: Report, label: Callable[[str], str] = current.label, **view: Any) -> str:
    """Readable HTML, and the script that makes it live where scripts may run. What is long is compressed."""
    uid = "dj" + uuid.uuid4().hex[:10]
    text, packed = packed_html(report, label, script=front(), uid=uid, **view)
    return (
        text + "<script>" + _LOADER.replace("UID", uid).replace("NAME", _name()).replace("PACKED", packed) + "</script>"
    )


def packed_html(
    report: Report, label: Callable[[str], str] = current.label, script: str = "", **view: Any
) -> tuple[str, str]:
    """The HTML with gaps, and what the script puts there; the script itself may come along."""
    report = relabelled(report, label)
    text, full = html.packed(_card(report, **view))
    return text, pack(report, full, script)


def still_html(report: Report, label: Callable[[str], str] = current.label, **view: Any) -> str:
    """The card without a script: folds instead of tabs, everything in its place."""
    return html.unpacked(_card(relabelled(report, label), **view))


def _card(
    report: Report,
    *,
    uid: str = "",
    tab: str = "source",
    open_all: bool = False,
    extra: str = "",
    most: int = 0,
) -> str:
    """extra: HTML below the headline. most: how many boxes of a graph are open at first."""
    folds = []
    for panel in panels():
        name, count = panel.title.lower(), panel.count(report)
        title = panel.title if count is None else f"{panel.title} ({count})"
        is_open = " open" if open_all or name == tab else ""
        folds.append(
            f'<details class="dj-tab" data-tab="{name}"{is_open}>'
            f'<summary style="cursor:pointer;padding:3px 0">{title}</summary>{panel.render(report)}</details>'
        )
    return div(headline(report) + extra + "".join(folds), _BOX, class_="dj-report", id=uid, data_name=report.name,
               data_tab=tab, data_most=most or "", data_open="all" if open_all else "")  # fmt: skip


def headline(report: Report) -> str:
    name, _, facts = report.headline().partition(": ")
    tint = html.TINTS[_STATUS.get(report.status, "eager")]
    place = span(esc(f" {report.filename}:{report.firstline}"), "opacity:.8;font-size:90%")
    recompiled = (
        html.badge(f"compiled again: {len(report.recompiles)}", html.TINTS["break"]) if report.recompiles else ""
    )
    mark = span(f"<b>{esc(name)}</b>", f"background:{tint};border-radius:4px;padding:1px 8px")
    return div(f"{mark} {esc(facts)}{recompiled}{place}", class_="dj-head")


def line_html(name: str, text: str, verdict: str = "eager") -> str:
    """The card while there is no report: one line."""
    mark = span(f"<b>{esc(name)}</b>", f"background:{html.TINTS[verdict]};border-radius:4px;padding:1px 8px")
    return div(f"{mark} {esc(text)}", _BOX, class_="dj-report dj-line")


_LOADER = (
    '(async()=>{const b=Uint8Array.from(atob("PACKED"),c=>c.charCodeAt(0)),d=await new Response(new Blob([b]).stream()'
    '.pipeThrough(new DecompressionStream("deflate-raw"))).json();if(!window.NAME){const s=document.'
    'createElement("script");s.textContent=d.script;document.head.append(s)}'
    'window.NAME(document.getElementById("UID"),d)})()'
)
"""Unpacks the script and the data of a card; the script itself once a page."""


@cache
def front() -> str:
    """The script of an HTML output: style sheet and `mount`, without the part for the widget."""
    return f"window.{_name()}=(()=>{{{_script()}return mount}})()"


@cache
def _script() -> str:
    script = (FRONT / "report.js").read_text(encoding="utf-8").partition("// ---- the widget")[0]
    css = (FRONT / "report.css").read_text(encoding="utf-8")
    lines = [line.strip() for line in script.splitlines() if line.strip() and not line.strip().startswith("//")]
    return f"const REPORT_CSS={json.dumps(' '.join(css.split()))};" + "\n".join(lines) + "\n"


def _name() -> str:
    """Under which a page knows the script; another version of it has another name."""
    return "dynajit_" + hashlib.blake2b(_script().encode(), digest_size=6).hexdigest()
