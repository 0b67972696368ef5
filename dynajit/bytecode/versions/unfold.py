"""Rules that read one raw instruction and add canonical ones."""

from __future__ import annotations

import dis
from typing import Any

from dynajit.bytecode.versions.common import INTRINSICS_1, INTRINSICS_2, OPERATORS, Raw, Reader, Unfold

_TRUTH_TESTS = ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "UNARY_NOT")
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
    out.add("BINARY_OP", OPERATORS[raw.arg])


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
    "CALL_INTRINSIC_1": intrinsic("CALL_INTRINSIC_1", INTRINSICS_1),
    "CALL_INTRINSIC_2": intrinsic("CALL_INTRINSIC_2", INTRINSICS_2),
}
