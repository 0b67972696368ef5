"""`collections.deque`: a list that is bounded and changes at both ends."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynajit.source import Call, Item, Source
from dynajit.values.base import Emitter, Handle, Tracer, Value
from dynajit.values.constant import Constant, plain
from dynajit.values.sequence import TupleValue, same_or_equal
from dynajit.values.wrap import kind

Items = tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class DequeValue(Handle):
    """Contents: the items. maxlen: how many it holds at most."""

    maxlen: int | None = None

    kind = "deque"

    def python_type(self) -> type:
        return deque

    def items_now(self, m: Tracer) -> Items:
        items: Items = m.heap[self.key]
        return items

    def put(self, m: Tracer, items: Items, *, from_left: bool = False) -> Value:
        """Keep `items`; too many of them fall off at the other end."""
        if self.maxlen is not None and len(items) > self.maxlen:
            items = items[: self.maxlen] if from_left else items[len(items) - self.maxlen :]
        m.heap.put(self.key, items)
        return Constant(None)

    def getattr(self, m: Tracer, name: str) -> Value:
        if name == "maxlen":
            return Constant(self.maxlen)
        if name in DEQUE_METHODS:
            return DequeMethod(self, name)
        if hasattr(deque, name):
            self.missing(f"method {name!r}")
        m.throw(AttributeError, f"'collections.deque' object has no attribute '{name}'")

    def getitem(self, m: Tracer, key: Value) -> Value:
        return self.items_now(m)[self._index(m, key)]

    def setitem(self, m: Tracer, key: Value, value: Value) -> None:
        items = list(self.items_now(m))
        items[self._index(m, key)] = value
        m.heap.put(self.key, tuple(items))

    def delitem(self, m: Tracer, key: Value) -> None:
        items = list(self.items_now(m))
        del items[self._index(m, key)]
        m.heap.put(self.key, tuple(items))

    def _index(self, m: Tracer, key: Value) -> int:
        index = plain(m, key)
        if type(index) not in (int, bool):
            m.throw(TypeError, f"sequence index must be integer, not '{type(index).__name__}'")
        if not -self.length(m) <= index < self.length(m):
            m.throw(IndexError, "deque index out of range")
        return int(index)

    def length(self, m: Tracer) -> int:
        return len(self.items_now(m))

    def truth(self, m: Tracer) -> bool:
        return bool(self.items_now(m))

    def contains(self, m: Tracer, item: Value) -> bool:
        return any(same_or_equal(m, own, item) for own in self.items_now(m))

    def iterate(self, m: Tracer) -> Value:
        return m.iterate(TupleValue(self.items_now(m)))

    def reload(self, emit: Emitter) -> None:
        emit.call(deque, TupleValue(emit.heap[self.key]), Constant(self.maxlen))


def new_deque(m: Tracer, items: Sequence[Value], maxlen: int | None) -> DequeValue:
    key = m.new_key()
    m.heap.new(key, (), existing=False)
    made = DequeValue(key, maxlen)
    made.put(m, tuple(items))
    return made


def _pop(at: int) -> Callable[..., Value]:
    def method(m: Tracer, owner: DequeValue) -> Value:
        items = list(owner.items_now(m))
        if not items:
            m.throw(IndexError, "pop from an empty deque")
        item = items.pop(at)
        m.heap.put(owner.key, tuple(items))
        return item

    return method


def _rotate(m: Tracer, owner: DequeValue, steps: Value | None = None) -> Value:
    items = deque(owner.items_now(m))
    items.rotate(1 if steps is None else plain(m, steps))
    return owner.put(m, tuple(items))


def _remove(m: Tracer, owner: DequeValue, item: Value) -> Value:
    items = owner.items_now(m)
    for i, own in enumerate(items):
        if same_or_equal(m, own, item):
            return owner.put(m, items[:i] + items[i + 1 :])
    m.throw(ValueError, "deque.remove(x): x not in deque")


def _insert(m: Tracer, owner: DequeValue, at: Value, item: Value) -> Value:
    items = list(owner.items_now(m))
    if owner.maxlen is not None and len(items) == owner.maxlen:
        m.throw(IndexError, "deque already at its maximum size")
    items.insert(plain(m, at), item)
    return owner.put(m, tuple(items))


def _extend_left(m: Tracer, owner: DequeValue, items: Value) -> Value:
    return owner.put(m, m.unpack(items)[::-1] + owner.items_now(m), from_left=True)


DEQUE_METHODS: dict[str, Callable[..., Value]] = {
    "append": lambda m, owner, item: owner.put(m, (*owner.items_now(m), item)),
    "appendleft": lambda m, owner, item: owner.put(m, (item, *owner.items_now(m)), from_left=True),
    "extend": lambda m, owner, items: owner.put(m, owner.items_now(m) + m.unpack(items)),
    "extendleft": _extend_left,
    "pop": _pop(-1),
    "popleft": _pop(0),
    "rotate": _rotate,
    "remove": _remove,
    "insert": _insert,
    "clear": lambda m, owner: owner.put(m, ()),
    "reverse": lambda m, owner: owner.put(m, owner.items_now(m)[::-1]),
    "copy": lambda m, owner: new_deque(m, owner.items_now(m), owner.maxlen),
    "count": lambda m, owner, item: Constant(sum(same_or_equal(m, own, item) for own in owner.items_now(m))),
}


@dataclass(frozen=True, eq=False)
class DequeMethod(Value):
    owner: DequeValue
    name: str

    kind = "method"

    def python_type(self) -> type:
        return types.BuiltinMethodType

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return DEQUE_METHODS[self.name](m, self.owner, *args, **kwargs)

    def reload(self, emit: Emitter) -> None:
        emit.load(self.owner)
        emit.instruction("LOAD_ATTR", self.name)


def items_of(obj: deque[Any]) -> tuple[Any, ...]:
    return tuple(obj)


@kind(deque)
def wrap_deque(m: Tracer, obj: deque[Any], source: Source) -> Value:
    known = m.known_handle(obj, source)
    if known is not None:
        return known
    m.guard(source, "TYPE_IS", deque)
    m.guard(source, "LENGTH", len(obj))
    m.guard(Call(source, maximum_of), "EQUALS", obj.maxlen)
    key = m.new_key()
    items = Call(source, items_of)
    m.heap.new(key, tuple(m.wrap(item, Item(items, i)) for i, item in enumerate(obj)), existing=True)
    value = DequeValue(key, obj.maxlen, source=source)
    m.remember_handle(obj, value)
    return value


def maximum_of(obj: deque[Any]) -> int | None:
    return obj.maxlen
