# ruff: noqa: UP028, B007 - written for the evaluator: every step is an instruction that it follows
"""What functions of itertools and some others do, written as Python that the evaluator can follow.

Generators are evaluated, never called: lazily, item by item, as the originals work (Modules/itertoolsmodule.c).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch


def chain(*iterables: Iterable[Any]) -> Iterator[Any]:
    for iterable in iterables:
        for item in iterable:
            yield item


def chain_from_iterable(iterables: Iterable[Iterable[Any]]) -> Iterator[Any]:
    for iterable in iterables:
        for item in iterable:
            yield item


def islice(iterable: Iterable[Any], start: int, stop: int | None, step: int) -> Iterator[Any]:
    iterator = iter(iterable)
    count, wanted = 0, start
    while True:
        while count < wanted:
            for _ in iterator:
                break
            else:
                return
            count += 1
        if stop is not None and count >= stop:
            return
        for item in iterator:
            break
        else:
            return
        count += 1
        wanted += step
        if stop is not None and wanted > stop:
            wanted = stop
        yield item


def repeat(value: Any) -> Iterator[Any]:
    while True:
        yield value


def count(start: Any = 0, step: Any = 1) -> Iterator[Any]:
    while True:
        yield start
        start = start + step


def cycle(iterable: Iterable[Any]) -> Iterator[Any]:
    seen = []
    for item in iterable:
        yield item
        seen.append(item)
    while seen:
        for item in seen:
            yield item


def takewhile(predicate: Callable[[Any], Any], iterable: Iterable[Any]) -> Iterator[Any]:
    for item in iterable:
        if not predicate(item):
            return
        yield item


def dropwhile(predicate: Callable[[Any], Any], iterable: Iterable[Any]) -> Iterator[Any]:
    iterator = iter(iterable)
    for item in iterator:
        if not predicate(item):
            yield item
            break
    for item in iterator:
        yield item


def filterfalse(predicate: Callable[[Any], Any] | None, iterable: Iterable[Any]) -> Iterator[Any]:
    for item in iterable:
        if not (item if predicate is None else predicate(item)):
            yield item


def starmap(function: Callable[..., Any], iterable: Iterable[Iterable[Any]]) -> Iterator[Any]:
    for args in iterable:
        yield function(*args)


def accumulate(
    iterable: Iterable[Any], function: Callable[[Any, Any], Any] | None = None, initial: Any = None
) -> Iterator[Any]:
    join = operator.add if function is None else function
    iterator = iter(iterable)
    total = initial
    if initial is None:
        for item in iterator:
            total = item
            break
        else:
            return
    yield total
    for item in iterator:
        total = join(total, item)
        yield total


def compress(data: Iterable[Any], selectors: Iterable[Any]) -> Iterator[Any]:
    for item, chosen in zip(data, selectors):  # noqa: B905 - the shorter one ends it
        if chosen:
            yield item


def pairwise(iterable: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    iterator = iter(iterable)
    for first in iterator:
        break
    else:
        return
    for second in iterator:
        yield first, second
        first = second


def zip_longest(*iterables: Iterable[Any], fillvalue: Any = None) -> Iterator[tuple[Any, ...]]:
    iterators: list[Any] = [iter(iterable) for iterable in iterables]
    left = len(iterators)
    while left:
        row = []
        for place in range(len(iterators)):
            item = fillvalue
            if iterators[place] is not None:
                for item in iterators[place]:
                    break
                else:
                    item = fillvalue
                    left -= 1
                    iterators[place] = None
                    if not left:
                        return
            row.append(item)
        yield tuple(row)


def call_until(function: Callable[[], Any], sentinel: Any) -> Iterator[Any]:
    while True:
        try:
            item = function()
        except StopIteration:
            return
        if item is sentinel or item == sentinel:
            return
        yield item


def from_the_last(sequence: Any, count: int) -> Iterator[Any]:
    for index in range(count - 1, -1, -1):
        try:
            item = sequence[index]
        except (IndexError, StopIteration):
            return
        yield item


def count_elements(mapping: Any, iterable: Iterable[Any]) -> None:
    for item in iterable:
        mapping[item] = mapping.get(item, 0) + 1


def optimizer_step(step: Callable[..., Any], optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    with torch.set_grad_enabled(optimizer.defaults["differentiable"]):
        return step(optimizer, *args, **kwargs)


def heappush(heap: list[Any], item: Any) -> None:
    heap.append(item)
    _towards_the_root(heap, 0, len(heap) - 1)


def heappop(heap: list[Any]) -> Any:
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    if not heap:
        return last
    first = heap[0]
    heap[0] = last
    _towards_a_leaf(heap, 0)
    return first


def heapreplace(heap: list[Any], item: Any) -> Any:
    if not heap:
        raise IndexError("index out of range")
    first = heap[0]
    heap[0] = item
    _towards_a_leaf(heap, 0)
    return first


def heappushpop(heap: list[Any], item: Any) -> Any:
    if heap and heap[0] < item:
        return heapreplace(heap, item)
    return item


def heapify(heap: list[Any]) -> None:
    for start in range(len(heap) // 2 - 1, -1, -1):
        _towards_a_leaf(heap, start)


def heappop_max(heap: list[Any]) -> Any:
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    if not heap:
        return last
    first = heap[0]
    heap[0] = last
    _towards_a_leaf_of_max(heap, 0)
    return first


def heapreplace_max(heap: list[Any], item: Any) -> Any:
    if not heap:
        raise IndexError("index out of range")
    first = heap[0]
    heap[0] = item
    _towards_a_leaf_of_max(heap, 0)
    return first


def heapify_max(heap: list[Any]) -> None:
    for start in range(len(heap) // 2 - 1, -1, -1):
        _towards_a_leaf_of_max(heap, start)


def _towards_the_root(heap: list[Any], start: int, at: int) -> None:
    """Swaps an item with its parents, down to place `start`: what is compared, and in which order, is as in C."""
    while at > start:
        above = (at - 1) >> 1
        if not heap[at] < heap[above]:
            return
        heap[at], heap[above] = heap[above], heap[at]
        at = above


def _towards_a_leaf(heap: list[Any], start: int) -> None:
    """The smaller children come up all the way; then the item that was at `start` goes where it belongs."""
    at, half = start, len(heap) >> 1
    while at < half:
        child = 2 * at + 1
        if child + 1 < len(heap) and not heap[child] < heap[child + 1]:
            child += 1
        heap[at], heap[child] = heap[child], heap[at]
        at = child
    _towards_the_root(heap, start, at)


def _towards_a_leaf_of_max(heap: list[Any], start: int) -> None:
    at, half = start, len(heap) >> 1
    while at < half:
        child = 2 * at + 1
        if child + 1 < len(heap) and not heap[child + 1] < heap[child]:
            child += 1
        heap[at], heap[child] = heap[child], heap[at]
        at = child
    while at > start:
        above = (at - 1) >> 1
        if not heap[above] < heap[at]:
            return
        heap[at], heap[above] = heap[above], heap[at]
        at = above


def bisect_right(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> int:
    if lo < 0:
        raise ValueError("lo must be non-negative")
    high = len(a) if hi is None or hi == -1 else hi
    while lo < high:
        middle = (lo + high) // 2
        found = a[middle]
        if x < (found if key is None else key(found)):
            high = middle
        else:
            lo = middle + 1
    return lo


def bisect_left(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> int:
    if lo < 0:
        raise ValueError("lo must be non-negative")
    high = len(a) if hi is None or hi == -1 else hi
    while lo < high:
        middle = (lo + high) // 2
        found = a[middle]
        if (found if key is None else key(found)) < x:
            lo = middle + 1
        else:
            high = middle
    return lo


def insort_right(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> None:
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)


def insort_left(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> None:
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)
