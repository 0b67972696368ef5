"""CodeType -> Code. What differs between Python versions is looked up in `versions.python`."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any

from dynajit.bytecode.code import NOWHERE, Code, Instr, Label, Position, Region, slot_names
from dynajit.bytecode.instructions import JUMPS
from dynajit.bytecode.tables import read_exception_table
from dynajit.bytecode.versions import python
from dynajit.bytecode.versions.common import Raw
from dynajit.bytecode.versions.unfold import as_it_stands


def decode(code: CodeType) -> Code:
    """The canonical form of `code`. `encode(decode(code))` behaves as `code`, positions and handlers included."""
    reader = _Reader(code)
    body = reader.read(list(_raws(code.co_code)))
    regions = [
        Region(reader.label(row.start), reader.label(row.end), reader.label(row.handler), row.depth, row.push_lasti)
        for row in read_exception_table(code.co_exceptiontable)
    ]
    return Code(
        body=_without_unused_labels(body, regions),
        regions=regions,
        name=code.co_name,
        qualname=code.co_qualname,
        filename=code.co_filename,
        firstlineno=code.co_firstlineno,
        flags=code.co_flags,
        argcount=code.co_argcount,
        posonlyargcount=code.co_posonlyargcount,
        kwonlyargcount=code.co_kwonlyargcount,
        varnames=list(code.co_varnames),
        cellvars=list(code.co_cellvars),
        freevars=list(code.co_freevars),
        consts=list(code.co_consts[:1]),
        stacksize=code.co_stacksize,
    )


class _Reader:
    """Collects canonical instructions while raw ones are read. The rules of `versions` see it as a `Reader`."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.kw_names: tuple[str, ...] = ()
        self.upcoming = ""
        self._slots = slot_names([*code.co_varnames], [*code.co_cellvars], [*code.co_freevars])
        self._position = NOWHERE
        self._items: list[Instr | Label] = []
        self._labels: dict[int, Label] = {}
        self._after_loop: dict[int, int] = {}

    def read(self, raws: list[Raw]) -> list[Instr | Label]:
        positions = [Position(*position) for position in self.code.co_positions()]
        markers = self._find_loop_ends(raws)
        for index, raw in enumerate(raws):
            self._items.append(self.label(raw.offset))
            if raw.offset in markers:
                continue
            self._position = positions[raw.offset // 2]
            self.upcoming = raws[index + 1].op if index + 1 < len(raws) else ""
            python.unfold.get(raw.op, as_it_stands)(raw, self)
        self._items.append(self.label(len(self.code.co_code)))
        return self._items

    def add(self, op: str, arg: Any = None) -> None:
        self._items.append(Instr(op, arg, None, self._position))

    def jump(self, op: str, target: int | None) -> None:
        assert target is not None, op
        place = self._after_loop[target] if op == "FOR_ITER" else target
        self._items.append(Instr(op, None, self.label(place), self._position))

    def pop(self, op: str) -> Any:
        """Take back the instruction added last, and return its argument. Labels after it stay."""
        at = len(self._items) - 1
        while isinstance(last := self._items[at], Label):
            at -= 1
        assert last.op == op, (last, op)
        del self._items[at]
        return last.arg

    def label(self, offset: int) -> Label:
        return self._labels.setdefault(offset, Label())

    def slot(self, index: int) -> str:
        return self._slots[index]

    def is_cell(self, index: int) -> bool:
        return index >= len(self.code.co_varnames) or self._slots[index] in self.code.co_cellvars

    def name(self, index: int) -> str:
        return self.code.co_names[index]

    def const(self, index: int) -> Any:
        return self.code.co_consts[index]

    def _find_loop_ends(self, raws: list[Raw]) -> set[int]:
        """Fill `_after_loop`: from the target of a raw FOR_ITER to the place after the loop's end markers.

        A loop that runs out jumps past the markers itself (bytecodes.c, FOR_ITER), so the canonical FOR_ITER targets
        that place. The offsets of the markers are returned.
        """
        index = {raw.offset: number for number, raw in enumerate(raws)}
        markers: set[int] = set()
        for raw in raws:
            if raw.op == "FOR_ITER" and raw.target is not None:
                start = index[raw.target]
                tail = raws[start : start + len(python.loop_end)]
                assert tuple(marker.op for marker in tail) == python.loop_end, tail
                markers.update(marker.offset for marker in tail)
                self._after_loop[raw.target] = raws[start + len(tail)].offset
        return markers


def _raws(data: bytes) -> Iterator[Raw]:
    """The instructions of `co_code`, which never shows specialised or instrumented ones."""
    start = at = extended = 0
    while at < len(data):
        op, arg = dis.opname[data[at]], extended | data[at + 1]
        at += 2 + 2 * python.caches.get(op, 0)
        if op == "EXTENDED_ARG":
            extended = arg << 8
            continue
        yield Raw(start, op, arg, _jump_target(op, arg, at))
        start, extended = at, 0


_RELATIVE_JUMPS = frozenset(dis.opname[number] for number in dis.hasjrel if number < len(dis.opname))


def _jump_target(op: str, arg: int, after: int) -> int | None:
    if op not in _RELATIVE_JUMPS:
        return None
    return after - 2 * arg if "BACKWARD" in op else after + 2 * arg


def _without_unused_labels(items: list[Instr | Label], regions: list[Region]) -> list[Instr | Label]:
    used: set[Label | None] = {item.target for item in items if isinstance(item, Instr) and item.op in JUMPS}
    for region in regions:
        used |= {region.start, region.end, region.handler}
    return [item for item in items if isinstance(item, Instr) or item in used]
