"""Dicts, ordered dicts, default dicts and their views."""

from __future__ import annotations

import types
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.source import Attr, InstanceAttr, Item, Known, Local, Source
from dynajit.values.base import Emitter, Handle, Tracer, Value
from dynajit.values.constant import Constant, is_plain, plain
from dynajit.values.keys import ByMethods, is_frozen, keyed_by_methods
from dynajit.values.sequence import TupleValue
from dynajit.values.special import special_method
from dynajit.values.wrap import kind

Items = dict[Any, tuple[Value, Value]]  # hashable -> (key, value), in order


@dataclass(frozen=True)
class _ByIdentity:
    """A key that is hashed by identity (a module, a class, a tensor)."""

    identity: Any


_IDENTITY_KEYS = frozenset({"tensor", "class", "function", "builtin", "module", "nn.Module"})


def _of_reference(m: Tracer, key: Value) -> Any:
    """References to one object are equal, as far as objects are told from others by identity."""
    target = m.realize(key.target if hasattr(key, "target") else key.call(m, [], {}))
    by_identity: Any = object.__hash__
    if target.identity() is None or target.kind != "instance" or target.python_type().__hash__ is not by_identity:
        raise GraphBreak(reasons.NO_OPERATION, f"{key.describe()} as a key")
    return _ByIdentity(("referent", target.identity()))


def raw_method(cls: type, name: str) -> Any:
    return next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)


_OF_KEYS = ("__eq__", "__hash__")


def hashable(m: Tracer, key: Value) -> Any:
    """What tells keys apart as Python's hash and == would."""
    key = m.specialise(m.realize(key))
    cls = key.bare().python_type() if key.bare() is not key else None
    if cls is not None and all(getattr(key.python_type(), name) is getattr(cls, name) for name in _OF_KEYS):
        key = m.specialise(key.bare())
    if key.kind == "weak reference":
        return _of_reference(m, key)
    if key.identity() is not None and not isinstance(key, Constant):
        if isinstance(key, (DictValue,)) or key.kind in ("list", "set", "dict"):
            m.throw(TypeError, f"unhashable type: '{key.python_type().__name__}'")
        by_identity: Any = object.__hash__
        if key.kind == "instance" and isinstance(raw_method(key.python_type(), "__hash__"), types.FunctionType):
            return ByMethods(m, key)
        if key.kind == "instance" and key.python_type().__hash__ is None:
            m.throw(TypeError, f"unhashable type: '{key.python_type().__name__}'")
        if key.python_type().__hash__ is not by_identity and key.kind not in _IDENTITY_KEYS:
            raise GraphBreak(reasons.NO_OPERATION, f"{key.describe()} as a key")
        return _ByIdentity(key.identity())
    if isinstance(key, TupleValue):
        return tuple(hashable(m, item) for item in key.items)
    return plain(m, key)


@dataclass(frozen=True, eq=False)
class DictValue(Handle):
    """A dict of the exact type `cls`. default_factory: that of a defaultdict."""

    cls: type = dict
    default_factory: Value | None = None

    kind = "dict"

    def python_type(self) -> type:
        return self.cls

    def items_now(self, m: Tracer) -> Items:
        items: Items = m.heap[self.key]
        return items

    def find(self, m: Tracer, key: Value) -> Value | None:
        found = self.items_now(m).get(hashable(m, key))
        return None if found is None else found[1]

    def getattr(self, m: Tracer, name: str) -> Value:
        if name in DICT_METHODS and hasattr(self.cls, name):
            return DictMethod(self, name)
        special = special_method(self, name)
        if special is not None:
            return special
        if hasattr(self.cls, name):
            self.missing(f"method {name!r}")
        m.throw(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")

    def getitem(self, m: Tracer, key: Value) -> Value:
        found = self.find(m, key)
        if found is not None:
            return found
        if self.default_factory is not None and not _is_none(self.default_factory):
            made = m.call(self.default_factory, [], {})
            self.setitem(m, key, made)
            return made
        m.throw(KeyError, key)

    def setitem(self, m: Tracer, key: Value, value: Value) -> None:
        key = m.realize(key)
        items = dict(self.items_now(m))
        name = hashable(m, key)
        items[name] = (items[name][0] if name in items else key, value)
        m.heap.put(self.key, items)

    def delitem(self, m: Tracer, key: Value) -> None:
        items = dict(self.items_now(m))
        if items.pop(hashable(m, key), None) is None:
            m.throw(KeyError, key)
        m.heap.put(self.key, items)

    def length(self, m: Tracer) -> int:
        return len(self.items_now(m))

    def truth(self, m: Tracer) -> bool:
        return bool(self.items_now(m))

    def contains(self, m: Tracer, item: Value) -> bool:
        return hashable(m, item) in self.items_now(m)

    def iterate(self, m: Tracer) -> Value:
        return make_dict_iterator(m, self, "keys")

    def reload(self, emit: Emitter) -> None:
        items: Items = emit.heap[self.key]
        if keyed_by_methods(items):
            self._reload_last(emit, items)
            return
        if self.cls is not dict:
            head = [self.default_factory or Constant(None)] if self.cls is defaultdict else []
            emit.call(self.cls, *head)
            for key, value in items.values():
                emit.instruction("COPY", 1)
                emit.load(value)
                emit.instruction("SWAP", 2)
                emit.load(key)
                emit.instruction("STORE_SUBSCR")
            return
        for key, value in items.values():
            emit.load(key)
            emit.load(value)
        emit.build("BUILD_MAP", len(items))

    def _reload_last(self, emit: Emitter, items: Items) -> None:
        """An empty one, filled when its keys have their attributes: it calls their methods."""
        emit.call(self.cls, *([self.default_factory or Constant(None)] if self.cls is defaultdict else []))
        put_last(emit, self, items)


def put_last(emit: Emitter, owner: DictValue, items: Items) -> None:
    for name in keyed_by_methods(items):
        name.demand_unchanged(emit.heap)
    emit.last(set_items_of_dict, owner, [part for pair in items.values() for part in pair])


def set_items_of_dict(target: dict[Any, Any], *parts: Any) -> None:
    base = OrderedDict if isinstance(target, OrderedDict) else dict
    base.clear(target)
    for key, value in zip(parts[::2], parts[1::2], strict=True):
        base.__setitem__(target, key, value)


def _is_none(value: Value) -> bool:
    return isinstance(value, Constant) and value.value is None


def new_dict(
    m: Tracer, items: Sequence[tuple[Value, Value]] = (), cls: type = dict, factory: Value | None = None
) -> DictValue:
    contents: Items = {}
    for key, value in items:
        key = m.realize(key)
        name = hashable(m, key)
        contents[name] = (contents[name][0] if name in contents else key, value)
    handle = m.new_key()
    m.heap.new(handle, contents, existing=False)
    return DictValue(handle, cls, factory)


@dataclass(frozen=True, eq=False)
class DictMethod(Value):
    owner: DictValue
    name: str

    kind = "method"

    def python_type(self) -> type:
        return types.BuiltinMethodType

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return DICT_METHODS[self.name](m, self.owner, *args, **kwargs)

    def reload(self, emit: Emitter) -> None:
        emit.load(self.owner)
        emit.instruction("LOAD_ATTR", self.name)


def _get(m: Tracer, owner: DictValue, key: Value, default: Value | None = None) -> Value:
    return owner.find(m, key) or default or Constant(None)


def _pop(m: Tracer, owner: DictValue, key: Value, default: Value | None = None) -> Value:
    found = owner.find(m, key)
    if found is None:
        if default is not None:
            return default
        m.throw(KeyError, key)
    owner.delitem(m, key)
    return found


def _popitem(m: Tracer, owner: DictValue) -> Value:
    items = owner.items_now(m)
    if not items:
        m.throw(KeyError, "popitem(): dictionary is empty")
    key, value = list(items.values())[-1]
    owner.delitem(m, key)
    return TupleValue((key, value))


def _setdefault(m: Tracer, owner: DictValue, key: Value, default: Value | None = None) -> Value:
    found = owner.find(m, key)
    if found is None:
        found = default or Constant(None)
        owner.setitem(m, key, found)
    return found


def pairs(m: Tracer, value: Value) -> list[tuple[Value, Value]]:
    """The (key, value) pairs of a mapping, or of an iterable of pairs."""
    value = m.realize(value)
    copied = getattr(value, "copied", None)  # an instance's attributes
    if copied is not None:
        value = copied(m)
    if isinstance(value, DictValue):
        return list(value.items_now(m).values())
    found = []
    for pair in m.unpack(value):
        both = m.unpack(pair)
        if len(both) != 2:
            m.throw(ValueError, "dictionary update sequence element has the wrong length")
        found.append((both[0], both[1]))
    return found


def update(m: Tracer, owner: DictValue, other: Value | None = None, **kwargs: Value) -> Value:
    extra = [] if other is None else pairs(m, other)
    for key, value in [*extra, *((Constant(name), value) for name, value in kwargs.items())]:
        owner.setitem(m, key, value)
    return Constant(None)


def _clear(m: Tracer, owner: DictValue) -> Value:
    m.heap.put(owner.key, {})
    return Constant(None)


def _copy(m: Tracer, owner: DictValue) -> Value:
    return new_dict(m, list(owner.items_now(m).values()), owner.cls, owner.default_factory)


def _move_to_end(m: Tracer, owner: DictValue, key: Value, last: Value | None = None) -> Value:
    items = dict(owner.items_now(m))
    name = hashable(m, key)
    if name not in items:
        m.throw(KeyError, key)
    entry = items.pop(name)
    at_end = last is None or m.is_true(last)
    m.heap.put(owner.key, {**items, name: entry} if at_end else {name: entry, **items})
    return Constant(None)


DICT_METHODS: dict[str, Callable[..., Value]] = {
    "get": _get,
    "pop": _pop,
    "popitem": _popitem,
    "setdefault": _setdefault,
    "update": update,
    "clear": _clear,
    "copy": _copy,
    "move_to_end": _move_to_end,
    "keys": lambda m, owner: DictView(owner, "keys"),
    "values": lambda m, owner: DictView(owner, "values"),
    "items": lambda m, owner: DictView(owner, "items"),
    "__len__": lambda m, owner: Constant(owner.length(m)),
    "__getitem__": lambda m, owner, key: owner.getitem(m, key),
    "__contains__": lambda m, owner, key: Constant(owner.contains(m, key)),
}


@dataclass(frozen=True, eq=False)
class DictView(Value):
    """`d.keys()`, `d.values()` or `d.items()`: follows the dict."""

    owner: DictValue
    what: str

    kind = "dict view"

    def python_type(self) -> type:
        return type(getattr({}, self.what)())

    def now(self, m: Tracer) -> tuple[Value, ...]:
        return _parts(self.owner.items_now(m), self.what)

    def length(self, m: Tracer) -> int:
        return self.owner.length(m)

    def truth(self, m: Tracer) -> bool:
        return self.owner.truth(m)

    def contains(self, m: Tracer, item: Value) -> bool:
        if self.what == "keys":
            return self.owner.contains(m, item)
        return TupleValue(self.now(m)).contains(m, item)

    def iterate(self, m: Tracer) -> Value:
        return make_dict_iterator(m, self.owner, self.what)

    def reload(self, emit: Emitter) -> None:
        emit.load(self.owner)
        emit.instruction("LOAD_METHOD", self.what)
        emit.instruction("CALL", (0, ()))


def _parts(items: Items, what: str) -> tuple[Value, ...]:
    if what == "items":
        return tuple(TupleValue(pair) for pair in items.values())
    return tuple(pair[0 if what == "keys" else 1] for pair in items.values())


@dataclass(frozen=True, eq=False)
class DictIterator(Handle):
    """Contents: (owner or None when used up, position, length at the start)."""

    what: str

    kind = "iterator"

    def python_type(self) -> type:
        return type(iter(getattr({}, self.what)()))

    def getattr(self, m: Tracer, name: str) -> Value:
        return special_method(self, name) or self.missing(f"attribute {name!r}")

    def iterate(self, m: Tracer) -> Value:
        return self

    def next(self, m: Tracer) -> Value | None:
        owner, at, size = m.heap[self.key]
        if owner is None:
            return None
        items = owner.items_now(m)
        if len(items) != size:
            m.throw(RuntimeError, "dictionary changed size during iteration")
        if at >= size:
            m.heap.put(self.key, (None, at, size))
            return None
        m.heap.put(self.key, (owner, at + 1, size))
        part: Value = _parts(items, self.what)[at]
        return part

    def reload(self, emit: Emitter) -> None:
        owner, at, _ = emit.heap[self.key]
        if owner is None:
            emit.call(iter, TupleValue(()))
        else:
            emit.call(_advanced, owner, Constant(self.what), Constant(at))


def _advanced(owner: dict[Any, Any], what: str, at: int) -> Any:
    iterator = iter(getattr(owner, what)())
    for _ in range(at):
        next(iterator)
    return iterator


def make_dict_iterator(m: Tracer, owner: DictValue, what: str) -> DictIterator:
    key = m.new_key()
    m.heap.new(key, (owner, 0, owner.length(m)), existing=False)
    return DictIterator(key, what)


def _is_key(key: Any, source: Source) -> bool:
    """Whether it is a constant, or an object that is told from others by identity.

    Keys are guarded by identity: a dict that is likely another one in each call may not have such that are, too.
    """
    if type(key) is tuple:
        return all(_is_key(part, source) for part in key)
    return is_plain(key) or isinstance(key, _KEYS) or (_is_kept(source) and (is_frozen(key) or _is_reference(key)))


def _is_kept(source: Source) -> bool:
    """Whether it is found from globals, closures or objects of theirs, or is an attribute of an argument."""
    if not isinstance(source.root, Local):
        return True
    return isinstance(source, InstanceAttr) and isinstance(source.base, Local) and source.base.name == "self"


def _is_reference(key: Any) -> bool:
    by_identity: Any = object.__hash__
    if type(key) is not weakref.ref:
        return False
    target = type(key())
    return target.__hash__ is by_identity and target.__module__ != "builtins"


_KEYS = (type, torch.Tensor, types.FunctionType, types.BuiltinFunctionType, nn.Module)


@kind(dict, OrderedDict, defaultdict)
def wrap_dict(m: Tracer, obj: dict[Any, Any], source: Source) -> Value:
    known = m.known_handle(obj, source)
    if known is not None:
        return known
    m.guard(source, "TYPE_IS", type(obj))
    if not all(_is_key(key, source) for key in obj):
        raise GraphBreak(reasons.UNKNOWN_OBJECT, f"the keys of {source.text}")
    m.guard(source, "KEYS", tuple(obj))
    contents: Items = {}
    for name, item in obj.items():
        value_of_key = m.constant(name) if is_plain(name) else m.realize(m.wrap(name, Known(name)))
        contents[hashable(m, value_of_key)] = (value_of_key, m.wrap(item, Item(source, name)))
    key = m.new_key()
    m.heap.new(key, contents, existing=True)
    factory = None
    if isinstance(obj, defaultdict):
        from_source = obj.default_factory
        m.guard(Attr(source, "default_factory"), "IS", from_source)
        factory = m.constant(from_source)
    value = DictValue(key, type(obj), factory, source=source)
    m.remember_handle(obj, value)
    return value
