"""How a number of one recorded call follows from the sizes of its inputs, found by recording the call in two sizes."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

MOST = 3  # sizes in a product


@dataclass(frozen=True)
class Formula:
    """`of` sizes, by position, multiplied or summed, then times, over, plus numbers; a float is `above` over that."""

    of: tuple[int, ...]
    summed: bool = False
    times: int = 1
    over: int = 1
    plus: int = 0
    above: float | None = None

    def value(self, sizes: Sequence[int]) -> int | float:
        return self.build(list(sizes), lambda function, *numbers: function(*numbers))  # type: ignore[no-any-return]

    def build(self, sizes: Sequence[Any], apply: Callable[..., Any]) -> Any:
        """The formula by calls `apply(function, *numbers)`."""
        made = sizes[self.of[0]]
        for k in self.of[1:]:
            made = apply(operator.add if self.summed else operator.mul, made, sizes[k])
        if self.times != 1:
            made = apply(operator.mul, made, self.times)
        if self.over != 1:
            made = apply(operator.floordiv, made, self.over)
        if self.plus:
            made = apply(operator.add, made, self.plus)
        return made if self.above is None else apply(operator.truediv, self.above, made)


def find(sizes: Sequence[tuple[int, int]], now: float, later: float, divides: bool) -> Formula | None:
    """The formula that gives `now` for the first of each pair of sizes and `later` for the second.

    divides: the operation makes sure that a quotient is whole, as a view does.
    """
    if isinstance(now, bool) or type(now) is not type(later):
        return None
    if isinstance(now, float):
        return _quotient(sizes, now, later)
    for formula in _candidates(sizes, int(now), int(later), divides):
        if [formula.value([pair[k] for pair in sizes]) for k in (0, 1)] == [now, later]:
            return formula
    return None


def _candidates(sizes: Sequence[tuple[int, int]], now: int, later: int, divides: bool) -> Iterator[Formula]:
    """Simple ones first."""
    single = [(k,) for k in range(len(sizes))]
    products = list(_products(len(sizes)))
    yield from (Formula(of) for of in single)
    for of in products:
        whole = _product(sizes, of, 0)
        if whole and now % whole == 0:
            yield Formula(of, times=now // whole)
    yield from (Formula(of, plus=now - sizes[of[0]][0]) for of in single)
    for of in itertools.combinations_with_replacement(range(len(sizes)), 2):
        total = sum(sizes[k][0] for k in of)
        yield Formula(of, summed=True, plus=now - total)
    for of in products if divides else ():
        whole = _product(sizes, of, 0)
        if now and whole % now == 0:
            yield Formula(of, over=whole // now)


def _products(count: int) -> Iterator[tuple[int, ...]]:
    for length in range(1, MOST + 1):
        yield from itertools.combinations_with_replacement(range(count), length)


def _product(sizes: Sequence[tuple[int, int]], of: tuple[int, ...], which: int) -> int:
    return math.prod(sizes[k][which] for k in of)


def _quotient(sizes: Sequence[tuple[int, int]], now: float, later: float) -> Formula | None:
    """A small number over a product of sizes, or one less: what the gradients of means and variances are scaled by."""
    for of, less, above in itertools.product(_products(len(sizes)), (0, 1), (1.0, 2.0)):
        formula = Formula(of, plus=-less, above=above)
        wholes = [_product(sizes, of, which) - less for which in (0, 1)]
        if all(wholes) and [above / whole for whole in wholes] == [now, later]:
            return formula
    return None
