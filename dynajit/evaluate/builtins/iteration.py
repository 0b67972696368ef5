"""Iterators and what consumes them."""

from __future__ import annotations

import functools
import types

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate import polyfills
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.lazily import lazily
from dynajit.evaluate.machine import Machine
from dynajit.frame import MISSING
from dynajit.source import Known
from dynajit.values.base import Value
from dynajit.values.constant import Constant, plain
from dynajit.values.container_instance import ContainerInstance
from dynajit.values.function import FunctionValue
from dynajit.values.instance import InstanceValue, raw_attr
from dynajit.values.iterator import EnumerateIterator, FilterIterator, MapIterator, ZipIterator
from dynajit.values.klass import lookup
from dynajit.values.module import ModuleValue
from dynajit.values.partial import PartialValue
from dynajit.values.sequence import ListValue, TupleValue


@builtin(iter)
def iter_(m: Machine, values: Value, *sentinel: Value) -> Value:
    if sentinel:
        return lazily(m, _CALLABLE_ITERATOR, polyfills.call_until, values, *sentinel)
    return m.iterate(values)


_CALLABLE_ITERATOR: type = type(iter(list, None))


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
    if isinstance(values, (InstanceValue, ModuleValue)):
        return _reversed_instance(m, values)
    if values.kind not in ("list", "tuple", "dict view", "dict"):
        raise GraphBreak(reasons.NO_OPERATION, f"reversed({values.describe()})")
    return m.iterate(TupleValue(m.unpack(values)[::-1]))


def _reversed_instance(m: Machine, values: InstanceValue | ModuleValue) -> Value:
    """`__reversed__`, or items by their indices from the last one (Objects/enumobject.c)."""
    cls = values.python_type()
    raw = raw_attr(cls, "__reversed__")
    if raw is MISSING and raw_attr(cls, "__getitem__") is not MISSING:
        lookup(m, cls, "__reversed__")
        return lazily(m, reversed, polyfills.from_the_last, values, Constant(values.length(m)))
    if isinstance(raw, types.FunctionType):
        lookup(m, cls, "__reversed__")
        return m.call(FunctionValue(raw, source=Known(raw)), [values], {})
    if isinstance(values, ContainerInstance) and isinstance(values.storage, ListValue):
        lookup(m, cls, "__reversed__")
        return m.iterate(TupleValue(m.unpack(values.storage)[::-1]))
    raise GraphBreak(reasons.NO_OPERATION, f"reversed({values.describe()})")


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
