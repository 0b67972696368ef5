"""The canonical form of a code object: what the rest of the compiler sees, on every Python version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Label:
    """A place in the code. Compared by identity; named only in listings."""

    __slots__ = ()


class Position(NamedTuple):
    """Where in the source an instruction comes from; columns count UTF-8 bytes, as `co_positions` does."""

    line: int | None
    end_line: int | None
    column: int | None
    end_column: int | None


NOWHERE = Position(None, None, None, None)


@dataclass(frozen=True, slots=True)
class Instr:
    """One canonical instruction. `arg` is decoded: a name, a constant, an operator symbol or a count."""

    op: str
    arg: Any = None
    target: Label | None = None
    position: Position = NOWHERE


@dataclass(frozen=True, slots=True)
class Region:
    """An exception between `start` and `end` goes to `handler`, with the stack cut to `depth`.

    The handler finds on the stack: `depth` values, then the index of the failed instruction if `push_lasti`, then the
    exception. Regions may nest; where several cover an instruction, the innermost holds.
    """

    start: Label
    end: Label
    handler: Label
    depth: int
    push_lasti: bool


@dataclass(slots=True)
class Code:
    """A function body as a list that may be edited, with the facts needed to assemble it again.

    consts: what `co_consts` must begin with; its first entry is the docstring of the function.
    names: what `co_names` must begin with.
    stacksize: the least `co_stacksize` to write; `encode` takes more where the body needs more.
    """

    body: list[Instr | Label]
    regions: list[Region]
    name: str
    qualname: str
    filename: str
    firstlineno: int
    flags: int
    argcount: int
    posonlyargcount: int
    kwonlyargcount: int
    varnames: list[str]
    cellvars: list[str]
    freevars: list[str]
    consts: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    stacksize: int = 0


def slot_names(varnames: list[str], cellvars: list[str], freevars: list[str]) -> list[str]:
    """The name of each local, cell and free variable, in the order of the slots of a frame.

    A comprehension inlined by 3.12+ may bind a name that its function reads from a closure (symtable.c,
    inline_comprehension). The name then has two slots; the free variable's is called `"x (free)"`.
    """
    own = [*varnames, *(name for name in cellvars if name not in varnames)]
    return [*own, *(f"{name} (free)" if name in own else name for name in freevars)]
