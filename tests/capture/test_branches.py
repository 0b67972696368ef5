"""Branches and loops on Python values; branches on tensors break and both ways are compiled.

PYTEST_DONT_REWRITE: the assertions in here are part of the programs.
"""

import torch
from programs import T, program


@program(T(3), True)
def an_if_on_an_argument(x, flag):
    if flag:
        x = x + 1
    else:
        x = x - 1
    return x


@program(T(3), None, graphs=0)
def none_as_a_default(x, y):
    return x if y is None else x + y


@program(T(3), 4)
def loops_are_unrolled(x, n):
    for i in range(n):
        if i == 2:
            continue
        x = x + i
    else:
        x = x * 2
    while n > 0:
        x = x + n
        n -= 1
        if n == 1:
            break
    return x


@program(T(3), "b")
def a_match_on_strings(x, mode):
    if mode == "a":
        return x
    elif mode in ("b", "c"):
        return x * 2
    return x * 3


@program(T(3), graphs=2, breaks="DJ-D001")
def a_branch_on_a_tensor(x):
    y = x * 2
    if y.sum() > 100:
        return y + 1
    return y - 1


@program(T(3), graphs=(2, 3), breaks="DJ-D001 DJ-D001 | DJ-D001 DJ-D001 DJ-D001")  # 3.12 tests twice in a while
def a_while_loop_on_a_tensor(x):
    x = x.abs() + 1
    while x.sum() < 100:
        x = x * 2
    return x


@program(T(3))
def conditional_expressions_and_boolean_operators(x):
    n = x.shape[0]
    a = n and 5 or 7
    b = 0 or None or 3
    return x * (a if n > 2 else b) + (n == 3 and 1)


@program(T(2, 3), [1, 2, 3])
def a_loop_over_a_list(x, numbers):
    for i, n in enumerate(numbers):
        x = x + i * n
    for a, b in zip(numbers, reversed(numbers)):
        x = x * a + b
    return x


@program(T(4, 3))
def a_loop_over_a_tensor(x):
    total = torch.zeros(3)
    for row in x:
        total = total + row
    return total


@program(T(3))
def assertions_that_hold(x):
    assert x.shape == (3,), "three"
    assert isinstance(x, torch.Tensor)
    return x + 1


@program(T(3), graphs=1, breaks="DJ-B009")
def an_assertion_that_fails(x):
    y = x + 1
    assert y.shape[0] == 4, f"got {y.shape[0]}"
    return y


class Shape:
    __match_args__ = ("w", "h")

    def __init__(self, w, h):
        self.w, self.h = w, h


def area(shape):
    match shape:
        case Shape(w, h=0):
            return w
        case Shape(w, h):
            return w * h
        case [a, *rest] if len(rest) > 1:
            return a + len(rest)
        case {"side": s, **more}:
            return s * s + len(more)
        case int() | float() as n:
            return n
        case "none" | None:
            return 0
        case _:
            return -1


@program(T(3))
def the_match_statement(x):
    shapes = [Shape(2, 3), Shape(4, 0), [1, 2, 3], (1, 2), {"side": 3, "k": 1}, 5, 2.5, "none", None, x]
    return [x * area(shape) for shape in shapes]
