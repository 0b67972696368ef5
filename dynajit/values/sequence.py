"""Lists, tuples, named tuples and sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.source import Item, Known, Source
from dynajit.values.base import Emitter, Handle, Tracer, Value
from dynajit.values.constant import UNKNOWN, Constant, as_plain, plain
from dynajit.values.special import of_class, special_method
from dynajit.values.wrap import kind, rule


def index_of(m: Tracer, key: Value) -> Any:
    """A Python int or slice from an index value."""
    key = m.specialise(m.realize(key).bare())
    known = plain(m, key)
    if not isinstance(known, (int, slice)):
        raise GraphBreak(reasons.NO_OPERATION, f"an index of type {type(known).__name__}")
    return known


def pick(m: Tracer, items: tuple[Value, ...], key: Value, name: str) -> Any:
    """`items[key]`: a value, or a tuple of values for a slice."""
    key = key.bare()
    if key.python_type() not in (int, bool, slice):
        m.throw(TypeError, f"{name} indices must be integers or slices, not {key.python_type().__name__}")
    index = index_of(m, key)
    try:
        return items[index]
    except (IndexError, ValueError) as error:
        text = f"{name} index out of range" if isinstance(error, IndexError) else str(error)
        m.throw(type(error), text)


@dataclass(frozen=True, eq=False)
class TupleValue(Value):
    """A tuple, a named tuple or a `torch.Size`. `cls` is its exact type."""

    items: tuple[Value, ...]
    cls: type = tuple

    kind = "tuple"

    def python_type(self) -> type:
        return self.cls

    def as_plain(self, m: Tracer) -> Any:
        values = [as_plain(m, item) for item in self.items]
        if any(value is UNKNOWN for value in values):
            return UNKNOWN
        if self.cls is tuple:
            return tuple(values)
        return self.cls(values) if self.cls is torch.Size else self.cls(*values)

    def getattr(self, m: Tracer, name: str) -> Value:
        fields = field_names(self.cls)
        if name in fields:
            return self.items[fields.index(name)]
        if name == "_fields":
            return m.constant(fields)
        if name in TUPLE_METHODS or (self.cls is torch.Size and name == "numel"):
            return SequenceMethod(self, name)
        special = special_method(self, name)
        if special is not None:
            return special
        if self.cls is not tuple and hasattr(self.cls, name):
            return of_class(m, self, self.cls, name)
        m.throw(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")

    def getitem(self, m: Tracer, key: Value) -> Value:
        found = pick(m, self.items, key, "tuple")
        if isinstance(found, tuple):
            return TupleValue(found, torch.Size if self.cls is torch.Size else tuple)
        return found  # type: ignore[no-any-return]

    def length(self, m: Tracer) -> int:
        return len(self.items)

    def truth(self, m: Tracer) -> bool:
        return bool(self.items)

    def contains(self, m: Tracer, item: Value) -> bool:
        return any(same_or_equal(m, own, item) for own in self.items)

    def iterate(self, m: Tracer) -> Value:
        return make_iterator(m, self, self.items)

    def reload(self, emit: Emitter) -> None:
        if self.cls is tuple:
            for item in self.items:
                emit.load(item)
            emit.build("BUILD_TUPLE", len(self.items))
        elif self.cls is torch.Size:
            emit.call(torch.Size, TupleValue(self.items))
        elif hasattr(self.cls, "_fields"):
            emit.call(self.cls, *self.items)
        else:
            emit.call(self.cls, TupleValue(self.items))


def field_names(cls: type) -> tuple[str, ...]:
    """The names of a named tuple's items, or of those of a result of PyTorch such as `torch.return_types.max`."""
    names: tuple[str, ...] = getattr(cls, "_fields", ())
    return names or (tuple(getattr(cls, "__match_args__", ())) if hasattr(cls, "n_sequence_fields") else ())


TUPLE_METHODS = frozenset({"index", "count", "_replace", "_asdict"})


class Appended(tuple[Value, ...]):
    """Contents of an existing list of which nothing was read: what was appended. Its length is not guarded."""


@dataclass(frozen=True, eq=False)
class ListValue(Handle):
    """A list. Its contents are a tuple of values. obj: the real list, if it existed before the frame."""

    cls: type = list
    obj: list[Any] | None = None

    kind = "list"

    def python_type(self) -> type:
        return self.cls

    def items_now(self, m: Tracer) -> tuple[Value, ...]:
        items: tuple[Value, ...] = m.heap[self.key]
        if isinstance(items, Appended):
            assert self.source is not None
            assert self.obj is not None
            real = list.copy(self.obj)  # a derived class may say something else
            m.guard(self.source, "LENGTH", len(real))
            before = tuple(m.wrap(item, Item(self.source, i)) for i, item in enumerate(real))
            items = before + tuple(items) if items else before
            m.heap.learn(self.key, before, items)
        return items

    def getattr(self, m: Tracer, name: str) -> Value:
        if name in LIST_METHODS:
            return SequenceMethod(self, name)
        special = special_method(self, name)
        if special is not None:
            return special
        if hasattr(list, name):
            self.missing(f"method {name!r}")
        m.throw(AttributeError, f"'list' object has no attribute '{name}'")

    def getitem(self, m: Tracer, key: Value) -> Value:
        found = pick(m, self.items_now(m), key, "list")
        return new_list(m, found) if isinstance(found, tuple) else found

    def setitem(self, m: Tracer, key: Value, value: Value) -> None:
        items, index = list(self.items_now(m)), index_of(m, key)
        try:
            if isinstance(index, slice):
                items[index] = m.unpack(value)
            else:
                items[index] = value
        except (IndexError, ValueError) as error:
            m.throw(type(error), "list assignment index out of range" if isinstance(error, IndexError) else str(error))
        m.heap.put(self.key, tuple(items))

    def delitem(self, m: Tracer, key: Value) -> None:
        items = list(self.items_now(m))
        try:
            del items[index_of(m, key)]
        except IndexError:
            m.throw(IndexError, "list assignment index out of range")
        m.heap.put(self.key, tuple(items))

    def length(self, m: Tracer) -> int:
        return len(self.items_now(m))

    def truth(self, m: Tracer) -> bool:
        return bool(self.items_now(m))

    def contains(self, m: Tracer, item: Value) -> bool:
        return any(same_or_equal(m, own, item) for own in self.items_now(m))

    def iterate(self, m: Tracer) -> Value:
        return make_iterator(m, self, None)

    def reload(self, emit: Emitter) -> None:
        if self.cls is not list:
            self.missing("rebuilding the items alone")
        items = emit.heap[self.key]
        for item in items:
            emit.load(item)
        emit.build("BUILD_LIST", len(items))


def new_list(m: Tracer, items: Sequence[Value]) -> ListValue:
    key = m.new_key()
    m.heap.new(key, tuple(items), existing=False)
    return ListValue(key)


def same_or_equal(m: Tracer, left: Value, right: Value) -> bool:
    """`left is right or left == right`, as containers compare."""
    left, right = m.realize(left), m.realize(right)
    if left is right or (left.identity() is not None and left.identity() == right.identity()):
        return True
    return m.is_true(m.compare("==", left, right))


@dataclass(frozen=True, eq=False)
class SequenceMethod(Value):
    owner: TupleValue | ListValue
    name: str

    kind = "method"

    def python_type(self) -> type:
        return type([].append)

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        if isinstance(self.owner, ListValue):
            return LIST_METHODS[self.name](m, self.owner, *args, **kwargs)
        return _tuple_method(m, self.owner, self.name, args, kwargs)

    def reload(self, emit: Emitter) -> None:
        emit.load(self.owner)
        emit.instruction("LOAD_ATTR", self.name)


def _tuple_method(m: Tracer, owner: TupleValue, name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    if name == "numel":
        size = plain(m, owner)
        return Constant(torch.Size(size).numel())
    if name == "_asdict":
        fields = owner.cls._fields  # type: ignore[attr-defined]
        pairs = [TupleValue((Constant(field), item)) for field, item in zip(fields, owner.items, strict=True)]
        return m.call(m.wrap(dict, Known(dict)), [TupleValue(tuple(pairs))], {})
    if name == "_replace":
        fields = owner.cls._fields  # type: ignore[attr-defined]
        return TupleValue(tuple(kwargs.get(f, item) for f, item in zip(fields, owner.items, strict=True)), owner.cls)
    if name == "index":
        return _index(m, owner.items, "tuple.index(x): x not in tuple", *args)
    if name == "count":
        return Constant(sum(same_or_equal(m, item, args[0]) for item in owner.items))
    raise GraphBreak(reasons.NO_OPERATION, f"tuple.{name}")


def _index(m: Tracer, items: tuple[Value, ...], text: str, item: Value, *bounds: Value) -> Value:
    start, stop = ([plain(m, b) for b in bounds] + [0, len(items)][len(bounds) :])[:2]
    for i in range(len(items))[start:stop]:
        if same_or_equal(m, items[i], item):
            return Constant(i)
    m.throw(ValueError, text)


def _append(m: Tracer, owner: ListValue, item: Value) -> Value:
    return _extend(m, owner, TupleValue((item,)))


def _extend(m: Tracer, owner: ListValue, items: Value) -> Value:
    more, now = m.unpack(items), m.heap[owner.key]
    m.heap.put(owner.key, Appended((*now, *more)) if isinstance(now, Appended) else now + more)
    return Constant(None)


def _insert(m: Tracer, owner: ListValue, at: Value, item: Value) -> Value:
    items = list(owner.items_now(m))
    items.insert(index_of(m, at), item)
    m.heap.put(owner.key, tuple(items))
    return Constant(None)


def _pop(m: Tracer, owner: ListValue, at: Value | None = None) -> Value:
    items = list(owner.items_now(m))
    if not items:
        m.throw(IndexError, "pop from empty list")
    try:
        item = items.pop(-1 if at is None else index_of(m, at))
    except IndexError:
        m.throw(IndexError, "pop index out of range")
    m.heap.put(owner.key, tuple(items))
    return item


def _remove(m: Tracer, owner: ListValue, item: Value) -> Value:
    items = owner.items_now(m)
    for i, own in enumerate(items):
        if same_or_equal(m, own, item):
            m.heap.put(owner.key, items[:i] + items[i + 1 :])
            return Constant(None)
    m.throw(ValueError, "list.remove(x): x not in list")


def _set_items(change: Callable[[tuple[Value, ...]], tuple[Value, ...]]) -> Callable[..., Value]:
    def method(m: Tracer, owner: ListValue) -> Value:
        m.heap.put(owner.key, change(owner.items_now(m)))
        return Constant(None)

    return method


def sorted_items(
    m: Tracer, items: tuple[Value, ...], key: Value | None = None, reverse: Value | None = None
) -> tuple[Value, ...]:
    """As `sorted`."""
    order = _Order(m, items, key, reverse)
    order.sort()
    return order.items()


class _Order:
    """Items that Python sorts: it compares known keys, or asks the program where they are not all known."""

    def __init__(self, m: Tracer, items: tuple[Value, ...], key: Value | None, reverse: Value | None) -> None:
        self.m, self.given = m, items
        self.backwards = reverse is not None and m.is_true(reverse)
        keys = [m.realize(item if _is_none(key) else m.call(key, [item], {})) for item in items]  # type: ignore[arg-type]
        known = [as_plain(m, m.specialise(value)) for value in keys]
        self.keys: list[Any] = known if UNKNOWN not in known else [_Asking(m, value) for value in keys]
        self.places = list(range(len(items)))

    def sort(self) -> None:
        try:
            self.places.sort(key=self.keys.__getitem__, reverse=self.backwards)
        except TypeError as error:
            self.m.throw(TypeError, *error.args)

    def items(self) -> tuple[Value, ...]:
        """In the order of the places now: where a comparison raises, items have been moved before."""
        return tuple(self.given[place] for place in self.places)


@dataclass(frozen=True)
class _Asking:
    """A key whose comparison is evaluated."""

    m: Tracer
    key: Value

    def __lt__(self, other: _Asking) -> bool:
        return self.m.is_true(self.m.compare("<", self.key, other.key))


def _is_none(value: Value | None) -> bool:
    return value is None or (isinstance(value, Constant) and value.value is None)


def _sort(m: Tracer, owner: ListValue, key: Value | None = None, reverse: Value | None = None) -> Value:
    order = _Order(m, owner.items_now(m), key, reverse)
    try:
        order.sort()
    finally:
        m.heap.put(owner.key, order.items())
    return Constant(None)


LIST_METHODS: dict[str, Callable[..., Value]] = {
    "append": _append,
    "extend": _extend,
    "insert": _insert,
    "pop": _pop,
    "remove": _remove,
    "sort": _sort,
    "clear": _set_items(lambda items: ()),
    "reverse": _set_items(lambda items: items[::-1]),
    "copy": lambda m, owner: new_list(m, owner.items_now(m)),
    "index": lambda m, owner, *args: _index(m, owner.items_now(m), "value is not in list", *args),
    "count": lambda m, owner, item: Constant(sum(same_or_equal(m, own, item) for own in owner.items_now(m))),
    "__len__": lambda m, owner: Constant(owner.length(m)),
    "__getitem__": lambda m, owner, key: owner.getitem(m, key),
    "__contains__": lambda m, owner, item: Constant(owner.contains(m, item)),
    "__iter__": lambda m, owner: owner.iterate(m),
}


@dataclass(frozen=True, eq=False)
class SequenceIterator(Handle):
    """A list or tuple iterator. Contents: (owner or None when used up, position)."""

    cls: type

    kind = "iterator"

    def python_type(self) -> type:
        return self.cls

    def getattr(self, m: Tracer, name: str) -> Value:
        return special_method(self, name) or self.missing(f"attribute {name!r}")

    def iterate(self, m: Tracer) -> Value:
        return self

    def next(self, m: Tracer) -> Value | None:
        owner, at = m.heap[self.key]
        if owner is None:
            return None
        items = owner.items_now(m) if isinstance(owner, ListValue) else owner.items
        if at >= len(items):
            m.heap.put(self.key, (None, at))
            return None
        m.heap.put(self.key, (owner, at + 1))
        item: Value = items[at]
        return item

    def reload(self, emit: Emitter) -> None:
        owner, at = emit.heap[self.key]
        if owner is None:
            emit.call(iter, TupleValue(()))
        elif at == 0:
            emit.call(iter, owner)
        else:
            emit.call(_advanced, owner, Constant(at))


def _advanced(owner: Any, at: int) -> Any:
    iterator = iter(owner)
    iterator.__setstate__(at)
    return iterator


def make_iterator(m: Tracer, owner: Value, items: tuple[Value, ...] | None) -> SequenceIterator:
    key = m.new_key()
    m.heap.new(key, (owner, 0), existing=False)
    return SequenceIterator(key, type(iter([])) if isinstance(owner, ListValue) else type(iter(())))


@kind(list)
def wrap_list(m: Tracer, obj: list[Any], source: Source) -> Value:
    known = m.known_handle(obj, source)
    if known is not None:
        return known
    m.guard(source, "TYPE_IS", list)
    key = m.new_key()
    m.heap.new(key, Appended(), existing=True)
    value = ListValue(key, list, obj, source=source)
    m.remember_handle(obj, value)
    return value


@kind(tuple)
def wrap_tuple(m: Tracer, obj: tuple[Any, ...], source: Source) -> Value:
    return _wrap_items(m, obj, source)


@kind(torch.Size)
def wrap_size(m: Tracer, obj: torch.Size, source: Source) -> Value:
    m.guard(source, "EQUALS", obj)
    return TupleValue(tuple(Constant(int(n)) for n in obj), torch.Size, source=source)


@rule(5, lambda obj: isinstance(obj, tuple) and hasattr(type(obj), "_fields"))
def wrap_named_tuple(m: Tracer, obj: tuple[Any, ...], source: Source) -> Value:
    return _wrap_items(m, obj, source)


def _wrap_items(m: Tracer, obj: tuple[Any, ...], source: Source) -> Value:
    m.guard(source, "TYPE_IS", type(obj))
    m.guard(source, "LENGTH", len(obj))
    items = tuple(m.wrap(item, Item(source, i)) for i, item in enumerate(obj))
    return TupleValue(items, type(obj), source=source)


def structure(m: Tracer, value: Value) -> Any:
    """The Python object of a value that is known, in lists and tuples too; breaks the graph otherwise."""
    value = m.realize(value)
    if isinstance(value, (ListValue, TupleValue)):
        items = [structure(m, item) for item in m.unpack(value)]
        return items if isinstance(value, ListValue) else value.cls(items) if value.cls is tuple else plain(m, value)
    return plain(m, value)
