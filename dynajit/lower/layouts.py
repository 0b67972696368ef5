"""The order in which the dimensions of a tensor lie in memory, where that says all about its strides."""

from __future__ import annotations

from collections.abc import Sequence

Layout = tuple[str, tuple[int, ...]]  # ("order", dimensions by falling stride) or ("strides", the strides)


def layout_of(shape: Sequence[int], strides: Sequence[int]) -> Layout:
    """The order for a tensor that fills its part of memory, so that it can be had in other sizes; else the strides."""
    for order in (range(len(shape)), sorted(range(len(shape)), key=lambda d: -strides[d])):
        if _dense(shape, order) == list(strides):
            return "order", tuple(order)
    return "strides", tuple(strides)


def strides_of(layout: Layout, shape: Sequence[int]) -> tuple[int, ...]:
    kind, numbers = layout
    return tuple(_dense(shape, numbers)) if kind == "order" else numbers


def _dense(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(shape[d], 1)
    return strides
