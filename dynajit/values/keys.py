"""Keys of dicts and elements of sets whose class has an `__eq__` and a `__hash__` of its own: both are evaluated."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.values.base import Handle, Tracer, Value
from dynajit.values.constant import is_plain, plain
from dynajit.values.heap import Heap


class ByMethods:
    """Told from others as Python tells them: by the hash at the time it was put there, then by `==`.

    The methods must not change anything: a dict of the evaluator calls them more often than the real one.
    """

    def __init__(self, m: Tracer, value: Value) -> None:
        self.m, self.value = m, value
        method: Any = value.method(m, "__hash__")  # type: ignore[attr-defined]
        found = plain(m, self._calmly(lambda: m.call(method, [value], {})))
        if not isinstance(found, int):
            m.throw(TypeError, "__hash__ method should return an integer")
        self._hash = hash(found)
        self._state = _state(m.heap, value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ByMethods) and other.value.identity() == self.value.identity():
            return True
        against = other.value if isinstance(other, ByMethods) else self.m.constant(other)
        return self.m.is_true(self._calmly(lambda: self.m.compare("==", self.value, against)))

    def _calmly(self, act: Callable[[], Value]) -> Value:
        mark = self.m.heap.mark
        answer = act()
        if self.m.heap.changed_since(mark):
            raise GraphBreak(reasons.NO_OPERATION, f"{self.value.describe()} as a key, whose methods change something")
        return answer

    def demand_unchanged(self, heap: Heap) -> None:
        """A dict that is made again hashes its keys again: they must be as they were."""
        if _state(heap, self.value) != self._state:
            raise GraphBreak(reasons.NO_OPERATION, f"{self.value.describe()}, a key that has changed")


def _state(heap: Heap, value: Value) -> list[tuple[int, int]]:
    """What the object and all that it refers to contain now."""
    found: dict[int, Any] = {}
    left = [value]
    while left:
        here = left.pop()
        if isinstance(here, Handle) and here.key not in found:
            found[here.key] = heap[here.key]
            left += _values_in(found[here.key])
        left += [part for part in (getattr(here, "storage", None),) if isinstance(part, Value)]
        left += getattr(here, "items", ()) if here.kind == "tuple" else ()
    return [(key, id(contents)) for key, contents in found.items()]


def _values_in(contents: Any) -> Iterator[Value]:
    parts: Iterable[Any] = contents.values() if isinstance(contents, dict) else contents
    for part in parts if isinstance(contents, (dict, tuple)) else ():
        if isinstance(part, tuple):
            yield from (item for item in part if isinstance(item, Value))
        elif isinstance(part, Value):
            yield part


def keyed_by_methods(names: Iterable[Any]) -> list[ByMethods]:
    """Those of the names of a dict that are, inside tuples too."""
    found = []
    for name in names:
        if isinstance(name, ByMethods):
            found.append(name)
        elif isinstance(name, tuple):
            found += keyed_by_methods(name)
    return found


def is_frozen(obj: Any) -> bool:
    """An instance of a frozen dataclass with its generated methods and constants in all fields: a key for good."""
    cls = type(obj)
    params = cls.__dict__.get("__dataclass_params__")
    if params is None or not (params.frozen and params.eq) or "__getattr__" in vars(cls):
        return False
    generated = all(_is_generated(cls, name) for name in ("__eq__", "__hash__"))
    return generated and all(is_plain(getattr(obj, field.name, obj)) for field in dataclasses.fields(obj))


def _is_generated(cls: type, name: str) -> bool:
    """The code of methods that `dataclasses` writes has no file."""
    code = getattr(cls.__dict__.get(name), "__code__", None)
    return code is not None and code.co_filename.startswith("<")
