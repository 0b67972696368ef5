"""Bodies that no compiler would write: jumps in any direction, moved loops, odd constants, very long code."""

import dataclasses
import dis
import itertools

import pytest
from bodies import body, function

from dynajit.bytecode import Code, Instr, Label, Region, decode, emit, encode

RETURN = Instr("RETURN_VALUE")


def load(name):
    return Instr("LOAD_FAST", name)


def store(name):
    return Instr("STORE_FAST", name)


def const(value):
    return Instr("LOAD_CONST", value)


# ---- jumps ----


@pytest.mark.parametrize(
    ("condition", "values", "kept"),
    [
        ("TRUE", [3, "a", [], 5], ["a", []]),
        ("FALSE", [0, "", [], 5, 0], ["", [], 5]),
        ("NONE", [None, None, 0, None], [None, 0]),
        ("NOT_NONE", [1, 0, None, 2], [0, None]),
    ],
)
def test_conditional_jump_back(condition, values, kept):
    """Pop the first of the values while the condition holds for it."""
    again = Label()
    code = body(
        again,
        load("x"),
        Instr("LOAD_METHOD", "pop"),
        const(0),
        Instr("CALL", (1, ())),
        Instr(f"POP_JUMP_IF_{condition}", target=again),
        load("x"),
        RETURN,
        args="x",
    )
    wanted = {"TRUE": bool, "FALSE": lambda v: not v, "NONE": lambda v: v is None, "NOT_NONE": lambda v: v is not None}
    expected = [*itertools.dropwhile(wanted[condition], values)][1:]
    given = [*values]
    assert function(code)(given) == expected
    ops = [instr.opname for instr in dis.get_instructions(encode(code))]
    assert not any("FORWARD" in op and "IF" in op for op in ops)
    assert function(decode(encode(code)))([*values]) == expected


def test_unconditional_jumps_both_ways():
    first, second, third = Label(), Label(), Label()
    code = body(
        Instr("JUMP", target=second),
        first,
        const("end"),
        Instr("JUMP_BACKWARD_NO_INTERRUPT", target=third),
        second,
        Instr("JUMP", target=first),
        third,
        RETURN,
    )
    assert function(code)() == "end"


# ---- loops ----


def numbers():
    yield from range(3)


ITERABLES = [range(3), [0, 1, 2], (0, 1, 2), (n for n in range(3)), {0: 0, 1: 1, 2: 2}, iter([0, 1, 2])]


def summing(loop, done):
    """Sum x into s: FOR_ITER to `done`."""
    return [
        loop,
        Instr("FOR_ITER", target=done),
        load("s"),
        Instr("BINARY_OP", "+"),
        store("s"),
        Instr("JUMP", target=loop),
    ]


@pytest.mark.parametrize("iterable", ITERABLES, ids=lambda it: type(it).__name__)
def test_loop_that_ends_behind_it(iterable):
    loop, done, start = Label(), Label(), Label()
    code = body(
        Instr("JUMP", target=start),
        done,
        load("s"),
        RETURN,
        start,
        const(0),
        store("s"),
        load("x"),
        Instr("GET_ITER"),
        *summing(loop, done),
        args="x",
        varnames="s",
    )
    assert function(code)(iterable) == 3


def test_hot_loops_over_generators_end_where_they_should():
    """Specialised instructions return from the generator right to the end markers."""
    loop, done, start = Label(), Label(), Label()
    back = [Instr("JUMP", target=start), done, load("s"), RETURN, start]
    init = [const(0), store("s"), load("x"), Instr("GET_ITER")]
    ahead = [*init, *summing(loop, done), done, load("s"), RETURN]
    for items in ([*back, *init, *summing(loop, done)], ahead):
        run = function(body(*items, args="x", varnames="s"))
        assert {run(numbers()) for _ in range(300)} == {3}


def test_loops_that_share_their_end():
    first, second, done, other = Label(), Label(), Label(), Label()
    code = body(
        const(0),
        store("s"),
        load("y"),
        Instr("POP_JUMP_IF_TRUE", target=other),
        load("x"),
        Instr("GET_ITER"),
        *summing(first, done),
        other,
        load("y"),
        Instr("GET_ITER"),
        *summing(second, done),
        done,
        load("s"),
        RETURN,
        args="x y",
        varnames="s",
    )
    run = function(code)
    assert (run([1, 2], []), run([1, 2], [5])) == (3, 5)


def test_the_end_of_a_loop_is_reached_by_falling_and_by_jumping():
    """With x None, by the jump; with x empty, by the loop; with x False, by falling into it."""
    loop, done, fall = Label(), Label(), Label()
    code = body(
        const(0),
        store("s"),
        load("x"),
        Instr("POP_JUMP_IF_NONE", target=done),
        load("x"),
        const(False),
        Instr("IS_OP", 0),
        Instr("POP_JUMP_IF_TRUE", target=fall),
        load("x"),
        Instr("GET_ITER"),
        *summing(loop, done),
        fall,
        const(7),
        store("s"),
        done,
        load("s"),
        RETURN,
        args="x",
        varnames="s",
    )
    run = function(code)
    assert [run(None), run([]), run([1, 2]), run(False)] == [0, 0, 3, 7]
    assert function(decode(encode(code)))([1, 2]) == 3


def test_another_label_at_the_end_of_a_loop():
    loop, alias, done = Label(), Label(), Label()
    code = body(
        const(0),
        store("s"),
        load("x"),
        Instr("POP_JUMP_IF_NONE", target=alias),
        load("x"),
        Instr("GET_ITER"),
        *summing(loop, done),
        alias,
        done,
        load("s"),
        RETURN,
        args="x",
        varnames="s",
    )
    run = function(code)
    assert [run(None), run([1, 2])] == [0, 3]


def loops(x):
    total = 0
    for a in x:
        for b in x:
            if b > a:
                break
            total += a * b
        else:
            total += 100
    return total


def test_a_loop_without_its_for_iter():
    """The FOR_ITER is replaced by dropping the iterator: the place it went to is an ordinary place."""
    code = decode(loops.__code__)
    at = next(index for index, item in enumerate(code.body) if isinstance(item, Instr) and item.op == "FOR_ITER")
    target = code.body[at].target
    code.body[at : at + 1] = [Instr("POP_TOP"), Instr("JUMP", target=target)]
    assert function(code)([1, 2, 3]) == 0


# ---- any part of the body first ----


def delegating(x):
    for part in (x, x):
        yield (yield from part)
    yield [a for a in x if a is not None or not x]


async def waiting(x):
    out = []
    for part in x:
        out.append(await finished(part))
    return out


async def finished(value):
    return value * 2


def run_coroutine(coroutine):
    with pytest.raises(StopIteration) as done:
        coroutine.send(None)
    return done.value.value


def rotated(code, cut):
    """The same code with the part behind `cut` first. Handlers are left out: a region cannot span the cut."""
    prologue = [item for item in code.body[:4] if isinstance(item, Instr) and item.op == "RETURN_GENERATOR"]
    rest = [item for item in code.body if item not in prologue]
    start, middle = Label(), Label()
    to_start, to_middle = Instr("JUMP", target=start), Instr("JUMP", target=middle)
    body = [*prologue, to_start, middle, *rest[cut:], start, *rest[:cut], to_middle]
    return dataclasses.replace(code, body=body, regions=[])


@pytest.mark.parametrize(
    ("fn", "use"),
    [(loops, lambda result: result), (delegating, list), (waiting, run_coroutine)],
    ids=["loops", "yield from", "await"],
)
def test_any_part_of_a_body_may_stand_first(fn, use):
    code = decode(fn.__code__)
    for cut in range(1, len(code.body) - 1):
        run = function(rotated(code, cut), globals())
        assert use(run([1, 2, 3])) == use(fn([1, 2, 3])), cut


# ---- constants ----


def test_constants_are_not_merged():
    values = [0.0, -0.0, 0, False, 1, True, 1.0, 1j, "1", b"1", (0.0,), (-0.0,), (0,), (False,), None, float("nan")]
    code = body(*(const(value) for value in values), Instr("BUILD_TUPLE", len(values)), RETURN)
    got = function(code)()
    assert all(a is b for a, b in zip(got, values, strict=True))


def test_any_object_is_a_constant():
    class Odd:
        __hash__ = None

        def __eq__(self, other):
            raise AssertionError("compared")

    odd, items = Odd(), [1]
    code = body(const(odd), const(items), const(odd), Instr("BUILD_TUPLE", 3), RETURN)
    got = function(code)()
    assert got[0] is odd
    assert got[1] is items
    assert len(encode(code).co_consts) == 3  # None, and each of them once


def test_the_first_constant_is_no_docstring_by_accident():
    assert function(body(const("text"), RETURN)).__doc__ is None


def documented():
    """Text."""


def test_a_docstring_stays():
    assert function(decode(documented.__code__)).__doc__ == "Text."


# ---- long code ----


@pytest.mark.parametrize("size", [50, 300, 30_000])
def test_jumps_over_long_code(size):
    """250 bytes, more than 255 units, more than 65,535 units: no, one and two EXTENDED_ARG."""
    loop, done, skipped = Label(), Label(), Label()
    step = [load("s"), const(1), Instr("BINARY_OP", "+"), store("s")]
    code = body(
        const(0),
        store("s"),
        load("x"),
        Instr("GET_ITER"),
        loop,
        Instr("FOR_ITER", target=done),
        Instr("POP_JUMP_IF_NONE", target=skipped),
        *(step * size),
        skipped,
        Instr("JUMP", target=loop),
        done,
        load("s"),
        RETURN,
        args="x",
        varnames="s",
    )
    assert function(code)([1, None, 2]) == 2 * size


@pytest.mark.parametrize("distance", range(225, 275))
def test_the_distance_at_which_a_jump_grows(distance):
    """Two jumps over each other's ends: one that grows may make the other grow."""
    first, second = Label(), Label()
    code = body(
        load("x"),
        Instr("POP_JUMP_IF_NONE", target=second),
        Instr("JUMP", target=first),
        *[Instr("NOP")] * distance,
        first,
        const("first"),
        RETURN,
        second,
        const("second"),
        RETURN,
        args="x",
    )
    run = function(code)
    assert (run(1), run(None)) == ("first", "second")


def test_many_locals_and_constants():
    names = [f"v{number}" for number in range(400)]
    items = []
    for number, name in enumerate(names):
        items += [const(float(number)), store(name)]
    items += [*(load(name) for name in names), Instr("BUILD_TUPLE", len(names)), RETURN]
    code = body(*items, varnames=" ".join(names))
    assert function(code)() == tuple(float(number) for number in range(400))


# ---- the stack ----


def test_paths_that_disagree_on_the_stack_are_refused():
    place = Label()
    code = body(load("x"), Instr("POP_JUMP_IF_TRUE", target=place), const(1), place, const(2), RETURN, args="x")
    with pytest.raises(ValueError, match="on the stack"):
        encode(code)


def test_a_region_added_around_a_call():
    start, end, handler = Label(), Label(), Label()
    caught = [Instr("PUSH_EXC_INFO"), Instr("POP_TOP"), Instr("POP_EXCEPT"), const("caught"), RETURN]
    code = body(
        const("below"),
        start,
        *emit.push_callable([load("f")]),
        *emit.call(0),
        end,
        Instr("BUILD_TUPLE", 2),
        RETURN,
        handler,
        *caught[:3],
        *caught[3:4],
        Instr("BUILD_TUPLE", 2),
        RETURN,
        args="f",
        regions=(Region(start, end, handler, 1, False),),
    )

    def fail():
        raise ValueError

    assert function(code)(int) == ("below", 0)
    assert function(code)(fail) == ("below", "caught")


# ---- emit ----


def test_calls_with_positional_and_keyword_arguments():
    def target(*args, **kwargs):
        return args, kwargs

    code = body(
        *emit.push_callable(emit.load_global("target")),
        *emit.const(1),
        *emit.load("x"),
        *emit.const(3),
        *emit.call(3, ["b"]),
        *emit.store("y"),
        *emit.push_callable(emit.const(target)),
        *emit.load("y"),
        *emit.call(1),
        RETURN,
        args="x",
        varnames="y",
    )
    assert function(code, {"target": target})(2) == ((((1, 2), {"b": 3}),), {})


def test_cells():
    code = body(
        *emit.const(5),
        *emit.store_deref("c"),
        *emit.load_cell("c"),
        *emit.load_deref("c"),
        Instr("BUILD_TUPLE", 2),
        RETURN,
    )
    code.cellvars.append("c")
    code.body.insert(0, Instr("MAKE_CELL", "c"))
    cell, value = function(code)()
    assert (cell.cell_contents, value) == (5, 5)


def test_positioned():
    (instr,) = emit.positioned(emit.const(1), (3, 3, 0, 1))
    assert instr.position == (3, 3, 0, 1)
    assert isinstance(body(instr), Code)
