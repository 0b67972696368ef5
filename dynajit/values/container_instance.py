"""Instances of Python classes derived from dict, list or set: attributes like any instance, and the items below."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.frame import MISSING
from dynajit.source import Item, Source
from dynajit.values.base import Emitter, Tracer, Value
from dynajit.values.constant import Constant, is_plain
from dynajit.values.instance import DELETED, InstanceValue, raw_attr, set_attribute
from dynajit.values.keys import keyed_by_methods
from dynajit.values.klass import ClassValue, is_mutable
from dynajit.values.mapping import DictValue, Items, hashable, set_items_of_dict
from dynajit.values.sequence import Appended, ListValue
from dynajit.values.sets import SetValue, set_items_of_set
from dynajit.values.wrap import rule

Storage = DictValue | ListValue | SetValue
NO_ITEMS = DictValue(-1)
_BASES = (OrderedDict, dict, list, set)  # what such a class derives from; the first that fits


@dataclass(frozen=True, eq=False)
class ContainerInstance(InstanceValue):
    """storage: the items, as the methods of the builtin class see them."""

    storage: Storage = NO_ITEMS

    def _own(self, m: Tracer, name: str, *args: Value) -> Value | None:
        """What the class's own special method returns, if it has one."""
        method = self.method(m, name)
        return None if method is None else m.call(method, [self, *args], {})

    def getitem(self, m: Tracer, key: Value) -> Value:
        found = self._own(m, "__getitem__", key)
        if found is None and raw_attr(self.cls, "__missing__") is not MISSING and not self.storage.contains(m, key):
            found = self._own(m, "__missing__", key)
        return found or self.storage.getitem(m, key)

    def setitem(self, m: Tracer, key: Value, value: Value) -> None:
        if self._own(m, "__setitem__", key, value) is None:
            self.storage.setitem(m, key, value)

    def delitem(self, m: Tracer, key: Value) -> None:
        if self._own(m, "__delitem__", key) is None:
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
        found = self._own(m, "__iter__")
        return self.storage.iterate(m) if found is None else m.iterate(found)

    def operand(self, m: Tracer, name: str) -> Value:
        """What an operator sees: the items, unless the class has a method of its own for it."""
        return self if self.method(m, name) is not None else self.storage

    def reload(self, emit: Emitter) -> None:
        emit.call(_blank, ClassValue(self.cls))
        contents = emit.heap[self.storage.key]

        names = keyed_by_methods(contents) if isinstance(contents, dict) else []
        for name in names:
            name.demand_unchanged(emit.heap)

        def fill() -> None:
            emit.call(_FILL[base_of(self.cls)], self, *parts_of(self.storage, contents))
            emit.instruction("POP_TOP")

        if names:
            emit.last(_FILL[base_of(self.cls)], self, parts_of(self.storage, contents))
        else:
            emit.later(fill)
        fill_attributes(emit, self)


def fill_attributes(emit: Emitter, owner: InstanceValue) -> None:
    """Set the attributes of an instance that was made, once everything it may refer to can be made too."""
    attributes: dict[str, Value] = dict(emit.heap[owner.key])

    def fill() -> None:
        for name, value in attributes.items():
            if value is not DELETED:
                emit.call(set_attribute, owner, value, Constant(name))
                emit.instruction("POP_TOP")

    emit.later(fill)


def parts_of(storage: Storage, contents: Any) -> Sequence[Value]:
    """The contents in a row; keys and values of a dict in turn."""
    if isinstance(storage, DictValue):
        return [part for pair in contents.values() for part in pair]
    return list(contents.values()) if isinstance(storage, SetValue) else list(contents)


def base_of(cls: type) -> type:
    return next(base for base in _BASES if issubclass(cls, base))


def _blank(cls: type) -> Any:
    base: Any = base_of(cls)
    return base.__new__(cls)


def set_items_of_list(target: list[Any], *items: Any) -> None:
    list.__setitem__(target, slice(None), items)


_FILL: dict[type, Callable[..., None]] = {
    OrderedDict: set_items_of_dict,
    dict: set_items_of_dict,
    list: set_items_of_list,
    set: set_items_of_set,
}


def is_container_class(cls: type) -> bool:
    """A Python class with one of these as its only builtin base."""
    if cls in _BASES or not issubclass(cls, _BASES) or not is_mutable(cls):
        return False
    plain = {object, *base_of(cls).__mro__}
    makers = [raw_attr(base, "__new__") for base in plain]
    return all(base in plain or is_mutable(base) for base in cls.__mro__) and raw_attr(cls, "__new__") in makers


def new_container_instance(m: Tracer, cls: type) -> ContainerInstance:
    storage_key, key = m.new_key(), m.new_key()
    base = base_of(cls)
    m.heap.new(storage_key, () if base is list else {}, existing=False)
    m.heap.new(key, {}, existing=False)
    storage: Storage = DictValue(storage_key, cls)
    if base is list:
        storage = ListValue(storage_key, cls)
    elif base is set:
        storage = SetValue(storage_key, cls=cls)
    return ContainerInstance(key, cls, storage=storage)


def builtin_call(
    m: Tracer, owner: ContainerInstance, name: str, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """A method of the builtin class called on the instance, as `super().get(key)` does."""
    storage = owner.storage
    if name == "__init__":
        if isinstance(storage, DictValue):
            name = "update"
        else:
            m.heap.put(storage.key, () if isinstance(storage, ListValue) else {})
            if not args:
                return Constant(None)
            name = "extend" if isinstance(storage, ListValue) else "update"
    if isinstance(storage, SetValue) and name in _MAKE_SETS:
        owner.missing(f"{name}()")
    act = _SPECIAL.get(name)
    if act is not None:
        return act(m, storage, *args) or Constant(None)
    return m.call(storage.getattr(m, name), args, kwargs)


_MAKE_SETS = frozenset({"copy", "union", "intersection", "difference", "symmetric_difference"})  # of the derived class
_SPECIAL: dict[str, Callable[..., Value | None]] = {
    "__iter__": lambda m, storage: storage.iterate(m),
    "__getitem__": lambda m, storage, key: storage.getitem(m, key),
    "__setitem__": lambda m, storage, key, value: storage.setitem(m, key, value),
    "__delitem__": lambda m, storage, key: storage.delitem(m, key),
    "__len__": lambda m, storage: Constant(storage.length(m)),
    "__contains__": lambda m, storage, item: Constant(storage.contains(m, item)),
}


@rule(45, lambda obj: is_container_class(type(obj)))
def wrap_container_instance(m: Tracer, obj: Any, source: Source) -> Value:
    known = m.known_handle(obj, source)
    if known is not None:
        return known
    m.guard(source, "TYPE_IS", type(obj))
    wrap = _wrap_dict if isinstance(obj, dict) else _wrap_list if isinstance(obj, list) else _wrap_set
    storage = wrap(m, obj, source)
    key = m.new_key()
    m.heap.new(key, {}, existing=True)
    value = ContainerInstance(key, type(obj), obj, storage, source=source)
    m.remember_handle(obj, value)
    m.remember_handle(storage, storage)
    return value


def _wrap_dict(m: Tracer, obj: dict[Any, Any], source: Source) -> DictValue:
    keys = list(dict.keys(obj)) if not isinstance(obj, OrderedDict) else list(OrderedDict.keys(obj))
    if not all(map(is_plain, keys)):
        raise GraphBreak(reasons.UNKNOWN_OBJECT, f"the keys of {source.text}")
    m.guard(source, "KEYS", tuple(keys))
    items: Items = {k: (m.constant(k), m.wrap(dict.__getitem__(obj, k), Item(source, k))) for k in keys}
    key = m.new_key()
    m.heap.new(key, items, existing=True)
    return DictValue(key, type(obj), source=source)


def _wrap_list(m: Tracer, obj: list[Any], source: Source) -> ListValue:
    key = m.new_key()
    m.heap.new(key, Appended(), existing=True)
    return ListValue(key, type(obj), obj, source=source)


def _wrap_set(m: Tracer, obj: set[Any], source: Source) -> SetValue:
    elements = list(set.__iter__(obj))
    if not all(map(is_plain, elements)):
        raise GraphBreak(reasons.UNKNOWN_OBJECT, f"the elements of {source.text}")
    m.guard(source, "SET_EQUALS", frozenset(elements))
    key = m.new_key()
    m.heap.new(key, {hashable(m, value): value for value in map(m.constant, elements)}, existing=True)
    return SetValue(key, cls=type(obj), source=source)
