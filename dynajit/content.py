"""Entries by content: a cell that is run again unchanged gets its entries back; a changed one frees the old ones."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from dynajit import frame
from dynajit.evaluate.program import is_resumed
from dynajit.options import Options
from dynajit.records import Record, forget, known

_KEPT = 256


@dataclass
class _Kept:
    """digest: of the code. code: where the entries live now. entries: the function's own, without resume functions."""

    digest: bytes
    code: CodeType
    entries: list[frame.Entry] = field(default_factory=list)


_STORE: OrderedDict[Any, _Kept] = OrderedDict()


def digest(code: CodeType) -> bytes:
    """What two code objects share exactly when they are the same program on the same lines."""
    out = hashlib.blake2b(digest_size=16)
    _feed(out, code)
    return out.digest()


def _feed(out: Any, obj: Any) -> None:
    if isinstance(obj, CodeType):
        facts = (obj.co_code, obj.co_names, obj.co_varnames, obj.co_freevars, obj.co_cellvars, obj.co_flags,
                 obj.co_argcount, obj.co_posonlyargcount, obj.co_kwonlyargcount, obj.co_name, obj.co_qualname,
                 obj.co_exceptiontable, obj.co_linetable, obj.co_firstlineno)  # fmt: skip
        out.update(repr(facts).encode())
        for const in obj.co_consts:
            _feed(out, const)
    elif isinstance(obj, (tuple, frozenset)):
        out.update(f"{type(obj).__name__}{len(obj)}".encode())
        for item in sorted(obj, key=repr) if isinstance(obj, frozenset) else obj:
            _feed(out, item)
    else:
        out.update(f"{type(obj).__name__}:{obj!r};".encode())


def same_code(actual: CodeType, expected: CodeType) -> bool:
    """Whether a function was defined again unchanged."""
    return actual is expected or (actual.co_qualname == expected.co_qualname and digest(actual) == digest(expected))


def _name(func: FunctionType, options: Options) -> Any:
    return func.__qualname__, id(func.__globals__), id(options)


def keep(func: FunctionType, options: Options, entry: frame.Entry, record: Record) -> None:
    """Remember an entry of a function. Resume functions hang on the entries of their function."""
    code = func.__code__
    if is_resumed(code) or func.__closure__:
        return
    name = _name(func, options)
    found = _STORE.get(name)
    if found is None or found.code is not code:
        found = _STORE[name] = _Kept(digest(code), code)
    found.entries.append(entry)
    _STORE.move_to_end(name)
    if len(_STORE) > _KEPT:
        _STORE.popitem(last=False)


def restore(func: FunctionType, args: tuple[Any, ...], options: Options, record: Record) -> frame.Entry | None:
    """The entries of the same function defined before, given to this one; one that fits this call, or None.

    If a different function had the name, its entries are freed.
    """
    code = func.__code__
    name = _name(func, options)
    found = _STORE.get(name)
    if found is None or found.code is code or is_resumed(code) or func.__closure__:
        return None
    old = known(found.code)
    if found.digest != digest(code):
        del _STORE[name]
        if old is not None:
            forget(old)
        return None
    if old is not None:
        _move(old, record)
    frame.clear(found.code)
    found.code = code
    fitting = None
    for entry in found.entries:
        frame.add(code, entry)
        if fitting is None and entry.check.run(func, args) is not None:
            fitting = entry
    record.restored += 1
    return fitting


def _move(old: Record, new: Record) -> None:
    new.entries += old.entries
    new.failed |= old.failed
    new.recompiles += old.recompiles
    new.extra += old.extra
    old.entries, old.extra = [], []


def clear() -> None:
    _STORE.clear()


def forget_code(code: CodeType) -> None:
    for name in [name for name, kept in _STORE.items() if kept.code is code]:
        del _STORE[name]
