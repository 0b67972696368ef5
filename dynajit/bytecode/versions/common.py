"""What the versions share: the shape of a version, and the rules its tables are made of.

An unfold rule reads one raw instruction and adds canonical ones; a fold rule writes one canonical instruction as raw ones.
"""

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


# ---- reading ----

_TRUTH_TESTS = ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "UNARY_NOT")
_OPERATORS: list[str] = [symbol for _, symbol in dis._nb_ops]  # type: ignore[attr-defined]
_INTRINSICS_1 = [
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
_INTRINSICS_2 = [
    "INVALID",
    "PREP_RERAISE_STAR",
    "TYPEVAR_WITH_BOUND",
    "TYPEVAR_WITH_CONSTRAINTS",
    "SET_FUNCTION_TYPE_PARAMS",
    "SET_TYPEPARAM_DEFAULT",
]
_OWN_INTRINSICS = ("ASYNC_GEN_WRAP", "UNARY_POSITIVE", "LIST_TO_TUPLE", "PREP_RERAISE_STAR")  # instructions in 3.11


def as_it_stands(raw: Raw, out: Reader) -> None:
    """An instruction that keeps its name; its argument is decoded by the kind `dis` gives it."""
    number = dis.opmap[raw.op]
    if raw.target is not None:
        out.jump(raw.op, raw.target)
    elif number < dis.HAVE_ARGUMENT:
        out.add(raw.op)
    elif number in dis.hasconst:
        out.add(raw.op, out.const(raw.arg))
    elif number in dis.hasname:
        out.add(raw.op, out.name(raw.arg))
    elif number in dis.haslocal or number in dis.hasfree:
        out.add(raw.op, out.slot(raw.arg))
    else:
        out.add(raw.op, raw.arg)


def dropped(raw: Raw, out: Reader) -> None:
    pass


def named(op: str, arg: Any = None) -> Unfold:
    return lambda raw, out: out.add(op, arg)


def jump(op: str) -> Unfold:
    return lambda raw, out: out.jump(op, raw.target)


def local(op: str) -> Unfold:
    return lambda raw, out: out.add(op, out.slot(raw.arg))


def pair(first: str, second: str) -> Unfold:
    def rule(raw: Raw, out: Reader) -> None:
        for op, index in ((first, raw.arg >> 4), (second, raw.arg & 15)):
            _add_fast(op, index, out)

    return rule


def jump_or_pop(op: str) -> Unfold:
    def rule(raw: Raw, out: Reader) -> None:
        out.add("COPY", 1)
        out.jump(op, raw.target)
        out.add("POP_TOP")

    return rule


def load_global_null_first(raw: Raw, out: Reader) -> None:
    if raw.arg & 1:
        out.add("PUSH_NULL")
    out.add("LOAD_GLOBAL", out.name(raw.arg >> 1))


def load_global_null_last(raw: Raw, out: Reader) -> None:
    out.add("LOAD_GLOBAL", out.name(raw.arg >> 1))
    if raw.arg & 1:
        out.add("PUSH_NULL")


def load_attr_or_method(raw: Raw, out: Reader) -> None:
    out.add("LOAD_METHOD" if raw.arg & 1 else "LOAD_ATTR", out.name(raw.arg >> 1))


def load_super_attr(raw: Raw, out: Reader) -> None:
    out.add("LOAD_SUPER_ATTR", (out.name(raw.arg >> 2), raw.arg & 3))


def load_fast_or_closure(raw: Raw, out: Reader) -> None:
    """From 3.13 on LOAD_FAST also reads the slot of a cell."""
    _add_fast("LOAD_FAST", raw.arg, out)


def _add_fast(op: str, index: int, out: Reader) -> None:
    out.add("LOAD_CLOSURE" if op == "LOAD_FAST" and out.is_cell(index) else op, out.slot(index))


def compare(shift: int) -> Unfold:
    return lambda raw, out: out.add("COMPARE_OP", dis.cmp_op[raw.arg >> shift])


def compare_with_truth(raw: Raw, out: Reader) -> None:
    """3.13: bit 4 asks for a bool (bytecodes.c, COMPARE_OP), which a truth test asks for by itself."""
    out.add("COMPARE_OP", dis.cmp_op[raw.arg >> 5])
    if raw.arg & 16:
        to_bool(raw, out)


def to_bool(raw: Raw, out: Reader) -> None:
    if out.upcoming not in _TRUTH_TESTS:  # these test truth themselves in the canonical form
        out.add("TO_BOOL")


def return_const(raw: Raw, out: Reader) -> None:
    out.add("LOAD_CONST", out.const(raw.arg))
    out.add("RETURN_VALUE")


def kw_names(raw: Raw, out: Reader) -> None:
    out.kw_names = out.const(raw.arg)


def call(raw: Raw, out: Reader) -> None:
    out.add("CALL", (raw.arg, out.kw_names))
    out.kw_names = ()


def call_kw(raw: Raw, out: Reader) -> None:
    names = out.pop("LOAD_CONST")
    out.add("CALL", (raw.arg, names))


def binary_op(raw: Raw, out: Reader) -> None:
    out.add("BINARY_OP", _OPERATORS[raw.arg])


def slice_then(op: str) -> Unfold:
    def rule(raw: Raw, out: Reader) -> None:
        out.add("BUILD_SLICE", 2)
        out.add(op)

    return rule


def intrinsic(op: str, names: list[str]) -> Unfold:
    def rule(raw: Raw, out: Reader) -> None:
        name = names[raw.arg]
        if name in _OWN_INTRINSICS:
            out.add(name)
        else:
            out.add(op, name)

    return rule


def set_function_attribute(raw: Raw, out: Reader) -> None:
    out.add("MAKE_FUNCTION", out.pop("MAKE_FUNCTION") | raw.arg)


UNFOLD: dict[str, Unfold] = {
    "CACHE": dropped,
    "CALL": call,
    "BINARY_OP": binary_op,
    "JUMP_FORWARD": jump("JUMP"),
    "JUMP_BACKWARD": jump("JUMP"),
}

UNFOLD_FROM_312: dict[str, Unfold] = UNFOLD | {
    "LOAD_ATTR": load_attr_or_method,
    "LOAD_SUPER_ATTR": load_super_attr,
    "LOAD_FAST_CHECK": local("LOAD_FAST"),
    "RETURN_CONST": return_const,
    "BINARY_SLICE": slice_then("BINARY_SUBSCR"),
    "STORE_SLICE": slice_then("STORE_SUBSCR"),
    "CALL_INTRINSIC_1": intrinsic("CALL_INTRINSIC_1", _INTRINSICS_1),
    "CALL_INTRINSIC_2": intrinsic("CALL_INTRINSIC_2", _INTRINSICS_2),
}

# ---- writing ----

CONDITIONS = {"TRUE": "FALSE", "FALSE": "TRUE", "NONE": "NOT_NONE", "NOT_NONE": "NONE"}
_COMPARISON_MASKS = {"<": 2, "<=": 2 | 8, "==": 8, "!=": 1 | 2 | 4, ">": 4, ">=": 4 | 8}  # pycore_code.h, COMPARISON_*


def as_named(instr: Instr, asm: Writer) -> Iterable[Piece]:
    """The inverse of `as_it_stands`."""
    number = dis.opmap[instr.op]
    if instr.target is not None:
        yield instr.op, instr.target
    elif number in dis.hasconst:
        yield instr.op, asm.const(instr.arg)
    elif number in dis.hasname:
        yield instr.op, asm.name(instr.arg)
    elif number in dis.haslocal or number in dis.hasfree:
        yield instr.op, asm.slot(instr.arg)
    else:
        yield instr.op, instr.arg or 0


def slot_as(op: str) -> Fold:
    return lambda instr, asm: [(op, asm.slot(instr.arg))]


def fold_load_global(instr: Instr, asm: Writer) -> Iterable[Piece]:
    yield "LOAD_GLOBAL", asm.name(instr.arg) << 1


def fold_binary_op(instr: Instr, asm: Writer) -> Iterable[Piece]:
    yield "BINARY_OP", _OPERATORS.index(instr.arg)


def fold_attr(method: int) -> Fold:
    return lambda instr, asm: [("LOAD_ATTR", asm.name(instr.arg) << 1 | method)]


def fold_super_attr(instr: Instr, asm: Writer) -> Iterable[Piece]:
    name, flags = instr.arg
    yield "LOAD_SUPER_ATTR", asm.name(name) << 2 | flags


def fold_compare(instr: Instr, asm: Writer) -> Iterable[Piece]:
    yield "COMPARE_OP", dis.cmp_op.index(instr.arg)


def fold_compare_with_mask(shift: int) -> Fold:
    """From 3.12 on the low bits say which outcomes mean true; specialised comparisons rely on them."""
    return lambda instr, asm: [
        ("COMPARE_OP", dis.cmp_op.index(instr.arg) << shift | _COMPARISON_MASKS[instr.arg]),
    ]


def fold_intrinsic(op: str, names: list[str]) -> Fold:
    return lambda instr, asm: [(op, names.index(instr.arg or instr.op))]


def call_with_precall(instr: Instr, asm: Writer) -> Iterable[Piece]:
    count, names = instr.arg
    if names:
        yield "KW_NAMES", asm.const(names)
    yield "PRECALL", count
    yield "CALL", count


def call_with_kw_names(instr: Instr, asm: Writer) -> Iterable[Piece]:
    count, names = instr.arg
    if names:
        yield "KW_NAMES", asm.const(names)
    yield "CALL", count


def call_or_call_kw(instr: Instr, asm: Writer) -> Iterable[Piece]:
    count, names = instr.arg
    if names:
        yield "LOAD_CONST", asm.const(names)
    yield ("CALL_KW" if names else "CALL"), count


def make_function_then_attributes(instr: Instr, asm: Writer) -> Iterable[Piece]:
    yield "MAKE_FUNCTION", 0
    for flag in (8, 4, 2, 1):  # the closure is on top of the other parts
        if instr.arg & flag:
            yield "SET_FUNCTION_ATTRIBUTE", flag


def format_simple_or_spec(instr: Instr, asm: Writer) -> Iterable[Piece]:
    yield ("FORMAT_WITH_SPEC" if instr.arg & 4 else "FORMAT_SIMPLE"), 0


def to_bool_then_not(instr: Instr, asm: Writer) -> Iterable[Piece]:
    yield "TO_BOOL", 0
    yield "UNARY_NOT", 0


def directed(forward: str, backward: str) -> Fold:
    def rule(instr: Instr, asm: Writer) -> Iterable[Piece]:
        assert instr.target is not None, instr
        yield (backward if asm.is_behind(instr.target) else forward), instr.target

    return rule


def conditional_jump(condition: str, to_bool: bool = False) -> Fold:
    """From 3.12 on conditional jumps only go forward: one that goes back jumps over a JUMP_BACKWARD."""

    def rule(instr: Instr, asm: Writer) -> Iterable[Piece]:
        assert instr.target is not None, instr
        if to_bool and condition in ("TRUE", "FALSE"):
            yield "TO_BOOL", 0
        if asm.is_behind(instr.target):
            over = Label()
            yield f"POP_JUMP_IF_{CONDITIONS[condition]}", over
            yield "JUMP_BACKWARD", instr.target
            yield over
        else:
            yield instr.op, instr.target

    return rule


FOLD: dict[str, Fold] = {
    "JUMP": directed("JUMP_FORWARD", "JUMP_BACKWARD"),
    "JUMP_BACKWARD_NO_INTERRUPT": directed("JUMP_FORWARD", "JUMP_BACKWARD_NO_INTERRUPT"),
    "LOAD_GLOBAL": fold_load_global,
    "BINARY_OP": fold_binary_op,
}

FOLD_FROM_312: dict[str, Fold] = FOLD | {
    "LOAD_FAST": slot_as("LOAD_FAST_CHECK"),
    "LOAD_ATTR": fold_attr(method=0),
    "LOAD_METHOD": fold_attr(method=1),
    "LOAD_SUPER_ATTR": fold_super_attr,
    "ASYNC_GEN_WRAP": fold_intrinsic("CALL_INTRINSIC_1", _INTRINSICS_1),
    "UNARY_POSITIVE": fold_intrinsic("CALL_INTRINSIC_1", _INTRINSICS_1),
    "LIST_TO_TUPLE": fold_intrinsic("CALL_INTRINSIC_1", _INTRINSICS_1),
    "CALL_INTRINSIC_1": fold_intrinsic("CALL_INTRINSIC_1", _INTRINSICS_1),
    "PREP_RERAISE_STAR": fold_intrinsic("CALL_INTRINSIC_2", _INTRINSICS_2),
    "CALL_INTRINSIC_2": fold_intrinsic("CALL_INTRINSIC_2", _INTRINSICS_2),
}
