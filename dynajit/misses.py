"""Why no entry fits a call, what is learnt from it, and whether it may be compiled at all."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from dynajit import events, frame, reasons
from dynajit.errors import CompileError
from dynajit.guards.explain import current, failing, found_words, words
from dynajit.guards.guard import Guard, changed_dims
from dynajit.options import Options
from dynajit.records import CacheEntry, Record
from dynajit.source import Attr, Call, Size
from dynajit.stance import CURRENT
from dynajit.symbol import is_number
from dynajit.trace import Broke


def may_compile(func: FunctionType, args: tuple[Any, ...], options: Options) -> bool:
    """Whether the stance allows it. Raises `CompileError` where it asks for that."""
    stance = CURRENT.name
    if stance == "default":
        return True
    mine = [entry for entry in frame.entries(func.__code__) if entry.options is options]
    if stance == "cached_only" or (stance == "eager_on_recompile" and mine):
        return False
    if stance == "fail_on_recompile" and mine:
        found = failing(mine[0].owner.built, func, args)
        text = (
            f"{words(found[0])}; now {found_words(*found)}" if found is not None and found[0] is not None else "a guard"
        )
        where = f"{func.__code__.co_filename}:{func.__code__.co_firstlineno}"
        what = f"{func.__qualname__} would be compiled again: {text}"
        raise CompileError(
            "capture", where, what, 'set_stance("default") compiles it; mark_dynamic makes a size symbolic'
        )
    return True


def explain_miss(
    func: FunctionType, args: tuple[Any, ...], mine: Sequence[frame.Entry], record: Record, options: Options
) -> str:
    """Why no entry fits; numbers that differ become symbolic, entries of replaced functions are freed."""
    code, cause = func.__code__, ""
    for entry in mine:
        kept = entry.owner
        assert isinstance(kept, CacheEntry)
        found = failing(kept.built, func, args)
        if found is None or found[0] is None:
            continue
        guard, value = found
        assert guard is not None
        text = f"{words(guard)}; now {found_words(guard, value)}"
        count, _ = record.failed.get(words(guard), (0, ""))
        record.failed[words(guard)] = (count + 1, found_words(guard, value))
        record.failed_at[words(guard)] = time.time()
        if entry is mine[0]:
            cause = text
            record.recompiles.append(text)
            events.emit(events.GuardFailed(code, text))
        if guard.kind in ("EQUALS", "TENSOR"):
            _note_changes(kept.guards, func, args, record)
        if guard.kind in ("CODE", "CLASS_ATTR") or (guard.kind == "IS" and isinstance(guard.expected, type)):
            frame.remove(code, entry)  # what it inlined was replaced
            if kept in record.entries:
                record.entries.remove(kept)
    return cause


def _note_changes(guards: Sequence[Guard], func: FunctionType, args: tuple[Any, ...], record: Record) -> None:
    """Every number and every size that is not what an entry expects: they are likely to change together."""
    numbers = record.numbers.setdefault(id(func.__code__), set())
    sizes = record.sizes.setdefault(id(func.__code__), {})
    for guard in guards:
        if guard.kind == "EQUALS" and is_number(guard.expected):
            value = current(guard.source, func, args)
            if type(value) is type(guard.expected) and value != guard.expected:
                if isinstance(guard.source, Size):  # it was symbolic; the program depends on its value
                    continue
                numbers.add(guard.source)
        elif isinstance(guard.source, Call) and guard.source.function is np.generic.tobytes:
            value = current(guard.source.base, func, args)
            if is_number(value) and value.tobytes() != guard.expected:
                numbers.add(guard.source.base)
        elif guard.kind == "EQUALS" and isinstance(guard.source, Attr) and guard.source.name == "shape":
            array = current(guard.source.base, func, args)
            if isinstance(array, np.ndarray) and array.shape != guard.expected:
                sizes[guard.source.base] = frozenset(range(array.ndim))
        elif guard.kind == "TENSOR":
            changed = changed_dims(guard.expected, current(guard.source, func, args))
            if changed:
                sizes[guard.source] = sizes.get(guard.source, frozenset()) | changed


def give_up(code: CodeType, record: Record, options: Options) -> None:
    record.full.add(id(code))
    worst = max(record.failed.items(), key=lambda item: item[1][0], default=("", (0, "")))[0]
    record.status, record.reason = "eager", f"{reasons.LIMIT.title} ({options.limit} entries); failing guard: {worst}"
    events.emit(events.LimitReached(code, options.limit, worst))


def broke_error(func: FunctionType, end: Broke) -> CompileError:
    filename, line = end.where or (func.__code__.co_filename, end.position.line or 0)
    detail = f" ({end.detail})" if end.detail else ""
    what = (
        f"fullgraph=True, but {end.reason.title}{detail} breaks the graph [{end.reason.code}]. {end.reason.explanation}"
    )
    return CompileError("capture", f"{filename}:{line}", what, end.reason.hint)
