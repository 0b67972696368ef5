"""From the records of a function to its `Report`."""

from __future__ import annotations

import difflib
import inspect
import platform
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any

import torch

from dynajit import bytecode, frame, reasons
from dynajit.backends import KernelInfo, exists, names
from dynajit.compile import on_miss
from dynajit.errors import OptionError
from dynajit.guards.explain import words
from dynajit.guards.guard import Guard
from dynajit.options import Options
from dynajit.records import Break, Record, known, record_of
from dynajit.report import (
    BreakInfo,
    EntryInfo,
    GraphInfo,
    GuardInfo,
    KernelReport,
    Line,
    NodeInfo,
    Report,
)


def check_backend(options: Options) -> None:
    """An unknown backend is an error when it is named, not at the first call."""
    if isinstance(options.backend, str) and not exists(options.backend):
        close = difflib.get_close_matches(options.backend, names(), 1)
        guess = f"; did you mean {close[0]!r}?" if close else ""
        raise OptionError(f"there is no backend {options.backend!r}: use one of {', '.join(names())}{guess}")


def summarise(function: FunctionType, source: Sequence[str] | None = None) -> Report:
    """The report of a function. `source`: its text, line by line, if `inspect` cannot find it."""
    record, name = known(function.__code__), function.__qualname__
    shown = (_undecorated(function) if source is None else function).__code__
    lines = list(source) if source is not None else _source_of(shown)
    if record is None or not (record.entries or record.status):
        rows = tuple(Line(shown.co_firstlineno + i, text) for i, text in enumerate(lines))
        return Report(name, shown.co_filename, shown.co_firstlineno, "waiting", source=rows, versions=_versions())
    return _Summary(record, shown, function.__code__).report(name, lines)


def _undecorated(function: FunctionType) -> FunctionType:
    """The function inside decorators that a library wrote: its text is the one to show."""
    inner = inspect.unwrap(function)
    is_foreign = isinstance(inner, FunctionType) and inner.__code__.co_filename != function.__code__.co_filename
    return inner if is_foreign else function


def _source_of(code: CodeType) -> list[str]:
    try:
        return [line.rstrip("\n") for line in inspect.getsourcelines(code)[0]]
    except (OSError, TypeError, IndexError):
        return []


def _versions() -> Mapping[str, str]:
    return {"python": platform.python_version(), "torch": torch.__version__}


class _Summary:
    """Walks the entries of one record once; each method makes one part of the report.

    code: whose lines are shown; root: the code that is compiled, another one if decorators stand around it.
    """

    def __init__(self, record: Record, code: CodeType, root: CodeType) -> None:
        self.record, self.code, self.root = record, code, root
        self.entries = list(record.entries)
        self.graph_of: dict[int, int] = {}
        for entry in self.entries:
            if entry.graph is not None:
                self.graph_of[id(entry)] = len(self.graph_of)

    def report(self, name: str, lines: Sequence[str]) -> Report:
        record = self.record
        breaks = self.breaks()
        status = record.status or ("partly" if breaks else "compiled")
        kernels = self.kernels()
        return Report(
            name, self.code.co_filename, self.code.co_firstlineno, status, record.reason,
            source=self.source(lines, breaks, kernels), graphs=self.graphs(kernels), guards=self.guards(),
            breaks=breaks, kernels=kernels, entries=self.entry_rows(),
            timeline=tuple(
                replace(stage, entry=number)
                for number, entry in enumerate(self.entries)
                for stage in tuple(entry.stages)
            ),
            recompiles=tuple(record.recompiles), bytecode=bytecode.listing(bytecode.decode(self.code)),
            versions=_versions(),
        )  # fmt: skip

    def breaks(self) -> tuple[BreakInfo, ...]:
        found: dict[tuple[int | None, str], BreakInfo] = {}
        for entry in self.entries:
            stop = entry.end
            if stop is not None and stop.reason is not reasons.UNCAUGHT:
                found.setdefault((stop.line, stop.reason.code), self._break(stop))
        return tuple(sorted(found.values(), key=lambda row: row.line or 0))

    def _break(self, stop: Break) -> BreakInfo:
        reason = stop.reason
        own = stop.where is None or (stop.where[0] == self.code.co_filename and self._is_own_line(stop.where[1]))
        where = "" if own or stop.where is None else f"{stop.where[0]}:{stop.where[1]}"
        line = stop.line
        if self.code is not self.root:
            line = stop.where[1] if own and stop.where is not None else None
        return BreakInfo(line, reason.code, reason.title, stop.detail, reason.explanation, reason.hint, where)

    def _line(self, origin: Any) -> int | None:
        """The line of the shown function that an operation belongs to."""
        if origin is None or self.code is self.root:
            return getattr(origin, "root_line", None)
        frames = [(filename, line) for filename, _, line in origin.callers] + [(origin.filename, origin.line)]
        mine = (line for name, line in frames if name == self.code.co_filename and line and self._is_own_line(line))
        return next(mine, None)

    def _is_own_line(self, line: int) -> bool:
        lines = [n for _, _, n in self.code.co_lines() if n is not None]
        return bool(lines) and min(lines) <= line <= max(lines)

    def source(
        self, lines: Sequence[str], breaks: Sequence[BreakInfo], kernels: Sequence[KernelReport]
    ) -> tuple[Line, ...]:
        first = self.code.co_firstlineno
        executable = {n for code in _nested(self.code) for _, _, n in code.co_lines() if n is not None}
        visited = self._visited()
        graphs, inlined = self._graphs_by_line()
        broken = {row.line: row for row in breaks}
        by_line: dict[int, list[str]] = {}
        for kernel in kernels:
            for _, line in kernel.lines:
                names_here = by_line.setdefault(line, [])
                if kernel.name not in names_here:
                    names_here.append(kernel.name)
        rows = []
        for number, text in enumerate(lines, first):
            row = broken.get(number)
            verdict = "none"
            if row is not None:
                verdict = "break"
            elif number in inlined:
                verdict = "inlined"
            elif number in visited:
                verdict = "captured"
            elif number in executable and number > first and text.strip():
                verdict = "eager" if self.entries or self.record.status == "eager" else "none"
            note = f"{row.title}" + (f" ({row.detail})" if row.detail else "") if row is not None else ""
            rows.append(Line(number, text, verdict, tuple(graphs.get(number, ())), tuple(by_line.get(number, ())),
                             note, row.code if row else "", row.hint if row else ""))  # fmt: skip
        return tuple(rows)

    def _visited(self) -> set[int]:
        return {line for entry in self.entries for (name, line) in entry.visited if name == self.code.co_filename}

    def _graphs_by_line(self) -> tuple[dict[int, list[int]], set[int]]:
        by_line: dict[int, list[int]] = {}
        inlined: set[int] = set()
        for entry in self.entries:
            if entry.graph is None:
                continue
            index = self.graph_of[id(entry)]
            for row in entry.graph.nodes:
                origin = row[4]
                line = self._line(origin)
                if line is None:
                    continue
                if index not in by_line.setdefault(line, []):
                    by_line[line].append(index)
                if (origin.filename, origin.line) != (self.code.co_filename, line):
                    inlined.add(line)
        return by_line, inlined

    def graphs(self, kernels: Sequence[KernelReport]) -> tuple[GraphInfo, ...]:
        found = []
        for number, entry in enumerate(self.entries):
            if entry.graph is None:
                continue
            index = self.graph_of[id(entry)]
            homes: dict[str, dict[str, None]] = {}
            for kernel in entry.graph.compiled.kernels:
                for name in kernel.nodes:
                    homes.setdefault(name, {})[kernel.name] = None
            nodes = tuple(self._node(row, tuple(homes.get(row[0], ()))) for row in entry.graph.nodes)
            compiled = entry.graph.compiled
            found.append(GraphInfo(index, number, nodes, entry.graph.code, compiled.backend, entry.graph.call.calls,
                                   entry.graph.call.failures, compiled.notes, compiled.schedule,
                                   compiled.wrapper, compiled.passes,
                                   entry.graph.measured("")))  # fmt: skip
        return tuple(found)

    def _node(self, row: Sequence[Any], kernels: tuple[str, ...]) -> NodeInfo:
        name, op, target, inputs, origin, shape = row
        line = self._line(origin)
        is_inlined = origin is not None and (origin.filename, origin.line) != (self.code.co_filename, line)
        where = f"{origin.filename}:{origin.line}" if is_inlined else ""
        module = re.sub(r"^self(\.|$)", "", getattr(origin, "module", ""))
        return NodeInfo(name, op, target, inputs, line, where, shape, kernels, module)

    def guards(self) -> tuple[GuardInfo, ...]:
        rows = []
        for number, entry in enumerate(self.entries):
            for guard in entry.guards:
                text = words(guard)
                failed, last = self.record.failed.get(text, (0, ""))
                line = self._guard_line(guard)
                when = self.record.failed_at.get(text, 0.0)
                rows.append(GuardInfo(text, guard.kind, _source_text(guard), line, number, failed, last, when))
        return tuple(rows)

    def _guard_line(self, guard: Guard) -> int | None:
        filename, line = guard.origin or ("", None)
        if line is None:
            return None
        is_shown = self.code is self.root or (filename == self.code.co_filename and self._is_own_line(line))
        return line if is_shown else None

    def kernels(self) -> tuple[KernelReport, ...]:
        rows = []
        for entry in self.entries:
            if entry.graph is None:
                continue
            for kernel in entry.graph.compiled.kernels:
                measured = entry.graph.measured(kernel.name) if kernel.launched else 0.0
                rows.append(self._kernel(kernel, self.graph_of[id(entry)], measured))
        return tuple(rows)

    def _kernel(self, kernel: KernelInfo, graph: int, measured: float) -> KernelReport:
        lines = tuple((number, line) for number, origin in kernel.lines if (line := self._line(origin)) is not None)
        return KernelReport(
            kernel.name, kernel.language, kernel.source, kernel.launched, lines, kernel.ops, kernel.reads,
            kernel.writes, kernel.seconds, kernel.cache_hit, kernel.note, graph, kernel.nodes, kernel.places, measured,
        )  # fmt: skip

    def entry_rows(self) -> tuple[EntryInfo, ...]:
        rows = []
        for number, entry in enumerate(self.entries):
            ends = "returns" if entry.end is None else f"breaks at line {entry.end.line}"
            hits = entry.entry.hits if entry.entry is not None else 0
            text = bytecode.listing(bytecode.decode(entry.replacement))
            rows.append(EntryInfo(number, entry.starts, ends, hits, self.graph_of.get(id(entry)), len(entry.guards),
                                  text, entry.cause, entry.check_seconds))  # fmt: skip
        return tuple(rows)


def _source_text(guard: Guard) -> str:
    return guard.source.text


def _nested(code: CodeType) -> Iterable[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _nested(const)


def profile(function: FunctionType, call: Callable[[], Any], repeat: int) -> None:
    """Run a call of a compiled function with its kernels timed; the median of each is kept for its reports."""
    call()  # what is not compiled yet is compiled now
    record = known(function.__code__)
    graphs = [entry.graph for entry in record.entries if entry.graph is not None] if record is not None else []
    for graph in graphs:
        graph.sample(repeat)
    for _ in range(repeat):
        call()


def resources(function: FunctionType, names: Collection[str], target: str) -> dict[str, tuple[Any, ...]]:
    """What the Triton texts of kernels become on a GPU; their notes say it from then on."""
    record = known(function.__code__)
    found: dict[str, tuple[Any, ...]] = {}
    for entry in record.entries if record is not None else ():
        graph = entry.graph
        if graph is None or graph.compiled.ahead is None:
            continue
        here = {k.name for k in graph.compiled.kernels if k.language == "triton" and k.source and k.name in names}
        made = {name: graph.compiled.ahead(name, target) for name in sorted(here - found.keys())}
        found.update(made)
        kernels = (_noted(k, found) if k.name in here else k for k in graph.compiled.kernels)
        graph.compiled = replace(graph.compiled, kernels=tuple(kernels))
    return found


def _noted(kernel: KernelInfo, found: Mapping[str, tuple[Any, ...]]) -> KernelInfo:
    if kernel.language != "triton":
        return kernel
    known = [part for part in kernel.note.split("; ") if part]
    return replace(kernel, note="; ".join(dict.fromkeys([*known, *map(str, found[kernel.name])])))


def edit_kernel(function: FunctionType, name: str, text: str) -> int:
    """Give a kernel another text in every graph that has it."""
    record = known(function.__code__)
    edited = 0
    for entry in record.entries if record is not None else ():
        graph = entry.graph
        if graph is None or graph.compiled.edit is None:
            continue
        if not any(kernel.name == name and kernel.language == "c" for kernel in graph.compiled.kernels):
            continue
        graph.compiled.edit(name, text)
        graph.compiled = replace(graph.compiled, kernels=tuple(_edited(k, name, text) for k in graph.compiled.kernels))
        edited += 1
    return edited


def _edited(kernel: KernelInfo, name: str, text: str) -> KernelInfo:
    """Lines of an edited text are not known to belong to lines of the program."""
    if kernel.name != name or kernel.language != "c":
        return kernel
    return replace(kernel, source=text.rstrip("\n"), lines=(), places=(), cache_hit=False, note="edited by hand")


def explain(function: FunctionType, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Report:
    """Run the function once under options of its own and report on the entries that this made."""
    options = Options(backend="eager")  # not interned: its entries are seen by nobody else
    code = function.__code__
    record = record_of(code)
    was_explicit, before = record.explicit, len(record.entries)
    record.explicit = True
    try:
        frame.Dispatcher(function, options, on_miss)(*args, **kwargs)
    finally:
        record.explicit = was_explicit
    mine = [entry for entry in record.entries[before:] if entry.entry is not None and entry.entry.options is options]
    shown = Record(record.code, entries=mine, failed=record.failed, status=record.status, reason=record.reason)
    inner = _undecorated(function).__code__
    result = _Summary(shown, inner, code).report(function.__qualname__, _source_of(inner))
    record.entries = [entry for entry in record.entries if entry not in mine]
    for entry in mine:
        for owner in (code, *(ref() for ref in record.extra)):
            if owner is not None and entry.entry is not None:
                frame.remove(owner, entry.entry)
    return result
