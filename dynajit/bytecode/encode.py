"""Code -> CodeType: write raw instructions, place the jumps, and pack the tables the interpreter reads."""

from __future__ import annotations

import dis
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any

from dynajit.bytecode import flow
from dynajit.bytecode.code import Code, Instr, Label, Position, slot_names
from dynajit.bytecode.instructions import NO_FALL_THROUGH
from dynajit.bytecode.tables import Row, write_exception_table, write_line_table
from dynajit.bytecode.versions import python
from dynajit.bytecode.versions.common import Piece
from dynajit.bytecode.versions.fold import as_named


def encode(code: Code) -> CodeType:
    """A code object that does what `code` says. `code` is not changed."""
    writer = _Writer(code)
    pieces = list(writer.write())
    offsets = _place(pieces)
    units = [piece for piece in pieces if isinstance(piece, _Unit)]
    return _TEMPLATE.replace(
        co_argcount=code.argcount,
        co_posonlyargcount=code.posonlyargcount,
        co_kwonlyargcount=code.kwonlyargcount,
        co_nlocals=len(code.varnames),
        co_stacksize=max(code.stacksize, flow.deepest(code)),
        co_flags=code.flags,
        co_firstlineno=code.firstlineno,
        co_code=b"".join(unit.assemble() for unit in units),
        co_consts=tuple(writer.consts),
        co_names=tuple(writer.names),
        co_varnames=tuple(code.varnames),
        co_cellvars=tuple(code.cellvars),
        co_freevars=tuple(code.freevars),
        co_filename=code.filename,
        co_name=code.name,
        co_qualname=code.qualname,
        co_linetable=write_line_table(((unit.size, unit.position) for unit in units), code.firstlineno),
        co_exceptiontable=write_exception_table(_rows(code, offsets)),
    )


_TEMPLATE = (lambda: None).__code__


class _Unit:
    """One raw instruction. `prefixes` EXTENDED_ARGs come before it; a jump may have more of them than it needs."""

    __slots__ = ("arg", "caches", "op", "position", "prefixes", "target")

    def __init__(self, op: str, arg: int | Label, position: Position) -> None:
        self.op, self.position = op, position
        self.caches = python.caches.get(op, 0)
        self.target = arg if isinstance(arg, Label) else None
        self.prefixes = 0
        self.arg = 0
        if not isinstance(arg, Label):
            self.set_arg(arg)

    def set_arg(self, arg: int) -> None:
        self.arg = arg
        self.prefixes = max(self.prefixes, (arg > 0xFF) + (arg > 0xFFFF) + (arg > 0xFFFFFF))

    @property
    def size(self) -> int:
        return self.prefixes + 1 + self.caches

    def assemble(self) -> bytes:
        out = bytearray()
        for shift in range(8 * self.prefixes, 0, -8):
            out += bytes((dis.EXTENDED_ARG, self.arg >> shift & 0xFF))
        return bytes(out + bytes((dis.opmap[self.op], self.arg & 0xFF)) + bytes(2 * self.caches))


class _Writer:
    """Turns canonical instructions into raw ones. The rules of `versions` see it as a `Writer`."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.consts: list[Any] = list(code.consts) or [None]  # a string in the first place would be a docstring
        self.names: list[str] = list(code.names)
        self._const_index: dict[int, int] = {
            id(value): index for index, value in reversed(list(enumerate(self.consts)))
        }
        self._name_index: dict[str, int] = {name: index for index, name in reversed(list(enumerate(self.names)))}
        self._slot_index = {
            name: index for index, name in enumerate(slot_names(code.varnames, code.cellvars, code.freevars))
        }
        self._behind: set[Label] = set()

    def const(self, value: Any) -> int:
        # By identity: equality would merge 0.0 with -0.0 and 1 with True, and calls `__eq__` of what users made.
        index = self._const_index.setdefault(id(value), len(self.consts))
        if index == len(self.consts):
            self.consts.append(value)
        return index

    def name(self, name: str) -> int:
        index = self._name_index.setdefault(name, len(self.names))
        if index == len(self.names):
            self.names.append(name)
        return index

    def slot(self, name: str) -> int:
        return self._slot_index[name]

    def is_behind(self, label: Label) -> bool:
        return label in self._behind

    def write(self) -> Iterator[_Unit | Label]:
        exits = self._loop_exits()
        entered = {item.target for item in self.code.body if isinstance(item, Instr)}
        entered |= {region.handler for region in self.code.regions}
        falls = True  # whether control gets here by other ways than the jump of a FOR_ITER
        for item in self.code.body:
            if isinstance(item, Instr):
                yield from _units(self._fold(item, exits), item.position)
                falls = item.op not in NO_FALL_THROUGH
                continue
            if item in exits:
                exit_label, position = exits[item]
                over: list[Piece] = [("JUMP_FORWARD", item)] if falls else []
                yield from _units([*over, exit_label, *_LOOP_END], position)
            falls = falls or item in entered
            self._behind.add(item)
            yield item

    def _fold(self, instr: Instr, exits: dict[Label, tuple[Label, Position]]) -> Iterable[Piece]:
        rule = python.fold.get(instr.op, as_named)
        if instr.op not in _FORWARD_ONLY:
            return rule(instr, self)
        assert instr.target is not None, instr
        if instr.target in self._behind:
            return _backward(instr.op, instr.target)
        is_loop = instr.op == "FOR_ITER" and instr.target in exits
        return [(instr.op, exits[instr.target][0] if is_loop else instr.target)]

    def _loop_exits(self) -> dict[Label, tuple[Label, Position]]:
        """For each target of a FOR_ITER ahead of it: the place of the loop's end markers, and their position.

        A raw FOR_ITER must jump to the markers, and nothing else may run into them (bytecodes.c, FOR_ITER; a generator
        that a FOR_ITER_GEN runs returns to them).
        """
        exits: dict[Label, tuple[Label, Position]] = {}
        behind: set[Label] = set()
        for item in self.code.body:
            if isinstance(item, Label):
                behind.add(item)
            elif item.op == "FOR_ITER" and python.loop_end and item.target is not None and item.target not in behind:
                exits.setdefault(item.target, (Label(), item.position))
        return exits


_FORWARD_ONLY = frozenset({"FOR_ITER", "SEND"})
_LOOP_END: list[Piece] = [(marker, 0) for marker in python.loop_end]


def _backward(op: str, target: Label) -> list[Piece]:
    """A jump back, for an instruction that only jumps forward."""
    landing, over = Label(), Label()
    markers = _LOOP_END if op == "FOR_ITER" else []
    return [(op, landing), ("JUMP_FORWARD", over), landing, *markers, ("JUMP_BACKWARD", target), over]


def _units(pieces: Iterable[Piece], position: Position) -> Iterator[_Unit | Label]:
    for piece in pieces:
        yield piece if isinstance(piece, Label) else _Unit(*piece, position)


def _place(pieces: list[_Unit | Label]) -> dict[Label, int]:
    """Set the arguments of all jumps; the byte offset of each label.

    The distance of a jump depends on the sizes of instructions, and a size on a distance: repeat until nothing grows.
    """
    while True:
        offsets: dict[Label, int] = {}
        jumps: list[tuple[_Unit, int]] = []
        here = 0
        for piece in pieces:
            if isinstance(piece, Label):
                offsets[piece] = 2 * here
                continue
            here += piece.size
            if piece.target is not None:
                jumps.append((piece, 2 * here))
        before = here
        for unit, after in jumps:
            assert unit.target is not None, unit.op
            unit.set_arg(_distance(unit.op, after, offsets[unit.target]))
        if before == sum(piece.size for piece in pieces if isinstance(piece, _Unit)):
            return offsets


def _distance(op: str, after: int, target: int) -> int:
    distance = (after - target if "BACKWARD" in op else target - after) // 2
    assert distance >= 0, f"{op} cannot jump from {after} to {target}"
    return distance


def _rows(code: Code, offsets: dict[Label, int]) -> Iterator[Row]:
    spans = ((offsets[region.start], offsets[region.end], region) for region in code.regions)
    for start, end, region in flow.flatten(spans):
        yield Row(start, end, offsets[region.handler], region.depth, region.push_lasti)
