"""Short canonical sequences, for those who write bodies: loads, stores, calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from dynajit.bytecode.code import Instr, Position
from dynajit.bytecode.versions import python


def const(value: Any) -> list[Instr]:
    """Push any object. It lives in `co_consts`, so strings that look like names, also inside of tuples and frozensets,
    come back interned (codeobject.c, intern_string_constants), and a code object with an unhashable one has no hash."""
    return [Instr("LOAD_CONST", value)]


def load(name: str) -> list[Instr]:
    """Push a local; UnboundLocalError if it has no value."""
    return [Instr("LOAD_FAST", name)]


def store(name: str) -> list[Instr]:
    return [Instr("STORE_FAST", name)]


def load_deref(name: str) -> list[Instr]:
    """Push what a cell or free variable holds; NameError if it is empty."""
    return [Instr("LOAD_DEREF", name)]


def store_deref(name: str) -> list[Instr]:
    return [Instr("STORE_DEREF", name)]


def load_cell(name: str) -> list[Instr]:
    """Push the cell itself."""
    return [Instr("LOAD_CLOSURE", name)]


def load_global(name: str) -> list[Instr]:
    return [Instr("LOAD_GLOBAL", name)]


def push_callable(load: Sequence[Instr]) -> list[Instr]:
    """Push what `load` pushes, and the NULL that a call expects next to it. Arguments and `call` follow."""
    null = Instr("PUSH_NULL")
    return [null, *load] if python.null_first else [*load, null]


def call(count: int, kw: Sequence[str] = ()) -> list[Instr]:
    """Call with the `count` values on top of the stack, the last of which are the arguments named in `kw`."""
    return [Instr("CALL", (count, tuple(kw)))]


def positioned(instrs: Iterable[Instr], position: Position) -> list[Instr]:
    """The instructions, as if they came from `position`."""
    return [dataclasses.replace(instr, position=position) for instr in instrs]
