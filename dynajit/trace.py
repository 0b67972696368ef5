"""The result of evaluating a frame: a value, not the machine that made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dynajit.bytecode import Code, Position
from dynajit.guards.guard import Guard
from dynajit.reasons import Reason
from dynajit.source import Source
from dynajit.values.base import Value
from dynajit.values.function import Callee
from dynajit.values.heap import Heap


@dataclass(frozen=True)
class Returned:
    value: Value


@dataclass(frozen=True, eq=False)
class Continuation(Value):
    """Stands on a stack for what goes on inside the next link of a chain."""

    kind = "continuation"


CONTINUATION = Continuation()


@dataclass(frozen=True)
class Link:
    """An inlined function that was being evaluated: it goes on at `body[at]`, with this stack and these locals."""

    program: Any
    at: int
    stack: tuple[Value, ...]
    locals: Mapping[str, Value]
    callee: Callee


@dataclass(frozen=True)
class Broke:
    """The instruction `body[at]` must run in Python, with this stack and these locals.

    again: it is evaluated again instead, now that the graph's results are there. chain: the inlined functions,
    outermost first, in which the graph really broke; the instruction is then a call that goes on in the first of them.
    """

    at: int
    stack: tuple[Value, ...]
    locals: Mapping[str, Value]
    reason: Reason
    detail: str
    position: Position
    where: tuple[str, int] | None = None
    again: bool = False
    chain: tuple[Link, ...] = ()


@dataclass(frozen=True)
class Trace:
    """graph: the captured `fx.Graph`. placeholders, inputs, examples: its inputs, their sources, their values.

    handles: existing objects by the key of their contents; born: the instruction that made each key known.
    visited: (filename, line) of every user line that was evaluated, with the depth of inlining.
    """

    code: Code
    graph: Any
    placeholders: Sequence[Any]
    inputs: Sequence[Source]
    examples: Sequence[Any]
    guards: Sequence[Guard]
    heap: Heap
    end: Returned | Broke
    grad_mode: tuple[bool, bool]
    visited: Mapping[tuple[str, int], int] = field(default_factory=dict)
    inlined: Sequence[Any] = ()
    handles: Mapping[int, Value] = field(default_factory=dict)
    born: Mapping[int, int] = field(default_factory=dict)
