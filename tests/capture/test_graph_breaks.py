"""A graph break anywhere: the graph is split, the instruction runs natively, capture goes on."""

import contextlib

import torch
from programs import T, program

import dynajit

LOG = []


@program(T(3), graphs=2, breaks="DJ-B001")
def print_breaks_the_graph(x):
    x = x + 1
    print("between", x.shape)
    return x * 2


@program(T(3), graphs=2, breaks="DJ-B007")
def a_requested_break(x):
    x = x + 1
    dynajit.graph_break()
    return x * 2


@program(T(3), graphs=1, breaks="DJ-B001")
def a_break_before_any_operation(x):
    print("start")
    return x * 2


@program(T(3), graphs=1, breaks="DJ-B001")
def a_break_at_the_end(x):
    y = x * 2
    print("end")
    return y


@program(T(3), graphs=3, breaks="DJ-B001 DJ-B008 DJ-B001")
def a_break_inside_for(x):
    for i in range(5):
        x = x + 1
        print(i)
        x = x * 2
    return x


@program(T(3), graphs=2, breaks="DJ-B001 DJ-B001")
def a_break_inside_while(x):
    n = 0
    while n < 3:
        x = x + 1
        print("turn")
        n += 1
    return x


@program(T(3), graphs=2, breaks="DJ-B001")
def a_break_inside_try(x):
    try:
        x = x + 1
        print("trying")
        x = x * 2
    except ValueError:
        x = x * 100
    finally:
        x = x - 1
    return x


def noisy_failure(text):
    print(text)
    raise ValueError(text)


@program(T(3), graphs=2, breaks="DJ-B001 DJ-B001 DJ-B009")
def a_native_call_that_raises_inside_try(x):
    y = x + 1
    try:
        noisy_failure("oops")
    except ValueError as error:
        text = str(error)
    finally:
        y = y * 3
    return y + len(text), text


@program(T(3), graphs=2, breaks="DJ-B001")
def a_break_inside_except(x):
    x = x + 1
    try:
        raise ValueError("v")
    except ValueError as error:
        print("handling", error)
        x = x * 2
    return x * 3


class Manager:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, *error):
        self.log.append("exit" if error[0] is None else error[0].__name__)
        return error[0] is KeyError


@program(T(3))
def a_user_context_manager(x):
    log = []
    with Manager(log) as m:
        x = x + 1
        m.log.append("body")
    return x * 2, log


@program(T(3), graphs=2, breaks="DJ-B001")
def a_break_inside_with(x):
    log = []
    with Manager(log):
        x = x + 1
        print(log)
        x = x * 2
    return x, log


@program(T(3))
def a_context_manager_that_swallows(x):
    log = []
    with Manager(log):
        x = x + 1
        raise KeyError("k")
    return x * 2, log


@contextlib.contextmanager
def noted(log):
    log.append("in")
    try:
        yield 5
    finally:
        log.append("out")


@program(T(3))
def a_contextlib_manager(x):
    log = []
    x = x + 1
    with noted(log) as n:
        x = x * n
    return x, log


@program(T(3), graphs=2, breaks="DJ-B001")
def a_break_with_values_on_the_stack(x):
    return torch.add(x + 1, [x * 2, print("middle"), x * 3][0] + (x - 1))


@program(T(3, grad=True), graphs=2, breaks="DJ-B001")
def a_break_inside_no_grad(x):
    y = x * 2
    with torch.no_grad():
        z = y + 1
        print("inside", torch.is_grad_enabled())
        z = z * 3
    return y + z


@program(T(3), graphs=2, breaks="DJ-B001")
def cells_are_shared_across_a_break(x):
    n = 1

    def bump():
        nonlocal n
        n += 1
        return x * n

    a = bump()
    print(n)
    b = bump()
    n += 10
    return a, b, bump(), n


def breaks_inside(x):
    y = x + 1
    print("inlined")
    return y * 2


@program(T(3), graphs=3, breaks="DJ-B001 DJ-B001")
def a_break_in_an_inlined_function(x):
    """What stands before the break in both functions is one graph."""
    x = x * 3
    x = breaks_inside(x)
    return x - 1


def calls_what_breaks(x, *more, scale):
    y = x - 1
    return breaks_inside(y) * y * scale + more[0]


@program(T(3), graphs=4, breaks="DJ-B001 DJ-B001 DJ-B001")
def a_break_two_functions_deep(x):
    x, seen = x * 3, [1]
    y = calls_what_breaks(x, *[x], scale=2)
    seen.append(2)
    return y - 1, seen


def raises_inside(x):
    y = x * 2
    print("before")
    raise ValueError(f"{len(y)}")


@program(T(3), graphs=1, breaks="DJ-B001 DJ-B001 DJ-B009")
def an_error_behind_a_break_in_an_inlined_function(x):
    try:
        return raises_inside(x + 1)
    except ValueError as error:
        return x - 1, str(error)


@program(T(3), graphs=4, breaks="DJ-B001 DJ-B001 DJ-B001")
def a_closure_around_a_break(x):
    count = 0

    def inner(v):
        nonlocal count
        count += 1
        w = v + count
        print(count)
        count += 1
        return w * count

    return inner(inner(x)), count


def factorial(x, n):
    y = x + n
    if n == 0:
        print("end")
        return y
    return factorial(y, n - 1) * 2


@program(T(3), graphs=(2, 3, 4, 5, 6), breaks="DJ-B001 DJ-B001 DJ-B001")
def a_break_at_the_end_of_a_recursion(x):
    return factorial(x, 4) + 1


@program(T(3), graphs=4, breaks="DJ-B001 DJ-B001 DJ-B001")
def a_break_in_a_key_function_returns_to_sort(x):
    values = [3, 1, 2]

    def key(v):
        t = x * v
        print("key", v)
        return -v + 0 * len(t)

    values.sort(key=key)
    return values, x + 1


@program(T(3), graphs=2, breaks="DJ-D002")
def item_needs_the_data(x):
    n = (x * 0 + 2).sum().item()
    return x * n if n > 1 else x


@program(T(3), graphs=2, breaks="DJ-D003")
def a_mask(x):
    y = x + 1
    z = y[y > 0]
    return z * 2


@program(T(3), graphs=1, breaks="DJ-B001 DJ-B008 DJ-B001 DJ-B008 | DJ-B001 DJ-B008 DJ-B001")
def a_break_in_a_comprehension(x):
    xs = [print(i) for i in range(3)]
    return x * len(xs)


@program([1, 2, 3], T(2), graphs=2, breaks="DJ-B001 DJ-B008 DJ-B001 DJ-B008")
def iterators_live_across_a_break(xs, x):
    for i, (a, b) in enumerate(zip(xs, [x, x, x])):
        print(i)
        x = x + a * b
    return x


@program(T(3), graphs=1, breaks="DJ-B001")
def new_objects_live_across_a_break(x):
    d = {"a": [x]}
    alias = d["a"]
    d["self"] = alias
    print(len(d))
    alias.append(x + 1)
    return d, d["a"] is d["self"]


@program(T(3), graphs=2, breaks="DJ-B001")
def deleted_locals_stay_deleted(x):
    y = x + 1
    z = y * 2
    del y
    print("x")
    try:
        return y  # noqa: F821
    except UnboundLocalError as error:
        return z * 2, str(error)


@dynajit.disable
def disabled(x):
    return x.sum().item()


@program(T(3), graphs=2, breaks="DJ-B006")
def a_disabled_function(x):
    y = x + 1
    n = disabled(y)
    return y * n


@program(T(3), graphs=2, breaks="DJ-B013")
def locals_sees_the_users_variables(x):
    y = x + 1
    names = sorted(locals())
    return y * len(names), names


@program(T(3), graphs=2, breaks="DJ-B012")
def a_class_statement(x):
    y = x + 1

    class Local:
        n = 4

    return y * 4


def takes_one(fn, **options):
    if options:
        raise TypeError("no options")
    return fn


def tries_twice(fn):
    make = takes_one
    try:
        return make(fn, recursive=True)
    except TypeError:
        print("once more")
        return make(fn)


@program(T(3), graphs=1, breaks="DJ-B001 DJ-B001 DJ-B009")
def a_call_that_fails_natively_and_is_tried_again(x):
    def inner(a, b):
        return a + b

    return tries_twice(inner)(x, x)
