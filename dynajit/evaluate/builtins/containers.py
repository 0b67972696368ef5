"""Making containers, and functions of whole containers."""

from __future__ import annotations

import operator
from _collections import _count_elements  # type: ignore[import-not-found]
from collections import OrderedDict, defaultdict, deque
from types import FunctionType
from typing import Any, cast

import torch

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate import construction, polyfills
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.source import Known
from dynajit.values.base import Value
from dynajit.values.constant import Constant, plain
from dynajit.values.deque import new_deque
from dynajit.values.function import FunctionValue
from dynajit.values.getter import CLASSES, Getter
from dynajit.values.klass import ClassValue
from dynajit.values.mapping import new_dict, pairs
from dynajit.values.sequence import TupleValue, new_list, sorted_items
from dynajit.values.sets import new_set
from dynajit.values.tensor import TensorValue
from dynajit.values.value_instance import is_value_class


@builtin(len)
def len_(m: Machine, value: Value) -> Value:
    if isinstance(value, TensorValue):
        return m.call_method(value, "__len__")
    return Constant(value.length(m))


@builtin(list)
def list_(m: Machine, items: Value | None = None) -> Value:
    return new_list(m, m.unpack(items) if items is not None else ())


@builtin(tuple)
def tuple_(m: Machine, items: Value | None = None) -> Value:
    if isinstance(items, TupleValue) and items.cls is tuple:
        return items
    return TupleValue(m.unpack(items) if items is not None else ())


@builtin(set)
def set_(m: Machine, items: Value | None = None) -> Value:
    if items is None:
        return new_set(m, (), in_turn=True)
    return new_set(m, m.unpack(items), in_turn=items.kind not in ("set", "dict", "frozenset", "constant"))


@builtin(frozenset)
def frozenset_(m: Machine, items: Value | None = None) -> Value:
    return m.constant(frozenset(plain(m, item) for item in m.unpack(items)) if items is not None else frozenset())


def _dict(cls: type) -> None:
    def run(m: Machine, other: Value | None = None, **kwargs: Value) -> Value:
        given = pairs(m, other) if other is not None else []
        return new_dict(m, [*given, *((Constant(name), value) for name, value in kwargs.items())], cls)

    builtin(cls)(run)


_dict(dict)
_dict(OrderedDict)


@builtin(defaultdict)
def defaultdict_(m: Machine, factory: Value | None = None, other: Value | None = None, **kwargs: Value) -> Value:
    given = pairs(m, other) if other is not None else []
    items = [*given, *((Constant(name), value) for name, value in kwargs.items())]
    return new_dict(m, items, defaultdict, factory or Constant(None))


@builtin(dict.fromkeys)
def dict_fromkeys(m: Machine, keys: Value, value: Value | None = None) -> Value:
    return new_dict(m, [(key, value or Constant(None)) for key in m.unpack(keys)])


@builtin(slice)
def slice_(m: Machine, *parts: Value) -> Value:
    start, stop, step = {1: (Constant(None), *parts, Constant(None)), 2: (*parts, Constant(None))}.get(
        len(parts), parts
    )
    return m.constant(slice(plain(m, start), plain(m, stop), plain(m, step)))


@builtin(range)
def range_(m: Machine, *parts: Value) -> Value:
    for part in parts:
        if isinstance(part, TensorValue):
            raise GraphBreak(reasons.TENSOR_DATA, f"range({part.describe()})")
    numbers = [plain(m, part.bare()) for part in parts]
    try:
        return Constant(range(*numbers))
    except (TypeError, ValueError) as error:
        m.throw(type(error), *error.args)


@builtin(sorted)
def sorted_(m: Machine, items: Value, *, key: Value | None = None, reverse: Value | None = None) -> Value:
    return new_list(m, sorted_items(m, m.unpack(items), key, reverse))


@builtin(sum)
def sum_(m: Machine, items: Value, start: Value | None = None) -> Value:
    if isinstance(items, TensorValue):
        items = m.iterate(items)
    total = start or Constant(0)
    for item in m.unpack(items):
        total = m.binary("+", total, item)
    return total


def _extreme(name: str, symbol: str, recorded: object) -> None:
    def run(m: Machine, *args: Value, key: Value | None = None, default: Value | None = None) -> Value:
        items = args if len(args) > 1 else m.unpack(args[0])
        if not items:
            if default is not None:
                return default
            m.throw(
                ValueError, f"{name}() arg is an empty sequence" if _OLD else f"{name}() iterable argument is empty"
            )
        best, best_key = items[0], _key(m, key, items[0])
        for item in items[1:]:
            item_key = _key(m, key, item)
            if m.is_true(m.compare(symbol, item_key, best_key)):
                best, best_key = item, item_key
        return best

    builtin(recorded)(run)


def _key(m: Machine, key: Value | None, item: Value) -> Value:
    return item if key is None or (isinstance(key, Constant) and key.value is None) else m.call(key, [item], {})


try:
    max(())
except ValueError as _error:
    _OLD = "empty sequence" in str(_error)  # the wording changed in 3.12

_extreme("max", ">", max)
_extreme("min", "<", min)


@builtin(torch.Size)
def size(m: Machine, items: Value | None = None) -> Value:
    values = m.unpack(items) if items is not None else ()
    return m.constant(torch.Size([plain(m, item) for item in values]))


@builtin(deque)
def deque_(m: Machine, items: Value | None = None, maxlen: Value | None = None) -> Value:
    limit = None if maxlen is None else plain(m, maxlen)
    if limit is not None and (type(limit) is not int or limit < 0):
        raise GraphBreak(reasons.UNCAUGHT, "deque() with a bad maxlen")
    return new_deque(m, m.unpack(items) if items is not None else (), limit)


def _getter(cls: Any) -> None:
    @builtin(cls)
    def make(m: Machine, *args: Value, **kwargs: Value) -> Value:
        if not args or (kwargs and cls is not operator.methodcaller):
            raise GraphBreak(reasons.UNCAUGHT, f"{cls.__name__}() with these arguments")
        if cls is not operator.itemgetter and not isinstance(plain(m, args[0]), str):
            raise GraphBreak(reasons.UNCAUGHT, f"{cls.__name__}() of what is no name")
        return Getter(cls, args, kwargs)


for _cls in CLASSES:
    _getter(_cls)


@builtin(tuple.__new__)
def tuple_new(m: Machine, cls: Value, items: Value | None = None) -> Value:
    """As the `__new__` and `_make` of named tuples call it."""
    if isinstance(cls, ClassValue) and is_value_class(cls.cls):
        return construction.from_value(m, cls.cls, [] if items is None else [items], {})
    if not isinstance(cls, ClassValue) or not (cls.cls is tuple or hasattr(cls.cls, "_fields")):
        raise GraphBreak(reasons.OPAQUE_CALL, "tuple.__new__ of a derived class")
    return TupleValue(m.unpack(items) if items is not None else (), cls.cls)


@builtin(str.__new__, int.__new__, float.__new__)
def value_new(m: Machine, cls: Value, *args: Value, **kwargs: Value) -> Value:
    """As the `__new__` of a derived class calls it."""
    if not isinstance(cls, ClassValue) or not is_value_class(cls.cls):
        raise GraphBreak(reasons.OPAQUE_CALL, f"__new__ of {cls.describe()}")
    return construction.from_value(m, cls.cls, args, kwargs)


@builtin(_count_elements)
def count_elements(m: Machine, mapping: Value, iterable: Value) -> Value:
    """What `Counter` counts with (Modules/_collectionsmodule.c)."""
    return m.inline(_COUNT, [mapping, iterable], {})


_COUNT = FunctionValue(cast(FunctionType, polyfills.count_elements), source=Known(polyfills.count_elements))
