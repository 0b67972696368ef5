"""Answers of `%compile` as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_ext.names import kernel_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynajit.report import KernelReport, Report


def table_text(reports: Sequence[Report]) -> str:
    if not reports:
        return "nothing is compiled yet: put %%compile above a cell that defines a function"
    rows: list[tuple[str, ...]] = [("name", "status", "graphs", "breaks", "kernels", "guards", "entries", "calls")]
    for report in reports:
        kernels = len(kernel_labels(report))
        calls = sum(entry.hits for entry in report.entries if entry.starts is None)
        counts = (len(report.graphs), len(report.breaks), kernels, len(report.guards), len(report.entries), calls)
        rows.append((report.name, report.status, *map(str, counts)))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def why_text(report: Report) -> str:
    """Recompiles, breaks and refusals, each with what to try."""
    said = [report.headline()]
    for words in report.recompiles:
        said.append(f"compiled again: {words}")
    failed = [guard for guard in report.guards if guard.failed]
    for guard in {guard.words: guard for guard in failed}.values():
        said.append(f"  the guard that failed, {_times(guard.failed)}: {guard.words}; then it was {guard.last}")
        said.append(f"    try: {_cure(guard.kind)}")
    for row in report.breaks:
        detail = f" ({row.detail})" if row.detail else ""
        said.append(f"line {row.line}: graph break, {row.title}{detail} [{row.code}]. {row.explanation}")
        said.append(f"    try: {row.hint}")
    if report.status == "eager":
        said.append(f"it runs eagerly: {report.reason}")
    if len(said) == 1 and report.status == "compiled":
        said.append("one graph, never compiled again: there is nothing to explain")
    return "\n".join(said)


def recompile_text(report: Report) -> str:
    """One function that was compiled often: the guard, the two values, the cure."""
    worst = max((guard for guard in report.guards if guard.failed), key=lambda guard: guard.failed, default=None)
    cure = f"; try: {_cure(worst.kind)}" if worst is not None else ""
    return f"{report.name} was compiled again, {_times(len(report.recompiles))} by now: {report.recompiles[-1]}{cure}"


_CURES = {
    "TENSOR": "%%compile --dynamic on makes sizes symbolic at once; keep dtype, device and layout the same",
    "EQUALS": "leave it, if it is a number: it is symbolic from now on; else keep it the same, or pass a tensor",
    "LENGTH": "pass one tensor (torch.stack) in place of a list or dict whose length changes",
    "KEYS": "pass the same keys at each call",
    "TYPE_IS": "pass the same type at each call",
    "CODE": "define the function once, before the first call",
    "CLASS_ATTR": "define the class once, before the first call",
    "STATE": "enter no_grad, autocast and the like in the same way around each call: one entry is kept for each",
}


def _cure(kind: str) -> str:
    return _CURES.get(kind, "keep this the same between calls")


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def guard_text(report: Report) -> str:
    rows = [report.headline()]
    for guard in report.guards:
        mark = f"✗ failed {_times(guard.failed)}, then {guard.last}" if guard.failed else "✓"
        line = f"line {guard.line}" if guard.line is not None else ""
        rows.append(f"  entry {guard.entry}  {line:>9}  {guard.words}  {mark}")
    return "\n".join(rows)


def kernel_text(report: Report, chosen: Sequence[KernelReport] | None = None) -> str:
    """chosen: of these kernels."""
    labels = kernel_labels(report)
    parts = [report.headline()]
    for kernel in report.kernels if chosen is None else chosen:
        ran = "ran" if kernel.launched else "not run here"
        parts.append(
            f"\n{labels[kernel.name, kernel.graph]} {kernel.name} [{kernel.language}, {ran}] {kernel.note}".rstrip()
        )
        users: dict[int, list[int]] = {}
        for number, line in kernel.lines:
            users.setdefault(number, []).append(line)
        for number, text in enumerate(kernel.source.splitlines(), 1):
            lines = ",".join(map(str, sorted(set(users.get(number, [])))))
            parts.append(f"{lines and 'line ' + lines:>10} | {text}")
    if not report.kernels:
        parts.append("no generated kernel: the operations run as PyTorch's own")
    return "\n".join(parts)
