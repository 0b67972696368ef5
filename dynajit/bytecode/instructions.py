"""The canonical instructions: what each does, and what it does to the stack.

Pictures of the stack read `before -> after`, the top on the right; `NULL` is an empty slot. What stands in one version
only is marked so: code is decoded and encoded by the same Python, so the others need no spelling for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dynajit.bytecode.code import Instr
from dynajit.bytecode.versions import python

JUMPS = frozenset(
    {
        "JUMP",
        "JUMP_BACKWARD_NO_INTERRUPT",
        "POP_JUMP_IF_TRUE",
        "POP_JUMP_IF_FALSE",
        "POP_JUMP_IF_NONE",
        "POP_JUMP_IF_NOT_NONE",
        "FOR_ITER",
        "SEND",
    }
)
"""The instructions that have a target."""

NO_FALL_THROUGH = frozenset({"JUMP", "JUMP_BACKWARD_NO_INTERRUPT", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})
"""The instructions after which the next one is not reached."""


class Operation(NamedTuple):
    """stack: the picture; says: what is done, `arg` being `Instr.arg`; growth: by how much the stack grows, by arg."""

    stack: str
    says: str
    growth: Callable[[Any], int]


def stack_effect(instr: Instr, jump: bool = False) -> int:
    """By how much the stack grows when `instr` is done, or when it jumps."""
    if jump and instr.op == "FOR_ITER":
        return -1
    if jump and instr.op == "SEND":
        return -1 if python.send_pops_receiver else 0
    return INSTRUCTIONS[instr.op].growth(instr.arg)


def _op(stack: str, says: str, growth: Callable[[Any], int] | None = None) -> Operation:
    before, _, after = stack.partition("->")
    difference = _count(after) - _count(before)
    return Operation(stack, says, growth or (lambda arg: difference))


def _count(picture: str) -> int:
    return len(picture.split(",")) if picture.strip() else 0


def _many(stack: str, says: str) -> Operation:
    """An instruction that makes one value of `arg` many."""
    return _op(stack, says, lambda count: 1 - int(count))


INSTRUCTIONS: dict[str, Operation] = {
    # the frame
    "RESUME": _op("->", "Where the function starts (arg 0), or goes on after yield (1), yield from (2), await (3)."),
    "NOP": _op("->", "Nothing; it may be there for the sake of its line."),
    "MAKE_CELL": _op("->", "Put what local `arg` holds into a new cell, and the cell in its place."),
    "COPY_FREE_VARS": _op("->", "Copy the `arg` cells of the function's closure into the frame."),
    "RETURN_GENERATOR": _op("-> sent", "Return a generator; when it is started, it goes on from here."),
    "RETURN_VALUE": _op("value ->", "Return it."),
    # the stack
    "POP_TOP": _op("value ->", "Drop it."),
    "PUSH_NULL": _op("-> NULL", "Push the empty slot that a call expects by its callable."),
    "COPY": _op("-> value", "Push the `arg`th value from the top again; the top is the first."),
    "SWAP": _op("->", "Exchange the top with the `arg`th value from the top."),
    "LOAD_CONST": _op("-> value", "Push `arg`."),
    # variables
    "LOAD_FAST": _op("-> value", "Push local `arg`; UnboundLocalError if it has no value."),
    "LOAD_FAST_AND_CLEAR": _op("-> value", "3.12+: push local `arg`, or NULL, and unbind it."),
    "STORE_FAST": _op("value ->", "Bind local `arg`; NULL unbinds it."),
    "DELETE_FAST": _op("->", "Unbind local `arg`; UnboundLocalError if it has no value."),
    "LOAD_CLOSURE": _op("-> cell", "Push the cell of variable `arg` itself."),
    "LOAD_DEREF": _op("-> value", "Push what the cell of `arg` holds; NameError if nothing."),
    "STORE_DEREF": _op("value ->", "Put it into the cell of `arg`."),
    "DELETE_DEREF": _op("->", "Empty the cell of `arg`; NameError if it is empty."),
    "LOAD_CLASSDEREF": _op("-> value", "3.11: `arg` of the class body, or else what its cell holds."),
    "LOAD_FROM_DICT_OR_DEREF": _op("mapping -> value", "3.12+: `arg` of the mapping, or else what its cell holds."),
    "LOAD_FROM_DICT_OR_GLOBALS": _op("mapping -> value", "3.12+: `arg` of the mapping, or else the global."),
    "LOAD_GLOBAL": _op("-> value", "Push global or builtin `arg`."),
    "STORE_GLOBAL": _op("value ->", "Bind global `arg`."),
    "DELETE_GLOBAL": _op("->", "Unbind global `arg`."),
    "LOAD_NAME": _op("-> value", "Push `arg` of the locals of a class or module body, of its globals, or of builtins."),
    "STORE_NAME": _op("value ->", "Bind `arg` in the locals of a class or module body."),
    "DELETE_NAME": _op("->", "Unbind `arg` in the locals of a class or module body."),
    "LOAD_LOCALS": _op("-> mapping", "3.12+: push the locals of a class or module body."),
    "SETUP_ANNOTATIONS": _op("->", "Make sure that a class or module body has `__annotations__`."),
    "LOAD_BUILD_CLASS": _op("-> function", "Push `builtins.__build_class__`."),
    "LOAD_ASSERTION_ERROR": _op("-> type", "Push AssertionError."),
    # attributes
    "LOAD_ATTR": _op("owner -> value", "`owner.arg`."),
    "LOAD_METHOD": _op(
        "owner -> method, owner",
        "`owner.arg`, ready for a call: the function and its `self`, or the value and NULL as PUSH_NULL places them.",
    ),
    "LOAD_SUPER_ATTR": _op(
        "super, class, self -> value",
        "3.12+: `super().name`, arg = (name, flags). Flag 1: as LOAD_METHOD does; 2: super had two arguments.",
        lambda arg: -1 if arg[1] & 1 else -2,
    ),
    "STORE_ATTR": _op("value, owner ->", "`owner.arg = value`."),
    "DELETE_ATTR": _op("owner ->", "`del owner.arg`."),
    # operators
    "UNARY_POSITIVE": _op("value -> result", "`+value`."),
    "UNARY_NEGATIVE": _op("value -> result", "`-value`."),
    "UNARY_INVERT": _op("value -> result", "`~value`."),
    "UNARY_NOT": _op("value -> bool", "`not value`, of any value."),
    "TO_BOOL": _op("value -> bool", "3.13: `bool(value)`. Jumps and UNARY_NOT test truth without it."),
    "BINARY_OP": _op("left, right -> result", "`left arg right`; arg is `'+'`, or `'+='` for the in-place form, ..."),
    "COMPARE_OP": _op("left, right -> result", "`left arg right`; arg is `'<'`, `'=='` ..."),
    "IS_OP": _op("left, right -> bool", "`left is right`, or `is not` if arg."),
    "CONTAINS_OP": _op("left, right -> bool", "`left in right`, or `not in` if arg."),
    "BINARY_SUBSCR": _op("owner, key -> value", "`owner[key]`."),
    "STORE_SUBSCR": _op("value, owner, key ->", "`owner[key] = value`."),
    "DELETE_SUBSCR": _op("owner, key ->", "`del owner[key]`."),
    # making and unpacking containers
    "BUILD_TUPLE": _many("values.. -> tuple", "Of `arg` values."),
    "BUILD_LIST": _many("values.. -> list", "Of `arg` values."),
    "BUILD_SET": _many("values.. -> set", "Of `arg` values."),
    "BUILD_MAP": _op("key, value.. -> dict", "Of `arg` pairs.", lambda count: 1 - 2 * count),
    "BUILD_CONST_KEY_MAP": _op("values.., keys -> dict", "Of `arg` values and a tuple of keys.", lambda count: -count),
    "BUILD_STRING": _many("strings.. -> string", "`arg` strings in one."),
    "BUILD_SLICE": _many("start, stop, step.. -> slice", "Of `arg` = 2 or 3 values."),
    "LIST_APPEND": _op("value ->", "Append it to the list that is then the `arg`th from the top."),
    "SET_ADD": _op("value ->", "Add it to the set that is then the `arg`th from the top."),
    "MAP_ADD": _op("key, value ->", "Set it in the dict that is then the `arg`th from the top."),
    "LIST_EXTEND": _op("values ->", "Extend the list that is then the `arg`th from the top."),
    "SET_UPDATE": _op("values ->", "Update the set that is then the `arg`th from the top."),
    "DICT_UPDATE": _op("mapping ->", "Update the dict that is then the `arg`th from the top."),
    "DICT_MERGE": _op("mapping ->", "The same for keyword arguments of a call: a key that is there is a TypeError."),
    "LIST_TO_TUPLE": _op("list -> tuple", "`tuple(list)`."),
    "UNPACK_SEQUENCE": _op("values -> last, .., first", "Exactly `arg` of them.", lambda count: count - 1),
    "UNPACK_EX": _op(
        "values -> after.., list, ..before",
        "`arg & 255` values before the starred one, `arg >> 8` after it.",
        lambda counts: (counts & 255) + (counts >> 8),
    ),
    "FORMAT_VALUE": _op(
        "value, spec? -> string",
        "Of an f-string. `arg & 3`: convert by str (1), repr (2), ascii (3) first; `arg & 4`: there is a spec.",
        lambda flags: -1 if flags & 4 else 0,
    ),
    "CONVERT_VALUE": _op("value -> string", "3.13: convert by str (arg 1), repr (2), ascii (3)."),
    # jumps
    "JUMP": _op("->", "Always, ahead or back."),
    "JUMP_BACKWARD_NO_INTERRUPT": _op("->", "Always; a signal is not handled here."),
    "POP_JUMP_IF_TRUE": _op("value ->", "Jump if `bool(value)`, of any value."),
    "POP_JUMP_IF_FALSE": _op("value ->", "Jump if not `bool(value)`, of any value."),
    "POP_JUMP_IF_NONE": _op("value ->", "Jump if `value is None`."),
    "POP_JUMP_IF_NOT_NONE": _op("value ->", "Jump if `value is not None`."),
    # iteration
    "GET_ITER": _op("values -> iterator", "`iter(values)`."),
    "FOR_ITER": _op("iterator -> iterator, value", "The next value; if there is none, drop the iterator and jump."),
    # functions and calls
    "CALL": _op(
        "callable, arguments.. -> result",
        "arg = (count, names): `count` arguments, the last of which are the keyword arguments `names`. Below them "
        "stand NULL, callable (3.13: callable, NULL), or method, self.",
        lambda arg: -1 - int(arg[0]),
    ),
    "CALL_FUNCTION_EX": _op(
        "callable, args, kwargs? -> result",
        "`callable(*args, **kwargs)`; with kwargs if `arg & 1`. NULL stands by the callable as in CALL.",
        lambda flags: -3 if flags & 1 else -2,
    ),
    "MAKE_FUNCTION": _op(
        "defaults?, kwdefaults?, annotations?, closure?, code -> function",
        "Flags 1, 2, 4, 8 of arg say which of the first four there are.",
        lambda flags: -int(flags).bit_count(),
    ),
    # exceptions; a handler is entered with its exception on top, see `Region`
    "RAISE_VARARGS": _op("exception?, cause? ->", "`raise` with `arg` = 0, 1 or 2 values.", lambda count: -count),
    "RERAISE": _op("exception ->", "Raise it again; with arg, as if at the index in the `arg`th slot below it."),
    "PUSH_EXC_INFO": _op("exception -> previous, exception", "It is now being handled; keep the one that was."),
    "POP_EXCEPT": _op("previous ->", "It is being handled again."),
    "CHECK_EXC_MATCH": _op("exception, type -> exception, bool", "Whether `except type` takes it."),
    "CHECK_EG_MATCH": _op("exception, type -> rest, match", "`except* type`; match is None if there is none."),
    "PREP_RERAISE_STAR": _op("exception, list -> exception", "What is left to raise after `except*`, or None."),
    # with
    "BEFORE_WITH": _op("manager -> exit, value", "Bind `__exit__`, call `__enter__`."),
    "WITH_EXCEPT_START": _op(
        "exit, lasti, previous, exception -> exit, lasti, previous, exception, result",
        "Call `exit` with the exception.",
    ),
    # import
    "IMPORT_NAME": _op("level, names -> module", "Import `arg`."),
    "IMPORT_FROM": _op("module -> module, value", "`from module import arg`."),
    "IMPORT_STAR": _op("module ->", "3.11: `from module import *`."),
    # match
    "GET_LEN": _op("subject -> subject, length", "`len(subject)`."),
    "MATCH_MAPPING": _op("subject -> subject, bool", "Whether it is a mapping."),
    "MATCH_SEQUENCE": _op("subject -> subject, bool", "Whether it is a sequence."),
    "MATCH_KEYS": _op("subject, keys -> subject, keys, values", "The values as a tuple, or None."),
    "MATCH_CLASS": _op("subject, type, names -> attributes", "As a tuple, `arg` of them positional, or None."),
    # generators and coroutines
    "YIELD_VALUE": _op("value -> sent", "Suspend. From 3.12 on arg is the number of enclosing handlers."),
    "GET_YIELD_FROM_ITER": _op("values -> iterator", "`iter(values)`; generators stay, coroutines if allowed."),
    "SEND": _op(
        "receiver, value -> receiver, yielded",
        "If the receiver is done, push its result instead and jump; 3.11 drops the receiver then, from 3.12 on "
        "END_SEND does.",
    ),
    "END_SEND": _op("receiver, result -> result", "3.12+: the end of `yield from` and `await`."),
    "CLEANUP_THROW": _op(
        "receiver, value, exception -> None, result", "3.12+: take the result of a StopIteration, or raise it again."
    ),
    "GET_AWAITABLE": _op("value -> iterator", "What `await` iterates; arg 1, 2: of `__aenter__`, `__aexit__`."),
    "GET_AITER": _op("values -> iterator", "`aiter(values)`."),
    "GET_ANEXT": _op("iterator -> iterator, awaitable", "Of `anext(iterator)`."),
    "END_ASYNC_FOR": _op("iterator, exception ->", "Drop both if it is StopAsyncIteration, or raise it again."),
    "BEFORE_ASYNC_WITH": _op("manager -> exit, awaitable", "Bind `__aexit__`, call `__aenter__`."),
    "ASYNC_GEN_WRAP": _op("value -> wrapped", "What an async generator yields."),
    # rarely seen
    "PRINT_EXPR": _op("value ->", "3.11: `sys.displayhook(value)`."),
    "CALL_INTRINSIC_1": _op(
        "value -> result",
        "3.12+: arg names it: PRINT, IMPORT_STAR, STOPITERATION_ERROR, TYPEVAR, PARAMSPEC, TYPEVARTUPLE, "
        "SUBSCRIPT_GENERIC, TYPEALIAS.",
    ),
    "CALL_INTRINSIC_2": _op(
        "left, right -> result",
        "3.12+: arg names it: TYPEVAR_WITH_BOUND, TYPEVAR_WITH_CONSTRAINTS, SET_FUNCTION_TYPE_PARAMS, "
        "SET_TYPEPARAM_DEFAULT.",
    ),
}
"""All of them, by name."""
