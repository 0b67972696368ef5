"""Iterators made inside the function, and iterators that existed before it."""

from __future__ import annotations

import itertools
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynajit import reasons
from dynajit.errors import GraphBreak, Raised
from dynajit.source import Known, Source
from dynajit.values.base import Emitter, Handle, Tracer, Value
from dynajit.values.constant import Constant
from dynajit.values.sequence import TupleValue
from dynajit.values.special import special_method
from dynajit.values.wrap import kind


@dataclass(frozen=True, eq=False)
class Iterator(Handle):
    kind = "iterator"

    def iterate(self, m: Tracer) -> Value:
        return self

    def getattr(self, m: Tracer, name: str) -> Value:
        return special_method(self, name) or self.missing(f"attribute {name!r}")


@dataclass(frozen=True, eq=False)
class RangeIterator(Iterator):
    """Contents: what is left of the range."""

    def python_type(self) -> type:
        return type(iter(range(0)))

    def next(self, m: Tracer) -> Value | None:
        left: range = m.heap[self.key]
        if not left:
            return None
        m.heap.put(self.key, left[1:])
        return Constant(left[0])

    def reload(self, emit: Emitter) -> None:
        emit.call(iter, Constant(emit.heap[self.key]))


def make_range_iterator(m: Tracer, obj: range) -> Value:
    key = m.new_key()
    m.heap.new(key, obj, existing=False)
    return RangeIterator(key)


@dataclass(frozen=True, eq=False)
class EnumerateIterator(Iterator):
    """Contents: the next number."""

    inner: Value

    def python_type(self) -> type:
        return enumerate

    def next(self, m: Tracer) -> Value | None:
        item = m.next(self.inner)
        if item is None:
            return None
        count: int = m.heap[self.key]
        m.heap.put(self.key, count + 1)
        return TupleValue((Constant(count), item))

    def reload(self, emit: Emitter) -> None:
        emit.call(enumerate, self.inner, Constant(emit.heap[self.key]))


@dataclass(frozen=True, eq=False)
class ZipIterator(Iterator):
    inners: tuple[Value, ...]
    strict: bool

    def python_type(self) -> type:
        return zip

    def next(self, m: Tracer) -> Value | None:
        items: list[Value] = []
        for place, inner in enumerate(self.inners, 1):
            item = m.next(inner)
            if item is None:
                if self.strict:
                    self._check_all_ended(m, place, items)
                return None
            items.append(item)
        return TupleValue(tuple(items)) if items else None

    def _check_all_ended(self, m: Tracer, place: int, items: list[Value]) -> None:
        plural = " " if place == 2 else "s 1-"
        if items:
            m.throw(ValueError, f"zip() argument {place} is shorter than argument{plural}{place - 1}")
        for later, inner in enumerate(self.inners[place:], place + 1):
            if m.next(inner) is not None:
                plural = " " if later == 2 else "s 1-"
                m.throw(ValueError, f"zip() argument {later} is longer than argument{plural}{later - 1}")

    def reload(self, emit: Emitter) -> None:
        emit.call(zip, *self.inners, kwargs={"strict": Constant(True)} if self.strict else None)


@dataclass(frozen=True, eq=False)
class MapIterator(Iterator):
    function: Value
    inners: tuple[Value, ...]

    def python_type(self) -> type:
        return map

    def next(self, m: Tracer) -> Value | None:
        items = []
        for inner in self.inners:
            item = m.next(inner)
            if item is None:
                return None
            items.append(item)
        return m.call(self.function, items, {})

    def reload(self, emit: Emitter) -> None:
        emit.call(map, self.function, *self.inners)


@dataclass(frozen=True, eq=False)
class FilterIterator(Iterator):
    function: Value
    inner: Value

    def python_type(self) -> type:
        return filter

    def next(self, m: Tracer) -> Value | None:
        plain_truth = isinstance(self.function, Constant) and self.function.value is None
        while (item := m.next(self.inner)) is not None:
            if m.is_true(item if plain_truth else m.call(self.function, [item], {})):
                return item
        return None

    def reload(self, emit: Emitter) -> None:
        emit.call(filter, self.function, self.inner)


@dataclass(frozen=True, eq=False)
class GeneratorValue(Iterator):
    """A generator whose body is evaluated as it is consumed. Contents: its suspended frame, or None when it ended."""

    name: str

    kind = "generator"

    def python_type(self) -> type:
        return types.GeneratorType

    def next(self, m: Tracer) -> Value | None:
        return self.resume(m, Constant(None))

    def resume(self, m: Tracer, sent: Value, error: Any = None) -> Value | None:
        """The next yielded value, or None at the end; the return value is then in the contents."""
        state = m.heap[self.key]
        if not hasattr(state, "frame"):
            if error is not None:
                raise Raised(error)
            return None
        try:
            yielded, later, result = m.run_generator(state, sent, error)
        except Raised:
            m.heap.put(self.key, Ended(Constant(None)))  # an error ends it
            raise
        m.heap.put(self.key, later if yielded is not None else Ended(result or Constant(None)))
        return yielded

    def getattr(self, m: Tracer, name: str) -> Value:
        if name in ("send", "close", "throw"):
            return GeneratorMethod(self, name)
        return super().getattr(m, name)

    def reload(self, emit: Emitter) -> None:
        raise GraphBreak(reasons.ASYNC, f"the generator {self.name}")


@dataclass(frozen=True, eq=False)
class LibraryIterator(Iterator):
    """An iterator of a library class that is evaluated as a generator. Its key is that of the generator."""

    generator: GeneratorValue
    cls: type

    def python_type(self) -> type:
        return self.cls

    def next(self, m: Tracer) -> Value | None:
        return self.generator.next(m)

    def reload(self, emit: Emitter) -> None:
        raise GraphBreak(reasons.ASYNC, f"a {self.cls.__name__}")


@dataclass(frozen=True)
class Ended:
    """Contents of a generator that has ended: the value that it returned."""

    result: Value


@dataclass(frozen=True, eq=False)
class GeneratorMethod(Value):
    owner: GeneratorValue
    name: str

    kind = "method"

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        if self.name == "close":
            return self._close(m)
        if self.name == "throw" and (len(args) != 1 or kwargs):
            raise GraphBreak(reasons.ASYNC, "generator.throw() with several arguments")
        ended = isinstance(m.heap[self.owner.key], Ended)
        if self.name == "throw":
            found = self.owner.resume(m, Constant(None), m.exception(args[0]))
        else:
            found = self.owner.resume(m, args[0])
        if found is None:
            result = m.heap[self.owner.key].result
            m.throw(StopIteration, *([] if ended or is_none(result) else [result]))
        return found

    def _close(self, m: Tracer) -> Value:
        """As gen_close of Objects/genobject.c: the body is left by GeneratorExit, if it has begun."""
        state = m.heap[self.owner.key]
        if hasattr(state, "frame") and state.started:
            try:
                found = self.owner.resume(m, Constant(None), m.exception(m.wrap(GeneratorExit, Known(GeneratorExit))))
            except Raised as error:
                if not issubclass(error.value.python_type(), (GeneratorExit, StopIteration)):
                    raise
                found = None
            if found is not None:
                m.throw(RuntimeError, "generator ignored GeneratorExit")
            result = m.heap[self.owner.key]
            if CLOSE_RETURNS and isinstance(result, Ended):
                return result.result
        m.heap.put(self.owner.key, Ended(Constant(None)))
        return Constant(None)

    def reload(self, emit: Emitter) -> None:
        emit.load(self.owner)
        emit.instruction("LOAD_ATTR", self.name)


def _ends_by_closing() -> Any:
    try:
        yield
    except GeneratorExit:
        return 1


def _close_returns() -> bool:
    """Whether `close()` returns what the generator returns (CPython 3.13 and later)."""
    generator = _ends_by_closing()
    next(generator)
    return generator.close() is not None


CLOSE_RETURNS = _close_returns()


def is_none(value: Value) -> bool:
    return isinstance(value, Constant) and value.value is None


@dataclass(frozen=True, eq=False)
class OpaqueIterator(Value):
    """An iterator that existed before the frame. Its position is never looked at: only Python fetches its items."""

    obj: Any

    kind = "iterator"

    def python_type(self) -> type:
        return type(self.obj)

    def identity(self) -> Any:
        return ("object", id(self.obj))

    def iterate(self, m: Tracer) -> Value:
        return self

    def next(self, m: Tracer) -> Value | None:
        raise GraphBreak(reasons.ITERATOR, type(self.obj).__name__)


_nothing: tuple[int, ...] = ()
_SAMPLES: tuple[Any, ...] = (
    iter([0]), iter(_nothing), iter(range(0)), iter(range(2**70)), iter({0}), iter({0: 0}), iter({0: 0}.values()),
    iter({0: 0}.items()), iter(""), iter(b""), reversed([0]), reversed({0: 0}), zip(_nothing), enumerate(_nothing),
    map(int, _nothing), filter(int, _nothing), itertools.count(), itertools.chain(_nothing), itertools.cycle(_nothing),
    itertools.repeat(None), itertools.islice(_nothing, 0), itertools.product(_nothing), itertools.groupby(_nothing),
    (item for item in _nothing), reversed(_nothing),
)  # fmt: skip
_ITERATORS = tuple(type(sample) for sample in _SAMPLES)


@kind(*dict.fromkeys(_ITERATORS))
def wrap_iterator(m: Tracer, obj: Any, source: Source) -> Value:
    m.guard(source, "TYPE_IS", type(obj))
    return OpaqueIterator(obj, source=source)
