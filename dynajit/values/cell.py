"""Cells: variables shared between a function and the functions made inside it."""

from __future__ import annotations

import types
from dataclasses import dataclass

from dynajit.source import CellContents, Source
from dynajit.values.base import Emitter, Handle, Tracer, Value
from dynajit.values.wrap import kind


@dataclass(frozen=True, eq=False)
class CellValue(Handle):
    """Contents: a value, or None while the variable is unbound. owner: the name, for cells of the frame itself."""

    name: str

    kind = "cell"

    def python_type(self) -> type:
        return types.CellType

    def reload(self, emit: Emitter) -> None:
        """A new cell; it is filled later, since what it holds may refer to it."""
        emit.call(types.CellType)
        contents = emit.heap[self.key]

        def fill() -> None:
            if contents is not None:
                emit.load(contents)
                emit.load(self)
                emit.instruction("STORE_ATTR", "cell_contents")

        emit.later(fill)


def new_cell(m: Tracer, name: str, contents: Value | None = None) -> CellValue:
    key = m.new_key()
    m.heap.new(key, contents, existing=False)
    return CellValue(key, name)


def existing_cell(m: Tracer, obj: types.CellType, name: str, source: Source) -> CellValue:
    known = m.known_handle(obj, source)
    if known is not None:
        assert isinstance(known, CellValue)
        return known
    key = m.new_key()
    try:
        contents: Value | None = m.wrap(obj.cell_contents, CellContents(source))
    except ValueError:  # an empty cell
        m.guard(CellContents(source), "ABSENT")
        contents = None
    m.heap.new(key, contents, existing=True)
    value = CellValue(key, name, source=source)
    m.remember_handle(obj, value)
    return value


@kind(types.CellType)
def wrap_cell(m: Tracer, obj: types.CellType, source: Source) -> Value:
    return existing_cell(m, obj, "cell", source)
