"""The Kernels tab: the text of each kernel with the user's line beside it; C that ran, Triton beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_ext import html
from kernel_ext.html import badge, div, esc, fold, span
from kernel_ext.names import kernel_labels
from kernel_ext.panels.table import panel

if TYPE_CHECKING:
    from dynajit.report import KernelReport, Report

BUDGET = 30_000
"""Characters of kernel text in a card; of the kernels beyond it, the names."""
LANGUAGES = {"c": "C", "triton": "Triton", "cpp": "C++"}


@panel("Kernels", after="Guards", count=lambda report: len(set(kernel_labels(report).values())))
def kernels(report: Report) -> str:
    labels = kernel_labels(report)
    groups: dict[str, list[KernelReport]] = {}
    graphs: dict[str, list[int]] = {}
    for kernel in report.kernels:
        label = labels[kernel.name, kernel.graph]
        known = groups.setdefault(label, [])
        if not known or known[0].graph == kernel.graph:
            known.append(kernel)
        if kernel.graph not in graphs.setdefault(label, []):
            graphs[label].append(kernel.graph)
    left = BUDGET
    parts: list[str] = []
    for label, texts in groups.items():
        left -= sum(len(kernel.source) for kernel in texts)
        if left < 0 and parts:
            break
        parts.append(_group(label, texts, graphs[label], len(groups) <= 3 or len(parts) < 2))
    if len(parts) < len(groups):
        rest = [f"{label} {texts[0].name}" for label, texts in groups.items()][len(parts) :]
        parts.append(
            div(f"… and {len(rest)} more (%compile kernels prints all): {esc(', '.join(rest))}", "padding:6px 0")
        )
    if not groups:
        parts.append(div("No generated kernel: the operations run as PyTorch's own.", "padding:6px 0"))
    return "".join(parts) + _notes(report)


def _group(label: str, texts: list[KernelReport], graphs: list[int], is_open: bool) -> str:
    first = texts[0]
    number = int(label[1:])
    ops = f" {html.muted(esc(' → '.join(first.ops)))}" if first.ops else ""
    several = badge(f"graphs {', '.join(map(str, graphs))}") if len(graphs) > 1 else ""
    title = f"<b>{esc(label)}</b> {esc(first.name)}{ops}{several}"
    sides = "".join(_side(kernel) for kernel in texts)
    body = div(sides, "display:flex;flex-wrap:wrap;gap:12px")
    style = f"border-left:3px solid {html.kernel_tint(number, '.9')};padding-left:8px;margin:4px 0"
    return div(fold(title, body, is_open), style, data_k=label)


def _side(kernel: KernelReport) -> str:
    language = LANGUAGES.get(kernel.language, kernel.language)
    facts = [span(f"<b>{esc(language)}</b>")]
    facts.append(badge("ran", html.TINTS["captured"]) if kernel.launched else badge("not run here"))
    if kernel.launched:
        facts.append(badge("from the cache" if kernel.cache_hit else f"built in {1000 * kernel.seconds:.0f} ms"))
    if kernel.reads or kernel.writes:
        facts.append(badge(f"reads {_bytes(kernel.reads)}, writes {_bytes(kernel.writes)}"))
    if kernel.note:
        facts.append(div(esc(kernel.note), "opacity:.8"))
    text = f"{html.MONO};white-space:pre;overflow:auto;max-height:420px;line-height:1.4;font-size:92%"
    rows = div(_rows(kernel), text, class_="dj-rows dj-code", title=f"{language} text of {kernel.name}",
               data_lang=kernel.language)  # fmt: skip
    return div(div("".join(facts), "padding:3px 0") + rows, "flex:1 1 340px;min-width:0")


def _rows(kernel: KernelReport) -> str:
    users: dict[int, list[int]] = {}
    for number, line in kernel.lines:
        users.setdefault(number, []).append(line)
    found = []
    for number, text in enumerate(kernel.source.splitlines(), 1):
        lines = sorted(set(users.get(number, [])))
        if not lines:
            found.append(div("         " + esc(text)))
            continue
        mark = f"{'line ' + ','.join(map(str, lines)):>8} "
        found.append(div(mark + esc(text), class_="dj-item", data_l=" ".join(map(str, lines))))
    return "".join(found)


def _notes(report: Report) -> str:
    said = [(graph.index, note) for graph in report.graphs for note in (*graph.notes, *graph.schedule)]
    if not said:
        return ""
    many = len(report.graphs) > 1
    said = list({note: (index, note) for index, note in reversed(said)}.values())[::-1]  # of equal ones, the first
    rows = "".join(div(esc(f"graph {index}: {note}" if many else note)) for index, note in said[:200])
    more = div(f"… and {len(said) - 200} more") if len(said) > 200 else ""
    return fold(f"why these kernels ({len(said)} decisions)", div(rows + more, "padding-left:12px"))


def _bytes(n: int) -> str:
    for unit in ("B", "kB", "MB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.3g} {unit}"
        n /= 1000  # type: ignore[assignment]
    return f"{n:.3g} GB"
