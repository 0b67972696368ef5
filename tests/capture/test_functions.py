"""Calls of user functions: arguments, closures, recursion, lambdas, partial, methods, generators."""

import functools
import itertools
import operator

import torch
from programs import T, program


def helper(x, y=2, *args, scale=1.0, **kwargs):
    return x * y * scale + sum(args) + kwargs.get("shift", 0)


@program(T(3))
def all_kinds_of_arguments(x):
    return helper(x), helper(x, 3, 4, 5), helper(x, scale=2.0), helper(x, y=1, shift=7), helper(*[x, 1], **{"scale": 3})


def outer(n):
    def inner(x):
        return x * n

    return inner


times_three = outer(3)


@program(T(3))
def closures(x):
    count = 0

    def add(y):
        nonlocal count
        count += 1
        return x + y + count

    return add(1), add(2), times_three(x), count


@program(T(3))
def a_closure_that_escapes(x):
    n = 5

    def inner(y):
        return y * n

    return inner(x), inner


@program(T(3), 4)
def recursion(x, n):
    def power(k):
        return x if k == 0 else power(k - 1) * x

    return power(n)


@program(T(3))
def lambdas_and_partials(x):
    double = lambda v: v * 2  # noqa: E731
    add = functools.partial(operator.add, x)
    fs = [lambda v, i=i: v * i for i in range(3)]
    return double(x), add(1), fs[2](x), functools.reduce(lambda a, b: a * b, [x, x, x]), list(map(double, [1, 2]))


def squares(n):
    for i in range(n):
        yield i * i
    return "done"


def delegating(n):
    result = yield from squares(n)
    yield result


@program(T(3))
def generators_consumed_inside(x):
    total = x
    for i in squares(4):
        total = total + i
    g = delegating(2)
    return total, list(g), next(iter([5])), tuple(squares(2))


def decorate(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs) + 1

    return wrapper


@decorate
def decorated(x):
    return x * 2


@program(T(3))
def decorated_functions(x):
    return decorated(x)


@torch.no_grad()
def without_grad(x):
    return x * 2


@program(T(3, grad=True))
def a_no_grad_decorator(x):
    return without_grad(x), x * 2


@program(T(3), graphs=1, breaks="DJ-B009")
def wrong_arguments_raise(x):
    try:
        return helper(x, nonsense=1, y=1), squares(1, 2)
    except TypeError as error:
        return x, "squares" in str(error)


@program([T(3), T(3, seed=1)])
def star_arguments_with_a_list(xs):
    return torch.stack([*xs]), max(*[1, 2])


@program(T(3), kwargs={"y": 3, "z": T(3, seed=2)})
def keyword_arguments(x, *args, y, z, **rest):
    return x * y + z + len(args) + len(rest)


@program(T(3), 1, 2, kwargs={"k": 5})
def variable_arguments(x, *args, **kwargs):
    return x * args[0] + args[-1] + kwargs["k"]


@program(T(3), graphs=0)
def what_is_callable(x):
    return x, [callable(v) for v in (3, "a", None, x, len, helper, list, [], lambda: 1, float)]


@program(T(3))
def iterators_are_not_read_ahead(x):
    it = iter([1, 2, 3, 4])
    first = next(itertools.chain(it, [9]))
    return x * first, list(it), list(itertools.chain([1], (2,))), list(itertools.islice([1, 2, 3], 2))
