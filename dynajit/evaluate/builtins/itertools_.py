"""itertools: over containers as a known sequence, which can be rebuilt; over iterators lazily, as a generator."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from dynajit.evaluate import polyfills
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.lazily import lazily
from dynajit.evaluate.machine import Machine
from dynajit.values.base import Value
from dynajit.values.constant import Constant, plain
from dynajit.values.sequence import TupleValue

_LAZY = frozenset({"iterator", "generator", "instance", "object", "value"})


def _are_containers(*iterables: Value) -> bool:
    """Whether reading them ahead cannot be noticed."""
    return not any(values.kind in _LAZY for values in iterables)


def _sequence(m: Machine, items: Any) -> Value:
    return m.iterate(TupleValue(tuple(items)))


@builtin(itertools.chain)
def chain(m: Machine, *iterables: Value) -> Value:
    if _are_containers(*iterables):
        return _sequence(m, [item for values in iterables for item in m.unpack(values)])
    return lazily(m, itertools.chain, polyfills.chain, *iterables)


@builtin(itertools.chain.from_iterable)
def chain_from_iterable(m: Machine, iterables: Value) -> Value:
    if _are_containers(iterables):
        return chain(m, *(m.realize(values) for values in m.unpack(iterables)))
    return lazily(m, itertools.chain, polyfills.chain_from_iterable, iterables)


@builtin(itertools.islice)
def islice(m: Machine, iterable: Value, *bounds: Value) -> Value:
    numbers = [plain(m, bound) for bound in bounds]
    start, stop, step = {1: (0, *numbers, 1), 2: (*numbers, 1)}.get(len(numbers), tuple(numbers))
    start, step = 0 if start is None else start, 1 if step is None else step
    whole = all(type(number) is int or number is None for number in (start, stop, step))
    if not whole or start < 0 or step < 1 or (stop is not None and stop < 0):
        m.throw(ValueError, "Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if _are_containers(iterable):
        return _sequence(m, itertools.islice(m.unpack(iterable), start, stop, step))
    rest = [Constant(number) for number in (start, stop, step)]
    return lazily(m, itertools.islice, polyfills.islice, iterable, *rest)


@builtin(itertools.repeat)
def repeat(m: Machine, value: Value, times: Value | None = None) -> Value:
    if times is None:
        return lazily(m, itertools.repeat, polyfills.repeat, value)
    return _sequence(m, [value] * max(0, plain(m, times)))


@builtin(itertools.product)
def product(m: Machine, *iterables: Value, repeat: Value | None = None) -> Value:
    pools = [m.unpack(values) for values in iterables] * (plain(m, repeat) if repeat is not None else 1)
    return _sequence(m, map(TupleValue, itertools.product(*pools)))


def _of_a_pool(function: Callable[..., Any]) -> None:
    """Combinations and permutations read everything when they are made."""

    @builtin(function)
    def run(m: Machine, iterable: Value, r: Value | None = None) -> Value:
        size = [] if r is None else [plain(m, r)]
        return _sequence(m, map(TupleValue, function(m.unpack(iterable), *size)))


for _function in (itertools.permutations, itertools.combinations, itertools.combinations_with_replacement):
    _of_a_pool(_function)


def _generator(cls: Any, function: Any) -> None:
    @builtin(cls)
    def run(m: Machine, *args: Value, **kwargs: Value) -> Value:
        return lazily(m, cls, function, *args, **{_NAMES.get(name, name): value for name, value in kwargs.items()})


_NAMES = {"func": "function"}
_GENERATORS = "count cycle takewhile dropwhile filterfalse starmap accumulate compress pairwise zip_longest"
for _name in _GENERATORS.split():
    _generator(getattr(itertools, _name), getattr(polyfills, _name))
