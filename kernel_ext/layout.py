"""Positions for the boxes of a graph: layers from top to bottom, long graphs folded into columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

GAP_X, GAP_Y, GUTTER = 18, 22, 46


@dataclass(frozen=True)
class Box:
    """inputs: keys of the boxes that it reads."""

    key: str
    width: float
    height: float
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placed:
    """x, y: the upper left corner. column: which fold of the strip it stands in."""

    x: float
    y: float
    column: int
    layer: int


@dataclass(frozen=True)
class Layout:
    at: Mapping[str, Placed]
    width: float
    height: float


def place(boxes: Sequence[Box]) -> Layout:
    """Boxes come in topological order: each after the ones that it reads."""
    layers = _ordered(_layers(boxes))
    columns = _fold(layers)
    at: dict[str, Placed] = {}
    left, height, number = 0.0, 0.0, 0
    for column, rows in enumerate(columns):
        width = max(_width(row) for row in rows)
        top = 0.0
        for row in rows:
            x = left + (width - _width(row)) / 2
            for box in row:
                at[box.key] = Placed(x, top, column, number)
                x += box.width + GAP_X
            top += max(box.height for box in row) + GAP_Y
            number += 1
        left += width + GUTTER
        height = max(height, top - GAP_Y)
    return Layout(at, max(0.0, left - GUTTER), height)


def _layers(boxes: Sequence[Box]) -> list[list[Box]]:
    """Longest path from above; a box that reads nothing stands just above its first reader."""
    depth: dict[str, int] = {}
    for box in boxes:
        depth[box.key] = 1 + max((depth[key] for key in box.inputs if key in depth), default=-1)
    readers: dict[str, int] = {}
    for box in boxes:
        for key in box.inputs:
            readers[key] = min(readers.get(key, depth[box.key]), depth[box.key])
    rows: dict[int, list[Box]] = {}
    for box in boxes:
        row = depth[box.key] if box.inputs else max(0, readers.get(box.key, 1) - 1)
        rows.setdefault(row, []).append(box)
    return [rows[row] for row in sorted(rows)]


def _ordered(layers: list[list[Box]]) -> list[list[Box]]:
    """Each layer in the order of what its boxes read, so that few lines cross."""
    position: dict[str, float] = {}
    result = []
    for layer in layers:
        ordered = sorted(layer, key=lambda box: _mean([position[key] for key in box.inputs if key in position]))
        for i, box in enumerate(ordered):
            position[box.key] = i - (len(ordered) - 1) / 2
        result.append(ordered)
    return result


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _fold(layers: list[list[Box]]) -> list[list[list[Box]]]:
    """As many columns as make the whole about as wide as a page is: few layers stay one strip."""
    if not layers:
        return []
    width = max(_width(row) for row in layers) + GUTTER
    most = max(1, min(8, int(1000 / width)))
    columns = max(1, min(most, -(-len(layers) // 16)))
    rows = -(-len(layers) // columns)
    return [layers[i : i + rows] for i in range(0, len(layers), rows)]


def _width(row: Sequence[Box]) -> float:
    return sum(box.width for box in row) + GAP_X * (len(row) - 1)
