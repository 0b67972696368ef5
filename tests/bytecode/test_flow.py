"""What the analysis says of bodies: depths, handlers, reachability, live and bound names."""

import inspect

import pytest
from bodies import body

from dynajit.bytecode import Instr, Label, Region, decode, flow

RETURN = Instr("RETURN_VALUE")


def load(name):
    return Instr("LOAD_FAST", name)


def store(name):
    return Instr("STORE_FAST", name)


def const(value):
    return Instr("LOAD_CONST", value)


def by_line(fn, facts, op):
    """From each line of `fn`, counted from its def, to what `facts` says before its first reachable `op`."""
    code = decode(fn.__code__)
    said, out = facts(code), {}
    for index, item in enumerate(code.body):
        if index in said and isinstance(item, Instr) and item.op == op and item.position.line is not None:
            out.setdefault(item.position.line - code.firstlineno, said[index])
    return out


# ---- control ----


def test_successors_and_reachability():
    done, handler, dead = Label(), Label(), Label()
    code = body(
        load("x"),  # 1
        Instr("POP_JUMP_IF_TRUE", target=done),  # 2
        Instr("RAISE_VARARGS", 0),  # 3
        dead,  # 4
        Instr("JUMP", target=dead),  # 5
        done,  # 6
        const(None),  # 7
        RETURN,  # 8
        handler,  # 9
        Instr("RERAISE", 0),  # 10
        args="x",
    )
    assert flow.successors(code) == [(1,), (2,), (3, 6), (), (5,), (4,), (7,), (8,), (), (10,), ()]
    assert flow.reachable(code) == {0, 1, 2, 3, 6, 7, 8}
    assert flow.reachable(code, [4]) == {4, 5}
    code.regions.append(Region(code.body[6], code.body[9], handler, 0, False))
    assert flow.reachable(code) == {0, 1, 2, 3, 6, 7, 8, 9, 10}
    assert flow.reachable(code, [7, 4]) == {4, 5, 7, 8, 9, 10}


def test_a_handler_of_labels_only_is_not_reached():
    start, end, handler = Label(), Label(), Label()
    code = body(const(1), RETURN, start, end, handler, RETURN, regions=(Region(start, end, handler, 0, False),))
    assert flow.reachable(code) == {0, 1, 2}


def test_depths_through_handlers():
    start, end, handler = Label(), Label(), Label()
    code = body(
        const(1),
        start,
        load("x"),
        Instr("GET_LEN"),
        end,
        Instr("BUILD_TUPLE", 3),
        RETURN,
        handler,
        Instr("BUILD_TUPLE", 3),
        RETURN,
        args="x",
        regions=(Region(start, end, handler, 1, True),),
    )
    assert flow.stack_depths(code) == {0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 5: 3, 6: 3, 7: 1, 8: 3, 9: 3, 10: 1}
    assert flow.deepest(code) == 3


# ---- exceptions being handled ----


def handlers(x, y):
    try:
        x = 1
    except KeyError as error:
        y = error
        try:
            y = 3
        except ValueError:
            y = 4
        finally:
            y = 5
        with x:
            y = 6
        for y in x:  # noqa: B007
            return 7
    finally:
        x = 8
    return x


def test_how_many_exceptions_are_being_handled():
    depths = by_line(handlers, flow.handler_depth, "STORE_FAST")
    assert {line: depth for line, depth in depths.items() if line != 14} == {
        2: 0,
        3: 1,
        4: 1,
        6: 1,
        8: 2,
        10: 1,
        12: 1,
        13: 1,
        16: 0,
    }
    assert set(by_line(handlers, flow.handler_depth, "RETURN_VALUE").values()) == {0}


def finals(x):
    try:
        return x.first
    finally:
        x.second()


def test_saved_exceptions_are_where_the_analysis_says():
    """A finally block stands twice: after a return, whose value is on the stack, and after an exception."""
    code = decode(finals.__code__)
    slots, depths = flow.exception_slots(code), flow.stack_depths(code)
    second = [index for index, item in enumerate(code.body) if isinstance(item, Instr) and item.arg == "second"]
    pushed = [index for index, item in enumerate(code.body) if isinstance(item, Instr) and item.op == "PUSH_EXC_INFO"]
    assert [slots[index] for index in second] == [(), (depths[pushed[0]] - 1,)]


def test_saved_exceptions_move_with_a_swap():
    start, end, handler = Label(), Label(), Label()
    code = body(
        start,
        Instr("RAISE_VARARGS", 0),
        end,
        handler,
        Instr("PUSH_EXC_INFO"),
        Instr("SWAP", 2),
        Instr("POP_EXCEPT"),
        RETURN,
        regions=(Region(start, end, handler, 0, False),),
    )
    slots = flow.exception_slots(code)
    assert [slots[index] for index in range(5, 9)] == [(), (0,), (1,), ()]


# ---- locals ----


def test_live_names():
    loop, done = Label(), Label()
    code = body(
        load("x"),  # 1
        Instr("GET_ITER"),  # 2
        loop,  # 3
        Instr("FOR_ITER", target=done),  # 4
        store("i"),  # 5
        load("i"),  # 6
        store("s"),  # 7
        Instr("JUMP", target=loop),  # 8
        done,  # 9
        load("s"),  # 10
        RETURN,  # 11
        args="x y s",
        varnames="i",
    )
    live = flow.liveness(code)
    assert [sorted(names) for names in live] == [
        ["s", "x"],
        ["s", "x"],
        ["s"],
        ["s"],
        ["s"],
        [],
        ["i"],
        [],
        ["s"],
        ["s"],
        ["s"],
        [],
    ]


def test_names_read_by_a_handler_are_live_where_it_may_be_entered():
    start, end, handler = Label(), Label(), Label()
    code = body(
        const(1),  # 1
        store("a"),  # 2
        start,  # 3
        const(2),  # 4
        store("a"),  # 5
        end,  # 6
        const(None),  # 7
        RETURN,  # 8
        handler,  # 9
        load("a"),  # 10
        RETURN,
        varnames="a",
        regions=(Region(start, end, handler, 0, False),),
    )
    live = flow.liveness(code)
    assert [index for index, names in enumerate(live) if names] == [3, 4, 5, 9, 10]


def cells(x, y):
    def inner():
        return x

    y = inner
    del y
    return inner


def test_live_cells_and_deletions():
    code = decode(cells.__code__)
    live = flow.liveness(code)
    assert live[0] == {"x"}
    at = {item.op: index for index, item in enumerate(code.body) if isinstance(item, Instr)}
    assert live[at["DELETE_FAST"]] == {"y", "inner"}
    assert live[at["RETURN_VALUE"]] == set()


def test_bound_names():
    other, done = Label(), Label()
    code = body(
        load("x"),  # 1
        Instr("POP_JUMP_IF_TRUE", target=other),  # 2
        const(1),  # 3
        store("a"),  # 4
        Instr("DELETE_FAST", "x"),  # 5
        Instr("JUMP", target=done),  # 6
        other,  # 7
        const(1),  # 8
        store("b"),  # 9
        done,  # 10
        load("a"),  # 11
        RETURN,  # 12
        args="x",
        varnames="a b",
    )
    facts = flow.bound(code)
    assert facts[0] == flow.Bound(frozenset("x"), frozenset("x"))
    assert facts[5] == flow.Bound(frozenset("xa"), frozenset("xa"))
    assert facts[6] == flow.Bound(frozenset("a"), frozenset("a"))
    assert facts[11] == flow.Bound(frozenset(), frozenset("xab"))
    assert facts[12] == flow.Bound(frozenset("a"), frozenset("xab"))
    later = flow.bound(code, flow.Bound(frozenset("b"), frozenset("bx")), start=10)
    assert later == {
        10: flow.Bound(frozenset("b"), frozenset("bx")),
        11: flow.Bound(frozenset("b"), frozenset("bx")),
        12: flow.Bound(frozenset("ab"), frozenset("abx")),
    }


def test_bound_in_a_handler_is_what_held_before_any_covered_instruction():
    start, end, handler = Label(), Label(), Label()
    code = body(
        start,
        const(1),
        store("a"),
        const(2),
        store("b"),
        end,
        const(None),
        RETURN,
        handler,
        Instr("POP_TOP"),
        const(None),
        RETURN,
        varnames="a b",
        regions=(Region(start, end, handler, 0, False),),
    )
    assert flow.bound(code)[9] == flow.Bound(frozenset(), frozenset("a"))


def shadows(x, i):
    first = [j for j in x]  # noqa: C416
    i = i + 1
    second = [i for i in x if i]
    return first, second, i


def test_names_of_comprehensions_do_not_leak():
    """From 3.12 on they are locals of the function, put away and back around the comprehension."""
    code = decode(shadows.__code__)
    live, facts = flow.liveness(code), flow.bound(code)
    assert live[0] == {"x", "i"}
    end = max(index for index in facts if isinstance(code.body[index], Instr) and code.body[index].op == "RETURN_VALUE")
    names = frozenset(("x", "i", "first", "second"))
    assert facts[end] == flow.Bound(names, names)


def signature(a, /, b, *args, c, d=1, **kwargs):
    local = a
    return local


def test_arguments():
    assert flow.arguments(decode(signature.__code__)) == [*"abcd", "args", "kwargs"]
    code = body(const(1), RETURN, args="x")
    assert flow.arguments(code) == ["x"]
    code.flags |= inspect.CO_VARKEYWORDS
    code.varnames.append("more")
    assert flow.arguments(code) == ["x", "more"]


@pytest.mark.parametrize("fn", [handlers, finals, cells, signature])
def test_live_at_the_start_are_only_arguments(fn):
    code = decode(fn.__code__)
    assert flow.liveness(code)[0] <= {*flow.arguments(code)}
