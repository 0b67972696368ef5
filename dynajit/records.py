"""What is kept of each compiled function: its entries as data, why it broke, why it was compiled again."""

from __future__ import annotations

import statistics
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from dynajit import frame
from dynajit.backends import CompiledGraph
from dynajit.guards.build import Built
from dynajit.guards.guard import Guard
from dynajit.reasons import Reason
from dynajit.report import Stage
from dynajit.source import Source


@dataclass(frozen=True)
class Break:
    line: int | None
    reason: Reason
    detail: str
    where: tuple[str, int] | None


@dataclass
class GraphRecord:
    """nodes: (name, op, target, inputs, origin, shape) of each operation; compiled: what the backend made of it.

    times: seconds of some launches of each kernel, by its name, and of the whole graph under "".
    """

    nodes: tuple[Any, ...]
    code: str
    compiled: CompiledGraph
    call: frame.GraphCall
    times: Mapping[str, list[float]] = field(default_factory=dict)

    def sample(self, count: int) -> None:
        """Time the next `count` runs."""
        if self.compiled.sample is not None:
            self.times = self.compiled.sample(count)

    def measured(self, name: str) -> float:
        """The median, without the first run if there are more; 0 if nothing was measured."""
        found = self.times.get(name, ())
        return statistics.median(found[1:] or found) if found else 0.0


@dataclass
class CacheEntry:
    """One entry of a function, or of one of its resume functions. `entry` is what the frame hook keeps.

    cause: the guard that failed before it was made. check_seconds: what looking at its guards costs a call.
    """

    starts: int | None
    end: Break | None
    guards: Sequence[Guard]
    built: Built
    graph: GraphRecord | None
    visited: Mapping[tuple[str, int], int]
    stages: Sequence[Stage]
    replacement: CodeType
    entry: frame.Entry | None = None
    cause: str = ""
    check_seconds: float = 0.0


@dataclass
class Record:
    """All that is known of one function, by its code object.

    numbers, sizes: sources of numbers, and dimensions of tensors, that differed between calls, by code object of the
    function or resume function.
    failed: how often a guard made the function compile again, with what was found; failed_at: when it last did.
    """

    code: weakref.ref[CodeType]
    explicit: bool = False
    entries: list[CacheEntry] = field(default_factory=list)
    numbers: dict[int, set[Source]] = field(default_factory=dict)
    sizes: dict[int, dict[Source, frozenset[int]]] = field(default_factory=dict)
    failed: dict[str, tuple[int, str]] = field(default_factory=dict)
    failed_at: dict[str, float] = field(default_factory=dict)
    recompiles: list[str] = field(default_factory=list)
    status: str = ""
    reason: str = ""
    full: set[int] = field(default_factory=set)
    error: str = ""
    restored: int = 0
    extra: list[weakref.ref[CodeType]] = field(default_factory=list)


_RECORDS: dict[int, Record] = {}


def record_of(code: CodeType) -> Record:
    """The record of a function's own code object (not that of a resume function), made when it is first asked for."""
    key = id(code)
    found = _RECORDS.get(key)
    if found is None or found.code() is not code:
        found = Record(weakref.ref(code, lambda _: _RECORDS.pop(key, None)))
        _RECORDS[key] = found
    return found


def known(code: CodeType) -> Record | None:
    found = _RECORDS.get(id(code))
    return found if found is not None and found.code() is code else None


def all_records() -> list[Record]:
    return list(_RECORDS.values())


def forget(record: Record) -> None:
    """Free the entries of a function and of its resume functions; it is compiled anew when it is called again."""
    code = record.code()
    if code is not None:
        frame.clear(code)
        frame.skip(code, False)
    for other in record.extra:
        resumed = other()
        if resumed is not None:
            frame.clear(resumed)
    record.entries.clear()
    record.numbers.clear()
    record.sizes.clear()
    record.failed.clear()
    record.failed_at.clear()
    record.recompiles.clear()
    record.full.clear()
    record.extra.clear()
    record.status = record.reason = record.error = ""
