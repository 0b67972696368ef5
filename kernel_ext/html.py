"""HTML as text: escaping, tags, styles. All styles are inline: the rest is dropped from a notebook that is not trusted.

A colour is a translucent tint over whatever the theme has, so that one value is right in light and in dark. Where a
theme's own colour is wanted, the property is written twice: a literal, then the variable that replaces it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence

TINTS = {
    "captured": "rgba(46,160,67,.16)",
    "inlined": "rgba(56,139,253,.16)",
    "break": "rgba(210,140,20,.26)",
    "eager": "rgba(139,148,158,.2)",
    "none": "transparent",
    "failed": "rgba(218,54,51,.2)",
}
WORDS = {
    "captured": ("●", "captured"),
    "inlined": ("◐", "inlined"),
    "break": ("✂", "graph break"),
    "eager": ("○", "ran eagerly"),
    "none": (" ", ""),
}
MONO = "font-family:monospace;font-family:var(--jp-code-font-family,var(--vscode-editor-font-family,monospace))"
KERNEL_TINTS = (
    "31,111,235",
    "137,87,229",
    "191,75,138",
    "180,120,0",
    "27,124,131",
    "207,74,20",
    "84,125,20",
    "90,90,200",
)


def kernel_tint(number: int, alpha: str = ".22") -> str:
    return f"rgba({KERNEL_TINTS[number % len(KERNEL_TINTS)]},{alpha})"


def esc(text: object) -> str:
    return html.escape(str(text), quote=True)


def tag(name: str, content: str = "", style: str = "", attributes: Mapping[str, object] | None = None) -> str:
    """`content` is HTML already; attribute values are escaped here."""
    said = f' style="{style}"' if style else ""
    said += "".join(f' {key}="{esc(value)}"' for key, value in (attributes or {}).items() if value not in (None, ""))
    return f"<{name}{said}>{content}</{name}>"


def div(content: str, style: str = "", **attributes: object) -> str:
    return tag("div", content, style, {_name(key): value for key, value in attributes.items()})


def span(content: str, style: str = "", **attributes: object) -> str:
    return tag("span", content, style, {_name(key): value for key, value in attributes.items()})


def _name(key: str) -> str:
    """`class_` and `data_l` are `class` and `data-l`."""
    return key.rstrip("_").replace("_", "-")


def fold(summary: str, content: str, is_open: bool = False, class_: str = "") -> str:
    """A `<details>`: works without a script."""
    said = f' class="{class_}"' if class_ else ""
    return (
        f"<details{said}{' open' if is_open else ''}>"
        f'<summary style="cursor:pointer;padding:3px 0">{summary}</summary>{content}</details>'
    )


SHORT, FULL, END = "<!--dj-short-->", "<!--dj-full-->", "<!--dj-end-->"
_LATER = re.compile(f"{SHORT}(.*?){FULL}(.*?){END}", re.DOTALL)


def later(short: str, full: str) -> str:
    """`short` where no script runs; a card packs `full` and puts it there when it is alive. Not to be nested."""
    return full if len(full) <= 300 else f"{SHORT}{short}{FULL}{full}{END}"


def unpacked(text: str) -> str:
    """With everything in its place."""
    return _LATER.sub(lambda found: found[2], text)


def packed(text: str) -> tuple[str, list[str]]:
    """With numbered gaps, and what belongs into them."""
    full: list[str] = []

    def gap(found: re.Match[str]) -> str:
        full.append(found[2])
        return f'<div data-fill="{len(full) - 1}">{found[1]}</div>'

    return _LATER.sub(gap, text), full


def muted(text: str) -> str:
    return span(text, "opacity:.8")


def badge(text: str, tint: str = "rgba(139,148,158,.2)") -> str:
    return span(
        esc(text),
        f"background:{tint};border-radius:8px;padding:1px 7px;margin-left:6px;font-size:90%;white-space:nowrap",
    )


def table(caption: str, heads: list[str], rows: Sequence[tuple[Mapping[str, object], list[str]]]) -> str:
    """Cells are HTML. Every style that JupyterLab gives to tables is countered inline."""
    top, clear = ";vertical-align:top", "background:transparent"
    cell = "text-align:left;padding:2px 14px 2px 0;border:0"
    head = "".join(tag("th", esc(text), cell + ";opacity:.8", {"scope": "col"}) for text in heads)
    body = "".join(
        tag("tr", "".join(tag("td", text, cell + top * (not i)) for i, text in enumerate(cells)), clear, attributes)
        for attributes, cells in rows
    )
    return (
        '<table style="table-layout:auto;border-collapse:collapse;margin:4px 0;font-size:inherit;border:0">'
        f'<caption style="text-align:left;caption-side:top;opacity:.8;padding:2px 0">{esc(caption)}</caption>'
        f'<thead style="border:0"><tr style="background:transparent">{head}</tr></thead><tbody>{body}</tbody></table>'
    )
