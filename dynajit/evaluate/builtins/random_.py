"""Numbers of Python's `random`: drawn when the graph runs, from the module's own generator."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.graph import draws
from dynajit.symbol import unbacked
from dynajit.values.base import Value
from dynajit.values.constant import SymbolicNumber, plain
from dynajit.values.seeded import SEEDS, new_seeded


def _drawn(m: Machine, function: Any, args: tuple[Any, ...], cls: type) -> Value:
    """To draw is a write: a graph that has drawn is not run again."""
    node = m.record_effect(function, args, writes=True)
    return SymbolicNumber(node, unbacked(node, cls))


@builtin(random.random)
def random_random(m: Machine) -> Value:
    return _drawn(m, draws.draw_random, (), float)


@builtin(random.Random)
def random_generator(m: Machine, x: Value | None = None) -> Value:
    """A generator with a seed that is known: its numbers are, too."""
    seed = None if x is None else plain(m, x)
    if not isinstance(seed, SEEDS):
        raise GraphBreak(reasons.OPAQUE_CALL, "random.Random() without a seed that is known")
    return new_seeded(m, seed)


def _method(function: Any, draw: Any, cls: type, fits: Callable[..., bool]) -> None:
    """fits: whether these arguments are certain not to be refused."""

    @builtin(function)
    def run(m: Machine, owner: Value, *args: Value) -> Value:
        if getattr(owner, "obj", None) is not draws.MODULE:
            raise GraphBreak(reasons.OPAQUE_CALL, f"{function.__qualname__} of another generator")
        values = tuple(plain(m, arg) for arg in args)
        if not fits(*values):
            raise GraphBreak(reasons.OPAQUE_CALL, f"random.{function.__name__} with these arguments")
        return _drawn(m, draw, values, cls)


def _two_numbers(*values: Any) -> bool:
    return len(values) == 2 and all(type(value) in (int, float) for value in values)


def _a_range(*values: Any) -> bool:
    return len(values) == 2 and all(type(value) is int for value in values) and values[0] <= values[1]


_method(random.Random.uniform, draws.draw_uniform, float, _two_numbers)
_method(random.Random.gauss, draws.draw_gauss, float, _two_numbers)
_method(random.Random.normalvariate, draws.draw_normalvariate, float, _two_numbers)
_method(random.Random.randint, draws.draw_randint, int, _a_range)
