"""Rules that write one canonical instruction as raw ones."""

from __future__ import annotations

import dis
from collections.abc import Iterable

from dynajit.bytecode.code import Instr, Label
from dynajit.bytecode.versions.common import CONDITIONS, INTRINSICS_1, INTRINSICS_2, OPERATORS, Fold, Piece, Writer

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
    yield "BINARY_OP", OPERATORS.index(instr.arg)


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
    return lambda instr, asm: [(op, names.index(instr.arg))]


def own_intrinsic(op: str, names: list[str]) -> Fold:
    """An intrinsic that is an instruction of its own in the canonical form."""
    return lambda instr, asm: [(op, names.index(instr.op))]


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
    "ASYNC_GEN_WRAP": own_intrinsic("CALL_INTRINSIC_1", INTRINSICS_1),
    "UNARY_POSITIVE": own_intrinsic("CALL_INTRINSIC_1", INTRINSICS_1),
    "LIST_TO_TUPLE": own_intrinsic("CALL_INTRINSIC_1", INTRINSICS_1),
    "CALL_INTRINSIC_1": fold_intrinsic("CALL_INTRINSIC_1", INTRINSICS_1),
    "PREP_RERAISE_STAR": own_intrinsic("CALL_INTRINSIC_2", INTRINSICS_2),
    "CALL_INTRINSIC_2": fold_intrinsic("CALL_INTRINSIC_2", INTRINSICS_2),
}
