"""What happened to one function, as frozen data with no live objects: lines, graphs, guards, breaks, kernels.

`dynajit.report(fn)` makes one. `print` it, read its fields, or give it another form: `to_json`, `to_html`, `to_dot`,
`widget`. Viewers (the notebook card) only read it.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VERDICTS = {
    "captured": "●",
    "inlined": "◐",
    "break": "✂",
    "eager": "○",
    "none": " ",
}
"""Verdict of a line -> its character."""


@dataclass(frozen=True)
class Line:
    """number: as the editor counts. note: one sentence under the line, for breaks."""

    number: int
    text: str
    verdict: str = "none"
    graphs: tuple[int, ...] = ()
    kernels: tuple[str, ...] = ()
    note: str = ""
    code: str = ""
    hint: str = ""


@dataclass(frozen=True)
class NodeInfo:
    """One operation of a graph. line: in the reported function; where: `file:line` of the text itself, when inlined.

    kernels: names of the generated kernels that compute it; none if it runs as a library call.
    module: the path of the `nn.Module` whose code it is, "" for the function itself.
    """

    name: str
    op: str
    target: str
    inputs: tuple[str, ...]
    line: int | None
    where: str = ""
    shape: str = ""
    kernels: tuple[str, ...] = ()
    module: str = ""


@dataclass(frozen=True)
class GuardInfo:
    """words: the condition. failed: how often it made the function compile again, last at `when` with `last` found."""

    words: str
    kind: str
    source: str
    line: int | None
    entry: int
    failed: int = 0
    last: str = ""
    when: float = 0.0


@dataclass(frozen=True)
class BreakInfo:
    """A place where capture stops: reason code, one sentence, why, what to try."""

    line: int | None
    code: str
    title: str
    detail: str
    explanation: str
    hint: str
    where: str = ""


@dataclass(frozen=True)
class KernelReport:
    """One generated kernel. lines: (line of source, line of the user's function) pairs; places: (line of source, node).

    seconds: what building took; measured: seconds of one launch, 0 if nobody has looked.
    """

    name: str
    language: str
    source: str
    launched: bool
    lines: tuple[tuple[int, int], ...] = ()
    ops: tuple[str, ...] = ()
    reads: int = 0
    writes: int = 0
    seconds: float = 0.0
    cache_hit: bool = False
    note: str = ""
    graph: int = 0
    nodes: tuple[str, ...] = ()
    places: tuple[tuple[int, str], ...] = ()
    measured: float = 0.0


@dataclass(frozen=True)
class GraphInfo:
    """index: from 0, in order of capture. code: the graph as Python text. calls: how often it ran.

    passes: (title, text) of the program after each step from the graph to its kernels. measured: seconds of one run.
    """

    index: int
    entry: int
    nodes: tuple[NodeInfo, ...]
    code: str
    backend: str
    calls: int = 0
    failures: int = 0
    notes: tuple[str, ...] = ()
    schedule: tuple[str, ...] = ()
    wrapper: str = ""
    passes: tuple[tuple[str, str], ...] = ()
    measured: float = 0.0


@dataclass(frozen=True)
class EntryInfo:
    """One cache entry. starts: the line where it takes over; ends: how it ends ("returns" or "breaks at line n").

    cause: why those before did not fit. check_seconds: what looking at its guards costs a call.
    """

    index: int
    starts: int | None
    ends: str
    hits: int
    graph: int | None
    guards: int
    bytecode: str = ""
    cause: str = ""
    check_seconds: float = 0.0


@dataclass(frozen=True)
class Stage:
    """One bar of the timeline: capture, lowering, building or guards, of one entry."""

    name: str
    detail: str
    seconds: float
    cache_hit: bool = False
    entry: int = 0


@dataclass(frozen=True)
class Report:
    """status: "waiting" (no call yet), "compiled", "partly" (with breaks), or "eager" (runs as it is; see `reason`)."""

    name: str
    filename: str
    firstline: int
    status: str
    reason: str = ""
    source: tuple[Line, ...] = ()
    graphs: tuple[GraphInfo, ...] = ()
    guards: tuple[GuardInfo, ...] = ()
    breaks: tuple[BreakInfo, ...] = ()
    kernels: tuple[KernelReport, ...] = ()
    entries: tuple[EntryInfo, ...] = ()
    timeline: tuple[Stage, ...] = ()
    recompiles: tuple[str, ...] = ()
    bytecode: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def operations(self) -> int:
        return sum(len(graph.nodes) for graph in self.graphs)

    def headline(self) -> str:
        """The first line of every form of the report."""
        if self.status == "waiting":
            return f"{self.name}: waiting for its first call"
        if self.status == "eager":
            return f"{self.name}: runs eagerly ({self.reason})"
        parts = [_count(len(self.graphs), "graph"), _count(len(self.breaks), "break")]
        launched = [kernel for kernel in self.kernels if kernel.launched]
        kernels = f" → {_count(len(launched), 'kernel')}" if launched else ""
        parts.append(f"{_count(self.operations, 'op')}{kernels}")
        parts.append(_count(len(self.guards), "guard"))
        milliseconds = 1000 * sum(stage.seconds for stage in self.timeline)
        return f"{self.name}: {' · '.join(parts)} · {milliseconds:.0f} ms"

    def to_dict(self) -> dict[str, Any]:
        """Everything as dicts, lists, strings and numbers, by the names of the fields."""
        return json.loads(self.to_json())  # type: ignore[no-any-return]

    def to_json(self, path: str | Path | None = None) -> str:
        text = json.dumps({**dataclasses.asdict(self), "versions": dict(self.versions)}, indent=1)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_html(self, path: str | Path | None = None) -> str:
        """The card; with a path, a page of its own that needs no network is written there."""
        return str(_forms().to_html(self, path))

    def to_dot(self, graph: int = 0) -> str:
        """One graph for Graphviz."""
        return str(_forms().to_dot(self, graph))

    def widget(self, **traits: Any) -> Any:
        """The card as an ipywidgets widget."""
        return _forms().widget(self, **traits)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """How a notebook shows it."""
        return {"text/plain": str(self), "text/html": self.to_html()}

    def __str__(self) -> str:
        return "\n".join([self.headline(), *self._lines(), *self._recompiles()])

    def _lines(self) -> list[str]:
        rows = []
        width = max((len(line.text) for line in self.source), default=0)
        for line in self.source:
            kernels = " ".join(line.kernels)
            text = f"{line.text:<{width}}  {kernels}" if kernels else line.text
            rows.append(f"{line.number:4} {VERDICTS[line.verdict]} {text}".rstrip())
            if line.note:
                rows.append(f"       ╰ {line.note} [{line.code}]")
                rows.append(f"         try: {line.hint}")
        return rows

    def _recompiles(self) -> list[str]:
        return [f"compiled again: {words}" for words in self.recompiles]


def _forms() -> Any:
    """The viewer, loaded when it is asked for: the compiler does without."""
    return importlib.import_module("kernel_ext.forms")


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")
