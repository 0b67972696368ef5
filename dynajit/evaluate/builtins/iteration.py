"""Iterators and what consumes them."""

from __future__ import annotations

import functools

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.values.base import Value
from dynajit.values.constant import Constant, plain
from dynajit.values.iterator import EnumerateIterator, FilterIterator, MapIterator, ZipIterator
from dynajit.values.partial import PartialValue
from dynajit.values.sequence import TupleValue


@builtin(iter)
def iter_(m: Machine, values: Value, *sentinel: Value) -> Value:
    if sentinel:
        raise GraphBreak(reasons.NO_OPERATION, "iter() with a sentinel")
    return m.iterate(values)


@builtin(next)
def next_(m: Machine, iterator: Value, *default: Value) -> Value:
    found = m.next(iterator)
    if found is None:
        if default:
            return default[0]
        m.throw(StopIteration)
    return found


@builtin(enumerate)
def enumerate_(m: Machine, iterable: Value, start: Value | None = None) -> Value:
    key = m.new_key()
    m.heap.new(key, plain(m, start) if start is not None else 0, existing=False)
    return EnumerateIterator(key, m.iterate(iterable))


@builtin(zip)
def zip_(m: Machine, *iterables: Value, strict: Value | None = None) -> Value:
    key = m.new_key()
    m.heap.new(key, None, existing=False)
    exact = strict is not None and m.is_true(strict)
    return ZipIterator(key, tuple(m.iterate(it) for it in iterables), exact)


@builtin(map)
def map_(m: Machine, function: Value, *iterables: Value) -> Value:
    key = m.new_key()
    m.heap.new(key, None, existing=False)
    return MapIterator(key, function, tuple(m.iterate(it) for it in iterables))


@builtin(filter)
def filter_(m: Machine, function: Value, iterable: Value) -> Value:
    key = m.new_key()
    m.heap.new(key, None, existing=False)
    return FilterIterator(key, function, m.iterate(iterable))


@builtin(reversed)
def reversed_(m: Machine, values: Value) -> Value:
    if isinstance(values, Constant) and isinstance(values.value, range):
        return m.iterate(Constant(values.value[::-1]))
    if values.kind not in ("list", "tuple", "dict view", "dict"):
        raise GraphBreak(reasons.NO_OPERATION, f"reversed({values.describe()})")
    return m.iterate(TupleValue(m.unpack(values)[::-1]))


@builtin(any)
def any_(m: Machine, values: Value) -> Value:
    iterator = m.iterate(values)
    while (item := m.next(iterator)) is not None:
        if m.is_true(item):
            return Constant(True)
    return Constant(False)


@builtin(all)
def all_(m: Machine, values: Value) -> Value:
    iterator = m.iterate(values)
    while (item := m.next(iterator)) is not None:
        if not m.is_true(item):
            return Constant(False)
    return Constant(True)


@builtin(functools.reduce)
def reduce(m: Machine, function: Value, values: Value, *start: Value) -> Value:
    iterator = m.iterate(values)
    total = start[0] if start else m.next(iterator)
    if total is None:
        m.throw(TypeError, "reduce() of empty iterable with no initial value")
    while (item := m.next(iterator)) is not None:
        total = m.call(function, [total, item], {})
    return total


@builtin(functools.partial)
def partial(m: Machine, function: Value, *args: Value, **kwargs: Value) -> Value:
    return PartialValue(function, args, dict(kwargs))
