"""Iterating and unpacking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynajit.errors import Raised
from dynajit.values.base import Value
from dynajit.values.constant import Constant
from dynajit.values.instance import InstanceValue
from dynajit.values.iterator import make_range_iterator
from dynajit.values.mapping import DictValue, DictView
from dynajit.values.sequence import ListValue, TupleValue

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine


def iterate(m: Machine, value: Value) -> Value:
    """`iter(value)`."""
    if isinstance(value, Constant):
        if isinstance(value.value, range):
            return make_range_iterator(m, value.value)
        if isinstance(value.value, (str, bytes)):
            return m.iterate(TupleValue(tuple(Constant(item) for item in value.value)))
        if isinstance(value.value, frozenset):
            if value.source is not None:  # an equal one may have another order
                m.guard(value.source, "IS", value.value)
            return m.iterate(TupleValue(tuple(m.constant(item) for item in value.value)))
        m.throw(TypeError, f"'{type(value.value).__name__}' object is not iterable")
    return value.iterate(m)


def next_item(m: Machine, iterator: Value) -> Value | None:
    """The next item, or None at the end."""
    if isinstance(iterator, InstanceValue):
        method = iterator.method(m, "__next__")
        if method is None:
            m.throw(TypeError, f"'{iterator.cls.__name__}' object is not an iterator")
        try:
            return m.call(method, [iterator], {})
        except Raised as error:
            if issubclass(error.value.python_type(), StopIteration):
                return None
            raise
    return iterator.next(m)


def unpack(m: Machine, value: Value) -> tuple[Value, ...]:
    """All items, as `tuple(value)`."""
    if isinstance(value, TupleValue):
        return value.items
    if isinstance(value, ListValue):
        return value.items_now(m)
    if isinstance(value, DictValue):
        return tuple(key for key, _ in value.items_now(m).values())
    if isinstance(value, DictView):
        return value.now(m)
    iterator = m.iterate(value)
    items = []
    while (item := m.next(iterator)) is not None:
        items.append(item)
    return tuple(items)
