"""What the versions share: the shape of a version, and what its rules may ask of `decode` and `encode`."""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any, NamedTuple, Protocol

from dynajit.bytecode.code import Instr, Label


class Raw(NamedTuple):
    """One instruction of `co_code`, EXTENDED_ARG applied; `target` is the offset it jumps to."""

    offset: int
    op: str
    arg: int
    target: int | None


class Reader(Protocol):
    """What an unfold rule may ask of `decode`."""

    code: CodeType
    kw_names: tuple[str, ...]
    upcoming: str

    def add(self, op: str, arg: Any = None) -> None: ...
    def jump(self, op: str, target: int | None) -> None: ...
    def pop(self, op: str) -> Any: ...
    def slot(self, index: int) -> str: ...
    def is_cell(self, index: int) -> bool: ...
    def name(self, index: int) -> str: ...
    def const(self, index: int) -> Any: ...


class Writer(Protocol):
    """What a fold rule may ask of `encode`."""

    def slot(self, name: str) -> int: ...
    def name(self, name: str) -> int: ...
    def const(self, value: Any) -> int: ...
    def is_behind(self, label: Label) -> bool: ...


Piece = tuple[str, int | Label] | Label
"""A raw instruction with its argument or jump target, or a place to jump to."""

Unfold = Callable[[Raw, Reader], None]
Fold = Callable[[Instr, Writer], Iterable[Piece]]


@dataclass(frozen=True)
class Version:
    """All that the compiler knows of one Python version.

    null_first: a call lays out `NULL, callable, arguments`; otherwise `callable, NULL, arguments`.
    send_pops_receiver: SEND takes the receiver off the stack when it jumps; otherwise END_SEND does.
    loop_end: the markers that stand where a raw FOR_ITER jumps to.
    caches: how many cache units follow an instruction.
    """

    unfold: Mapping[str, Unfold]
    fold: Mapping[str, Fold]
    null_first: bool
    send_pops_receiver: bool
    loop_end: tuple[str, ...]
    caches: Mapping[str, int]


def caches_by_name(entries: Any) -> dict[str, int]:
    """`dis` lists the sizes of caches by opcode up to 3.12, by name from 3.13 on."""
    named = entries.items() if isinstance(entries, dict) else zip(dis.opname, entries, strict=False)
    return {op: count for op, count in named if count}


OPERATORS: list[str] = [symbol for _, symbol in dis._nb_ops]  # type: ignore[attr-defined]
INTRINSICS_1 = [
    "INVALID",
    "PRINT",
    "IMPORT_STAR",
    "STOPITERATION_ERROR",
    "ASYNC_GEN_WRAP",
    "UNARY_POSITIVE",
    "LIST_TO_TUPLE",
    "TYPEVAR",
    "PARAMSPEC",
    "TYPEVARTUPLE",
    "SUBSCRIPT_GENERIC",
    "TYPEALIAS",
]
INTRINSICS_2 = [
    "INVALID",
    "PREP_RERAISE_STAR",
    "TYPEVAR_WITH_BOUND",
    "TYPEVAR_WITH_CONSTRAINTS",
    "SET_FUNCTION_TYPE_PARAMS",
    "SET_TYPEPARAM_DEFAULT",
]

CONDITIONS = {"TRUE": "FALSE", "FALSE": "TRUE", "NONE": "NOT_NONE", "NOT_NONE": "NONE"}
