"""The Kernels tab: the text of each kernel with the user's line beside it; C that ran, Triton beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_ext import html
from kernel_ext.html import badge, div, esc, fold, later
from kernel_ext.names import kernel_labels, without_number
from kernel_ext.panels.table import panel
from kernel_ext.units import duration, size

if TYPE_CHECKING:
    from dynajit.report import KernelReport, Report

SHORT = 2_500
"""Characters of kernel text in a card where no script runs."""
BUDGET = 45_000
"""Characters of kernel text in a live card; of the kernels beyond it, the names."""
FEW = 4
"""Kernels that have an entry of their own where no script runs."""
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
    left, short = BUDGET, SHORT
    parts: list[str] = []
    names = [f"{label} {without_number(texts[0].name)}".strip() for label, texts in groups.items()]
    for label, texts in groups.items():
        size = sum(len(kernel.source) for kernel in texts)
        left -= size
        if left < 0 and parts:
            break
        parts.append(_group(label, texts, graphs[label], size <= short or len(parts) >= FEW))
        short -= size
    if len(parts) < len(groups):
        parts.append(_rest(names[len(parts) :]))
    if not groups:
        parts.append(div("No generated kernel: the operations run as PyTorch's own.", "padding:6px 0"))
    first, more = parts[:FEW], parts[FEW:]
    if more:
        first.append(later(_rest(names[FEW:]), "".join(more)))
    return "".join(first) + _notes(report)


def _rest(names: list[str]) -> str:
    return div(f"… and {len(names)} more (%compile kernels prints all): {esc(', '.join(names))}", "padding:6px 0")


def _group(label: str, texts: list[KernelReport], graphs: list[int], is_short: bool) -> str:
    first = texts[0]
    ops = f" {html.muted(esc(' → '.join(first.ops)))}" if first.ops else ""
    several = badge(f"graphs {', '.join(map(str, graphs))}") if len(graphs) > 1 else ""
    title = f"<b>{esc(label)}</b> {esc(without_number(first.name))}{ops}{several}"
    body = div("".join(map(_side, texts)), "display:flex;flex-wrap:wrap;gap:12px")
    if not is_short:
        names = ", ".join(LANGUAGES.get(kernel.language, kernel.language) for kernel in texts)
        note = div(f"{names}: the text is not kept where no script runs; %compile kernels {esc(label)} prints it",
                   "opacity:.8")  # fmt: skip
        body = later(note, body)
    edge = f"border-left:3px solid {html.kernel_tint(int(label[1:]), '.9')};padding-left:8px;margin:6px 0"
    return div(fold(title, body, is_open=int(label[1:]) < 2), edge, class_="dj-kernel", data_k=label,
               data_g=" ".join(map(str, graphs)))  # fmt: skip


def _side(kernel: KernelReport) -> str:
    language = LANGUAGES.get(kernel.language, kernel.language)
    facts = [f"<b>{esc(language)}</b>", *(badge(*fact) for fact in _facts(kernel))]
    if kernel.note:
        facts.append(div(esc(kernel.note), "opacity:.8"))
    text = f"{html.MONO};white-space:pre;overflow:auto;max-height:420px;line-height:1.45;font-size:92%"
    rows = div(_rows(kernel), text, class_="dj-rows dj-code", title=f"{language} text of {kernel.name}",
               data_lang=kernel.language)  # fmt: skip
    return div(div(" ".join(facts), "padding:3px 0;line-height:1.6") + rows, "flex:1 1 340px;min-width:0")


def _facts(kernel: KernelReport) -> list[tuple[str, str]]:
    grey = "rgba(139,148,158,.2)"
    if not kernel.launched:
        return [("not run here", grey)]
    facts = [("ran", html.TINTS["captured"])]
    facts.append(("from the cache" if kernel.cache_hit else f"built in {1000 * kernel.seconds:.0f} ms", grey))
    if kernel.measured:
        facts.append((f"{duration(kernel.measured)} a launch", grey))
    if kernel.reads or kernel.writes:
        facts.append((f"reads {size(kernel.reads)}, writes {size(kernel.writes)}", grey))
        if kernel.measured:
            facts.append((f"{size(round((kernel.reads + kernel.writes) / kernel.measured))}/s", grey))
    return facts


def _rows(kernel: KernelReport) -> str:
    users: dict[int, set[int]] = {}
    for number, line in kernel.lines:
        users.setdefault(number, set()).add(line)
    nodes: dict[int, dict[str, None]] = {}
    for number, name in kernel.places:
        nodes.setdefault(number, {})[name] = None
    found = []
    for number, text in enumerate(kernel.source.splitlines(), 1):
        lines = sorted(users.get(number, ()))
        if not lines:
            found.append(div("         " + esc(text)))
            continue
        mark = f"{'line ' + ','.join(map(str, lines)):>8} "
        found.append(div(mark + esc(text), data_l=" ".join(map(str, lines)), data_n=" ".join(nodes.get(number, ()))))
    return "".join(found)


def _notes(report: Report) -> str:
    said = [(graph.index, note) for graph in report.graphs for note in (*graph.notes, *graph.schedule)]
    if not said:
        return ""
    many = len(report.graphs) > 1
    said = list({note: (index, note) for index, note in reversed(said)}.values())[::-1]  # of equal ones, the first
    rows = [div(esc(f"graph {index}: {note}" if many else note)) for index, note in said[:300]]
    rows += [div(f"… and {len(said) - 300} more")] if len(said) > 300 else []
    style = "padding-left:12px"
    shown = later(div("".join([*rows[:12], "…"]), style), div("".join(rows), style))
    return fold(f"why these kernels ({len(said)} decisions)", shown)
