"""The two packed tables of a code object: where instructions come from, and which handler protects them.

The formats are described in CPython's Objects/locations.md and Objects/exception_handling_notes.txt (from 3.13 on in
InternalDocs/).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dynajit.bytecode.code import Position

_NO_POSITION, _LINE_ONLY, _LONG = 15, 13, 14  # kinds of entries of the line table
_UNITS_PER_ENTRY = 8


class Row(NamedTuple):
    """One row of the exception table; places are byte offsets."""

    start: int
    end: int
    handler: int
    depth: int
    push_lasti: bool


def read_exception_table(table: bytes) -> Iterator[Row]:
    numbers = _numbers(table)
    for start in numbers:
        size, handler, depth = next(numbers), next(numbers), next(numbers)
        yield Row(2 * start, 2 * (start + size), 2 * handler, depth >> 1, bool(depth & 1))


def write_exception_table(rows: Iterable[Row]) -> bytes:
    out = bytearray()
    for row in rows:
        start = len(out)
        for number in (row.start // 2, (row.end - row.start) // 2, row.handler // 2, row.depth << 1 | row.push_lasti):
            out += _big_endian(number)
        out[start] |= 0x80  # marks the first byte of a row, so that the interpreter can bisect
    return bytes(out)


def write_line_table(positions: Iterable[tuple[int, Position]], first_line: int) -> bytes:
    """The table for instructions of the given sizes, in code units."""
    out, last = bytearray(), first_line
    for size, position in positions:
        for taken in range(0, size, _UNITS_PER_ENTRY):
            units = min(size - taken, _UNITS_PER_ENTRY)
            out += _entry(units, position, last)
            last = last if position.line is None else position.line
    return bytes(out)


def _entry(units: int, position: Position, last: int) -> bytes:
    line, end_line, column, end_column = position
    if line is None:
        return _head(_NO_POSITION, units)
    if column is None and end_column is None and end_line in (None, line):
        return _head(_LINE_ONLY, units) + _signed(line - last)
    return b"".join(
        (
            _head(_LONG, units),
            _signed(line - last),
            _little_endian(0 if end_line is None else end_line - line),
            _little_endian(0 if column is None else column + 1),
            _little_endian(0 if end_column is None else end_column + 1),
        )
    )


def _head(kind: int, units: int) -> bytes:
    return bytes((0x80 | kind << 3 | units - 1,))


def _signed(number: int) -> bytes:
    return _little_endian(-number << 1 | 1 if number < 0 else number << 1)


def _little_endian(number: int) -> bytes:
    out = bytearray()
    while number >= 64:
        out.append(number & 63 | 64)
        number >>= 6
    out.append(number)
    return bytes(out)


def _big_endian(number: int) -> bytes:
    chunks = [number & 63]
    while number := number >> 6:
        chunks.append(number & 63 | 64)
    return bytes(reversed(chunks))


def _numbers(table: bytes) -> Iterator[int]:
    number = 0
    for byte in table:
        number = number << 6 | byte & 63
        if not byte & 64:
            yield number
            number = 0
