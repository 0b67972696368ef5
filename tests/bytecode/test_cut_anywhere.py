"""A function can be cut in two before any statement outside of an except block: run a part, hand over, go on."""

import contextlib
import dataclasses
import inspect
import types

import pytest

from dynajit.bytecode import Code, Instr, Label, decode, emit, encode, flow

PROLOGUE = ("MAKE_CELL", "COPY_FREE_VARS", "RESUME")


def cut_points(code: Code):
    """The index of each statement, and the depth of the stack there."""
    depths, handling = flow.stack_depths(code), flow.handler_depth(code)
    last = None
    for index, item in enumerate(code.body):
        if not isinstance(item, Instr) or item.op in PROLOGUE or item.position.line in (None, last):
            continue
        last = item.position.line
        if index in depths and handling[index] == 0 and item.op != "PUSH_EXC_INFO":
            yield index, depths[index]


def head(code: Code, at: int, depth: int) -> Code:
    """`code` up to `at`; then it returns the stack and the locals."""
    leave = [
        Instr("BUILD_TUPLE", depth),
        *emit.push_callable(emit.load_global("locals")),
        *emit.call(0),
        Instr("BUILD_TUPLE", 2),
        Instr("RETURN_VALUE"),
    ]
    return dataclasses.replace(code, body=[*code.body[:at], *leave, *code.body[at:]])


def tail(code: Code, at: int, depth: int, names: list[str]) -> Code:
    """A function of the stack and of the named locals that goes on at `at`."""
    slots = [f"stack{number}" for number in range(depth)]
    here = Label()
    prologue = [item for item in code.body[:at] if isinstance(item, Instr) and item.op in PROLOGUE]
    entry = [*prologue, *(load for slot in slots for load in emit.load(slot)), Instr("JUMP", target=here)]
    params = [*slots, *names]
    return dataclasses.replace(
        code,
        body=[*entry, *code.body[:at], here, *code.body[at:]],
        flags=code.flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
        argcount=len(params),
        posonlyargcount=0,
        kwonlyargcount=0,
        varnames=[*params, *(name for name in code.varnames if name not in params)],
    )


@contextlib.contextmanager
def note(log, name):
    log.append("enter " + name)
    try:
        yield name
    finally:
        log.append("exit " + name)


def loops(n, log):
    total = 0
    for i in range(n):
        for j in (10, 20):
            total += i * j
            if total > 60:
                break
        else:
            log.append(i)
    while total > 3:
        total //= 2
        if total == 7:
            continue
        log.append(total)
    return total, log


def withs(n, log):
    with note(log, "a"):
        x = n + 1
        with note(log, "b") as b:
            x = x * 2
            log.append(x)
        log.append(b)
    return x, log


def tries(n, log):
    out = []
    for k in (n, 0, 2):
        try:
            v = 12 // k
            out.append(v)
        except ZeroDivisionError:
            log.append("zero")
        finally:
            log.append("finally")
    return out, log


def caught(n, log):
    try:
        with note(log, "c"):
            log.append(1)
            y = n // 0
            log.append(y)
    except ZeroDivisionError as error:
        log.append(str(error))
    return log


def comprehensions(n, log):
    xs = [i * n for i in range(4) if i != 2]
    d = {x: x + 1 for x in xs}
    for k, v in d.items():
        log.append(k + v)
    return sum(xs), log


def closure(n, log):
    k = n

    def inner(z):
        return z + n

    w = inner(3)
    log.append(w)
    return inner(w) + k, log


def late(n, log):
    if n > 3:
        x = n
    log.append(n)
    del n
    try:
        log.append(n)  # noqa: F821
    except UnboundLocalError:
        log.append("unbound")
    return x, log


FUNCTIONS = [loops, withs, tries, caught, comprehensions, closure, late]


@pytest.mark.parametrize("all_names", [True, False], ids=["all locals", "live locals"])
@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_cut_before_each_statement(fn, all_names):
    code = decode(fn.__code__)
    live, bound = flow.liveness(code), flow.bound(code)
    points = [*cut_points(code)]
    reached = 0
    for at, depth in points:
        expected = fn(4, [])
        before = types.FunctionType(encode(head(code, at, depth)), globals(), closure=fn.__closure__)
        handed = before(4, [])
        if handed == expected:  # the statement is not reached with these arguments
            continue
        reached += 1
        stack, values = handed
        plain = {name for name in values if name not in code.cellvars}
        assert bound[at].definitely <= plain <= bound[at].maybe
        names = [name for name in values if all_names or name in live[at]]
        after = types.FunctionType(encode(tail(code, at, depth, names)), globals(), closure=fn.__closure__)
        assert after(*stack, *(values[name] for name in names)) == expected, at
    assert reached > len(points) / 2
