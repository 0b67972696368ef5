"""Every function of the standard library survives decoding and encoding."""

import sys
import traceback
import types

import pytest
from bodies import code_objects, nested, numbered, same

from dynajit.bytecode import INSTRUCTIONS, Code, Instr, Label, decode, encode, flow

FOLDERS = ("", "asyncio", "collections", "concurrent/futures", "email", "importlib", "json", "logging", "unittest")
KEPT = [
    "co_argcount",
    "co_posonlyargcount",
    "co_kwonlyargcount",
    "co_varnames",
    "co_cellvars",
    "co_freevars",
    "co_flags",
    "co_name",
    "co_qualname",
    "co_filename",
    "co_firstlineno",
    "co_nlocals",
]


@pytest.mark.parametrize("folder", [*FOLDERS, pytest.param("test", marks=pytest.mark.slow)])
def test_standard_library(folder):
    for original in code_objects(folder):
        code = decode(original)
        again = encode(code)
        where = f"{original.co_filename}:{original.co_firstlineno} {original.co_qualname}"
        assert same(numbered(decode(again)), numbered(code)), where
        assert [getattr(again, name) for name in KEPT] == [getattr(original, name) for name in KEPT], where
        assert again.co_consts[:1] == (original.co_consts[:1] or (None,)), where
        assert again.co_stacksize >= original.co_stacksize, where
        check_stack(original, code, where)


def check_stack(original: types.CodeType, code: Code, where: str) -> None:
    """What the interpreter itself asserts in a debug build, asked of our analysis."""
    depths, saved = flow.stack_depths(code), flow.exception_slots(code)
    for index, depth in depths.items():
        item = code.body[index]
        if isinstance(item, Label):
            continue
        if item.op == "RETURN_VALUE":
            assert (depth, saved[index]) == (1, ()), where
        elif item.op == "POP_EXCEPT":  # of the saved exception itself, or of a copy: COPY 3, POP_EXCEPT, RERAISE 1
            copied = code.body[index - 1] == Instr("COPY", 3, position=item.position)
            assert saved[index][-1] == depth - (4 if copied else 1), where
    # One slot more may go to the names of keyword arguments; fewer are needed where handlers cannot be reached.
    assert flow.deepest(code) <= original.co_stacksize + 1, where


def test_all_instructions_are_listed():
    seen = {
        item.op
        for folder in ("", "asyncio", "unittest")
        for original in code_objects(folder)
        for item in decode(original).body
        if isinstance(item, Instr)
    }
    assert seen <= INSTRUCTIONS.keys()


def test_same_number_of_rows_in_the_exception_table():
    for original in code_objects("asyncio"):
        again = decode(encode(decode(original)))
        assert len(again.regions) == len(decode(original).regions)


# ---- what a debugger or a traceback sees ----


def lines_traced(fn):
    events = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name != fn.__name__:
            return None
        events.append((event, frame.f_lineno - fn.__code__.co_firstlineno))
        return tracer

    sys.settrace(tracer)
    try:
        fn(3)
    finally:
        sys.settrace(None)
    return events


def rebuilt(fn):
    return types.FunctionType(encode(decode(fn.__code__)), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


# fmt: off
def mixed(n):
    total = 0
    for i in range(n):
        try:
            if i == 1:
                raise KeyError(
                    i,
                )
            total += i
        except KeyError as error:
            total += len(
                error.args
            )
        finally:
            total += 1
    while total < 20 and (
        n
    ):
        total = (
            total
            + n
        )
        if total % 2: continue  # noqa: E701
        total += 1
    with open(__file__) as file:
        first = file.readline()
    return [
        (x, first)
        for x in range(total)
        if x
    ]


# fmt: on


def test_line_events_are_the_same():
    assert lines_traced(rebuilt(mixed)) == lines_traced(mixed)


# fmt: off
def raises(n):
    values = {"a": n}
    return values["a"] + (
        n.missing + 1
    ) + values["b"]


# fmt: on


def test_traceback_is_the_same():
    shown = []
    for fn in (raises, rebuilt(raises)):
        with pytest.raises(AttributeError) as caught:
            fn(1)
        shown.append(traceback.format_exception(caught.value)[2:])
    assert shown[0] == shown[1]
    assert "n.missing" in shown[0][0]


def test_positions_hold_for_every_code_unit_of_an_instruction():
    for original in nested(mixed.__code__):
        again = encode(decode(original))
        positions = [*again.co_positions()]
        assert len(positions) == len(again.co_code) // 2
        assert set(positions) <= {*original.co_positions()}


def test_generator_expression_in_a_class_body():
    source = "class A:\n  x = 3\n  y = [x for x in range(x)]\n  def f(self): return __class__\n"
    module = compile(source, "made.py", "exec")
    for original in nested(module):
        assert same(numbered(decode(encode(decode(original)))), numbered(decode(original)))


def test_a_name_that_is_both_free_and_bound_by_a_comprehension():
    x = 1

    def fn():
        a = x
        functions = [lambda: x for x in range(3)]  # noqa: B023
        return [f() for f in functions], a

    assert fn() == rebuilt(fn)()
    assert same(numbered(decode(encode(decode(fn.__code__)))), numbered(decode(fn.__code__)))
