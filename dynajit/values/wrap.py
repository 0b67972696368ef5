"""From a Python object and its source to a value, through the table that the kinds fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from dynajit.source import Source
from dynajit.values.base import Tracer, Value

Maker = Callable[[Tracer, Any, Source], Value]
F = TypeVar("F", bound=Maker)

BY_TYPE: dict[type, Maker] = {}
BY_RULE: list[tuple[int, Callable[[Any], bool], Maker]] = []


def kind(*types: type) -> Callable[[F], F]:
    """Register how objects of exactly these types become values."""

    def register(make: F) -> F:
        for cls in types:
            assert cls not in BY_TYPE, cls
            BY_TYPE[cls] = make
        return make

    return register


def rule(order: int, applies: Callable[[Any], bool]) -> Callable[[F], F]:
    """Register how objects that no exact type covers become values; lower `order` is asked first."""

    def register(make: F) -> F:
        BY_RULE.append((order, applies, make))
        BY_RULE.sort(key=lambda row: row[0])
        return make

    return register


def wrap(m: Tracer, obj: Any, source: Source) -> Value:
    make = BY_TYPE.get(type(obj))
    if make is not None:
        return make(m, obj, source)
    for _, applies, make in BY_RULE:
        if applies(obj):
            return make(m, obj, source)
    raise AssertionError("the last rule takes everything")
