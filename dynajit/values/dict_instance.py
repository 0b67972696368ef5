"""Instances of Python classes derived from dict: attributes like any instance, and the items of the dict below."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.frame import MISSING
from dynajit.source import Item, Source
from dynajit.values.base import Emitter, Handle, Tracer, Value
from dynajit.values.constant import Constant, is_plain
from dynajit.values.instance import DELETED, InstanceValue, raw_attr, set_attribute
from dynajit.values.klass import ClassValue, is_mutable
from dynajit.values.mapping import DictValue, Items
from dynajit.values.wrap import rule

NO_ITEMS = DictValue(-1)


@dataclass(frozen=True, eq=False)
class DictInstance(InstanceValue):
    """storage: the items, as the methods of dict see them."""

    storage: DictValue = NO_ITEMS

    def _own_or_storage(self, m: Tracer, name: str, *args: Value) -> Value | None:
        method = self.method(m, name)
        return None if method is None else m.call(method, [self, *args], {})

    def getitem(self, m: Tracer, key: Value) -> Value:
        found = self._own_or_storage(m, "__getitem__", key)
        if found is None and raw_attr(self.cls, "__missing__") is not MISSING and not self.storage.contains(m, key):
            found = self._own_or_storage(m, "__missing__", key)
        return found or self.storage.getitem(m, key)

    def setitem(self, m: Tracer, key: Value, value: Value) -> None:
        if self._own_or_storage(m, "__setitem__", key, value) is None:
            self.storage.setitem(m, key, value)

    def delitem(self, m: Tracer, key: Value) -> None:
        if self._own_or_storage(m, "__delitem__", key) is None:
            self.storage.delitem(m, key)

    def length(self, m: Tracer) -> int:
        return super().length(m) if self.method(m, "__len__") is not None else self.storage.length(m)

    def contains(self, m: Tracer, item: Value) -> bool:
        if self.method(m, "__contains__") is not None:
            return super().contains(m, item)
        return self.storage.contains(m, item)

    def truth(self, m: Tracer) -> bool:
        if self.method(m, "__bool__") is not None or self.method(m, "__len__") is not None:
            return super().truth(m)
        return self.storage.truth(m)

    def iterate(self, m: Tracer) -> Value:
        found = self._own_or_storage(m, "__iter__")
        return self.storage.iterate(m) if found is None else m.iterate(found)

    def reload(self, emit: Emitter) -> None:
        emit.call(_blank, ClassValue(self.cls))
        attributes: dict[str, Value] = dict(emit.heap[self.key])
        items: Items = dict(emit.heap[self.storage.key])

        def fill() -> None:
            for key, value in items.values():
                emit.call(_base(self.cls).__setitem__, self, key, value)
                emit.instruction("POP_TOP")
            for name, value in attributes.items():
                if value is not DELETED:
                    emit.call(set_attribute, self, value, Constant(name))
                    emit.instruction("POP_TOP")

        emit.later(fill)


def _base(cls: type) -> Any:
    return OrderedDict if issubclass(cls, OrderedDict) else dict


def _blank(cls: type) -> Any:
    return _base(cls).__new__(cls)


def is_dict_class(cls: type) -> bool:
    """A Python class with dict or OrderedDict as its only builtin base."""
    plain = (object, dict, OrderedDict)
    if cls in plain or not issubclass(cls, dict) or not is_mutable(cls):
        return False
    return all(base in plain or is_mutable(base) for base in cls.__mro__) and raw_attr(cls, "__new__") in (
        dict.__new__,
        raw_attr(dict, "__new__"),
        raw_attr(OrderedDict, "__new__"),
    )


def new_dict_instance(m: Tracer, cls: type) -> DictInstance:
    storage_key, key = m.new_key(), m.new_key()
    m.heap.new(storage_key, {}, existing=False)
    m.heap.new(key, {}, existing=False)
    return DictInstance(key, cls, storage=DictValue(storage_key, cls))


def builtin_call(
    m: Tracer, owner: DictInstance, name: str, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """A method of dict called on the instance, as `super().get(key)` does."""
    storage: Handle = owner.storage
    if name == "__init__":
        name = "update"
    if name == "__iter__":
        return storage.iterate(m)
    if name == "__setitem__":
        storage.setitem(m, *args)
        return Constant(None)
    if name == "__delitem__":
        storage.delitem(m, *args)
        return Constant(None)
    return m.call(storage.getattr(m, name), args, kwargs)


@rule(45, lambda obj: is_dict_class(type(obj)))
def wrap_dict_instance(m: Tracer, obj: dict[Any, Any], source: Source) -> Value:
    known = m.known_handle(obj, source)
    if known is not None:
        return known
    m.guard(source, "TYPE_IS", type(obj))
    if not all(map(is_plain, obj)):
        raise GraphBreak(reasons.UNKNOWN_OBJECT, f"the keys of {source.text}")
    m.guard(source, "KEYS", tuple(obj))
    items: Items = {k: (m.constant(k), m.wrap(dict.__getitem__(obj, k), Item(source, k))) for k in obj}
    storage_key, key = m.new_key(), m.new_key()
    m.heap.new(storage_key, items, existing=True)
    m.heap.new(key, {}, existing=True)
    storage = DictValue(storage_key, type(obj), source=source)
    value = DictInstance(key, type(obj), obj, storage, source=source)
    m.remember_handle(obj, value)
    m.remember_handle(storage, storage)
    return value
