"""Sets of known elements."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.source import Source
from dynajit.values.base import Emitter, Handle, Tracer, Value
from dynajit.values.constant import UNKNOWN, Constant, as_plain, is_plain
from dynajit.values.keys import keyed_by_methods
from dynajit.values.mapping import hashable
from dynajit.values.sequence import TupleValue
from dynajit.values.special import special_method
from dynajit.values.wrap import kind

Elements = dict[Any, Value]


class InTurn(Elements):
    """Elements that were added one after the other to an empty set: so a real set gets its order."""


@dataclass(frozen=True, eq=False)
class SetValue(Handle):
    """Contents: hashable -> element, in the order of insertion.

    A real set has an order of its own: iterating is modelled only where the order cannot show.
    """

    cls: type = set

    kind = "set"

    def python_type(self) -> type:
        return self.cls

    def elements(self, m: Tracer) -> Elements:
        found: Elements = m.heap[self.key]
        return found

    def getattr(self, m: Tracer, name: str) -> Value:
        if name in SET_METHODS:
            return SetMethod(self, name)
        special = special_method(self, name)
        if special is not None:
            return special
        self.missing(f"method {name!r}")

    def length(self, m: Tracer) -> int:
        return len(self.elements(m))

    def truth(self, m: Tracer) -> bool:
        return bool(self.elements(m))

    def contains(self, m: Tracer, item: Value) -> bool:
        return hashable(m, item) in self.elements(m)

    def iterate(self, m: Tracer) -> Value:
        elements = self.elements(m)
        if len(elements) > 1:
            order = _order(m, elements) if self.source is None and not m.heap.is_existing(self.key) else None
            if order is None:
                raise GraphBreak(reasons.NO_OPERATION, f"the order of {self.describe()}")
            return m.iterate(TupleValue(tuple(order)))
        return m.iterate(TupleValue(tuple(elements.values())))

    def reload(self, emit: Emitter) -> None:
        if self.cls is not set:
            self.missing("rebuilding the elements alone")
        elements: Elements = emit.heap[self.key]
        names = keyed_by_methods(elements)
        if names:
            for name in names:
                name.demand_unchanged(emit.heap)
            emit.call(set)
            emit.last(set_items_of_set, self, list(elements.values()))
            return
        for element in elements.values():
            emit.load(element)
        emit.build("BUILD_SET", len(elements))


def set_items_of_set(target: set[Any], *items: Any) -> None:
    set.clear(target)
    set.update(target, items)


def _order(m: Tracer, elements: Elements) -> list[Value] | None:
    """The order of a set made inside, where it is known how it was made, or does not depend on it."""
    known = {as_plain(m, element): element for element in elements.values()}
    if UNKNOWN in known or len(known) != len(elements):
        return None
    one_by_one: set[Any] = set()
    for element in known:
        one_by_one.add(element)
    if isinstance(elements, InTurn):
        return [known[element] for element in one_by_one]
    orders = {
        tuple(made) for made in (one_by_one, set(known), set(one_by_one), set(frozenset(known)), {*reversed(known)})
    }
    return [known[element] for element in orders.pop()] if len(orders) == 1 else None


def new_set(m: Tracer, items: Sequence[Value], *, in_turn: bool = False) -> SetValue:
    """in_turn: whether the real set is made by adding the items in this order."""
    elements: Elements = InTurn() if in_turn else {}
    for item in items:
        item = m.realize(item)
        elements.setdefault(hashable(m, item), item)
    key = m.new_key()
    m.heap.new(key, elements, existing=False)
    return SetValue(key)


def elements_of(m: Tracer, value: Value) -> Elements:
    value = m.realize(value)
    if isinstance(value, SetValue):
        return value.elements(m)
    return {hashable(m, item): m.realize(item) for item in m.unpack(value)}


def _from(m: Tracer, elements: Elements) -> SetValue:
    return new_set(m, list(elements.values()))


def _add(m: Tracer, owner: SetValue, item: Value) -> Value:
    elements = owner.elements(m)
    name = hashable(m, item)
    if name not in elements:
        more = {**elements, name: m.realize(item)}
        m.heap.put(owner.key, InTurn(more) if isinstance(elements, InTurn) else more)
    return Constant(None)


def _discard(m: Tracer, owner: SetValue, item: Value, *, strict: bool = False) -> Value:
    elements = dict(owner.elements(m))
    if elements.pop(hashable(m, item), None) is None:
        if strict:
            m.throw(KeyError, item)
        return Constant(None)
    m.heap.put(owner.key, elements)
    return Constant(None)


def _update(m: Tracer, owner: SetValue, *others: Value) -> Value:
    elements = dict(owner.elements(m))
    for other in others:
        for name, item in elements_of(m, other).items():
            elements.setdefault(name, item)
    m.heap.put(owner.key, elements)
    return Constant(None)


def union(m: Tracer, owner: SetValue, *others: Value) -> SetValue:
    result = _from(m, owner.elements(m))
    _update(m, result, *others)
    return result


def intersection(m: Tracer, owner: SetValue, other: Value) -> SetValue:
    keep = elements_of(m, other)
    return _from(m, {name: item for name, item in owner.elements(m).items() if name in keep})


def difference(m: Tracer, owner: SetValue, other: Value) -> SetValue:
    drop = elements_of(m, other)
    return _from(m, {name: item for name, item in owner.elements(m).items() if name not in drop})


def _clear(m: Tracer, owner: SetValue) -> Value:
    m.heap.put(owner.key, {})
    return Constant(None)


SET_METHODS: dict[str, Callable[..., Value]] = {
    "add": _add,
    "discard": _discard,
    "remove": lambda m, owner, item: _discard(m, owner, item, strict=True),
    "update": _update,
    "clear": _clear,
    "copy": lambda m, owner: _from(m, owner.elements(m)),
    "union": union,
    "intersection": intersection,
    "difference": difference,
    "symmetric_difference": lambda m, owner, other: union(
        m, difference(m, owner, other), difference(m, _from(m, elements_of(m, other)), owner)
    ),
    "issubset": lambda m, owner, other: Constant(owner.elements(m).keys() <= elements_of(m, other).keys()),
    "issuperset": lambda m, owner, other: Constant(owner.elements(m).keys() >= elements_of(m, other).keys()),
    "isdisjoint": lambda m, owner, other: Constant(owner.elements(m).keys().isdisjoint(elements_of(m, other))),
}


@dataclass(frozen=True, eq=False)
class SetMethod(Value):
    owner: SetValue
    name: str

    kind = "method"

    def python_type(self) -> type:
        return types.BuiltinMethodType

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return SET_METHODS[self.name](m, self.owner, *args, **kwargs)

    def reload(self, emit: Emitter) -> None:
        emit.load(self.owner)
        emit.instruction("LOAD_ATTR", self.name)


@kind(set)
def wrap_set(m: Tracer, obj: set[Any], source: Source) -> Value:
    known = m.known_handle(obj, source)
    if known is not None:
        return known
    m.guard(source, "TYPE_IS", set)
    if not all(is_plain(item) or isinstance(item, type) for item in obj):
        raise GraphBreak(reasons.UNKNOWN_OBJECT, f"the elements of {source.text}")
    m.guard(source, "SET_EQUALS", frozenset(obj))
    key = m.new_key()
    m.heap.new(key, {hashable(m, value): value for value in map(m.constant, obj)}, existing=True)
    value = SetValue(key, source=source)
    m.remember_handle(obj, value)
    return value
