"""Heaps, bisection and comparison functions: `heapq`, `bisect` and `functools.cmp_to_key`."""

from __future__ import annotations

import bisect
import functools
import heapq
from types import FunctionType
from typing import Any, cast

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate import polyfills
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.source import Known
from dynajit.values.base import Value
from dynajit.values.comparing import new_comparison
from dynajit.values.function import FunctionValue
from dynajit.values.sequence import ListValue

_MOST = 2500  # larger heaps are put in order another way (cache_friendly_heapify of Modules/_heapqmodule.c)


def _followed(polyfill: Any) -> FunctionValue:
    return FunctionValue(cast(FunctionType, polyfill), source=Known(polyfill))


def _of_heap(function: Any, polyfill: Any) -> None:
    followed = _followed(polyfill)

    @builtin(function)
    def run(m: Machine, heap: Value, *item: Value) -> Value:
        if not isinstance(heap, ListValue) or heap.length(m) > _MOST:
            raise GraphBreak(reasons.OPAQUE_CALL, f"heapq.{function.__name__} of {heap.describe()}")
        return m.inline(followed, [heap, *item], {})


for _name in ("heappush", "heappop", "heapreplace", "heappushpop", "heapify"):
    _of_heap(getattr(heapq, _name), getattr(polyfills, _name))
for _name in ("heappop_max", "heapreplace_max", "heapify_max"):  # what `merge` and `nsmallest` call
    _of_heap(getattr(heapq, f"_{_name}"), getattr(polyfills, _name))


def _of_sorted(function: Any, polyfill: Any) -> None:
    followed = _followed(polyfill)
    builtin(function)(lambda m, *args, **kwargs: m.inline(followed, args, kwargs))


for _name in ("bisect_right", "bisect_left", "insort_right", "insort_left"):
    _of_sorted(getattr(bisect, _name), getattr(polyfills, _name))


@builtin(functools.cmp_to_key)
def cmp_to_key(m: Machine, mycmp: Value) -> Value:
    return new_comparison(m, mycmp, None)
