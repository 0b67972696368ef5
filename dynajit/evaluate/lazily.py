"""Iterators of the standard library as generators that the evaluator follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynajit.source import Known
from dynajit.values.base import Value
from dynajit.values.function import FunctionValue
from dynajit.values.iterator import GeneratorValue, LibraryIterator

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine


def lazily(m: Machine, cls: type, function: Any, /, *args: Value, **kwargs: Value) -> Value:
    """An iterator of type `cls` that gives what the generator function (of `polyfills`) gives."""
    made = m.inline(FunctionValue(function, source=Known(function)), args, kwargs)
    assert isinstance(made, GeneratorValue)
    return LibraryIterator(made.key, made, cls)
