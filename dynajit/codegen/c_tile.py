"""One tile of a kernel in C: values for a block of the vector loop.

Mathematical functions take whole blocks, `exp_vml(m, x, y)`. Everything between two such calls is one loop that the
compiler vectorises; what a later loop needs and is not just loaded again waits in a block on the stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dynajit.codegen.c_inline import INLINED
from dynajit.codegen.c_reduce import BLOCK
from dynajit.codegen.c_text import BF16, F16, F32, F64, PRELUDE, REGISTER, STORAGE, SUFFIX, expression, literal
from dynajit.codegen.functions import Function
from dynajit.codegen.kernel import Kernel, Lookup, Operand, Stmt
from dynajit.codegen.names import C_RESERVED, names_of
from dynajit.codegen.text import NoSpelling, Text

FUNCTIONS = frozenset(
    "exp expm1 exp2 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv"
    " lgamma sqrt pow atan2 hypot fmod".split()
)


# What an element does to what came before, and what is then the value.
_LATER = "if ({x} != {x} || ({acc} == {acc} && {x} "
SCANS = {
    "sum": ("{acc} += {x};", "{acc}"),
    "prod": ("{acc} *= {x};", "{acc}"),
    "max": (_LATER + ">= {acc})) {acc} = {x};", "{acc}"),
    "min": (_LATER + "<= {acc})) {acc} = {x};", "{acc}"),
    "where_max": (_LATER + ">= {acc})) {{ {acc} = {x}; {place} = {at}; }}", "{place}"),
    "where_min": (_LATER + "<= {acc})) {{ {acc} = {x}; {place} = {at}; }}", "{place}"),
}


def _is_word(text: str) -> bool:
    return re.fullmatch(r"\w+", text) is not None


@dataclass(frozen=True)
class Target:
    """What a tile is to do with a value: store it to output `out`; hand its block to `finish`, with the reduction's
    statement; keep it in a block that outlives the tile (`kept`).
    """

    serial: int
    out: int = -1
    reduce: Stmt | None = None
    kept: bool = False


class Tiles:
    """The state of printing one kernel: names, what is known where we are, what the file will need."""

    def __init__(self, kernel: Kernel, find: Callable[[str], Function | None], fast: bool = False) -> None:
        self.kernel, self.find, self.fast = kernel, find, fast
        self.text = Text()
        self.prelude: set[str] = set()
        self.functions: set[str] = set()
        self.stmts = {stmt.serial: stmt for stmt in kernel.body}
        self.names = names_of(kernel, C_RESERVED)
        self.vector = vector_loop(kernel)
        self.known: dict[int, str] = {}  # expressions of values that need no computing where we are
        self.saved: dict[int, str] = {}  # values in memory along the vector loop: pointer to where the loop starts
        self.saving: dict[int, str] = {}  # the same, for values that the tiles at hand compute
        self.index: dict[int, str] = {}  # of each loop, where the tile starts
        self.block = BLOCK  # how many elements a tile may have
        self.flat = ""  # where a tile starts, in elements of the whole loop nest
        self._tails: dict[int, str] = {}

    def is_function(self, stmt: Stmt) -> bool:
        """Is it computed by a call for a whole block? An exact square root is not: it is one instruction."""
        return stmt.op in FUNCTIONS and stmt.arg != "exact" and not self.is_inlined(stmt)

    def is_inlined(self, stmt: Stmt) -> bool:
        return (self.fast or stmt.arg == "inline") and stmt.op in INLINED and stmt.dtype == F32

    # -- a tile --------------------------------------------------------------------------------------------------

    def tile(
        self,
        targets: Sequence[Target],
        count: str,
        index: dict[int, str],
        finish: Callable[[Stmt, str], None] | None = None,
    ) -> None:
        """Compute values for `count` elements along the vector loop, from the loop indices `index` on."""
        before, self._tails, self.index = dict(self.known), {}, index
        inner = self.closure([target.serial for target in targets])
        for stmt in inner:
            self._point(stmt, index)
        for target in targets:
            if target.out >= 0:
                operand, pointer = self.kernel.outputs[target.out], self.names["out", target.out]
                declared = f"{STORAGE[operand.dtype]} *const {pointer}_at"
                self.text.add(f"{declared} = {self.place(operand, pointer, index)};")
        for stmt in inner:
            if self.vector not in stmt.vary and stmt.serial not in self.known:
                self.once(stmt)
        for stmt in inner:
            if stmt.op == "lookup" and self.vector in stmt.vary:
                row = self.row(stmt)
                self.text.add(f"const {STORAGE[stmt.dtype]} *const {self.names[stmt.serial]}_at = {row};", stmt.origin)
        kept = _Stages(self, [s for s in inner if self.vector in s.vary], targets, count, finish).run()
        self.known = before | kept

    def _point(self, stmt: Stmt, index: dict[int, str]) -> None:
        """Point to where a load or a saved value starts in this tile; load what does not vary along the tile."""
        name = self.names[stmt.serial]
        if stmt.serial in self.saved or stmt.serial in self.saving:
            pointer = self.saved.get(stmt.serial) or self.saving[stmt.serial]
            self.text.add(f"{REGISTER[stmt.dtype]} *const {name}_at = {pointer} + {index[self.vector]};")
        elif stmt.op == "load":
            operand, pointer = self.operand_of(stmt)
            if self.vector in stmt.vary:
                place = self.place(operand, pointer, index)
                self.text.declare(f"const {STORAGE[operand.dtype]} *const {pointer}_at = {place};")
            else:
                self.declare(stmt, f"{pointer}[{self.offset(operand, pointer, index) or '0'}]")

    def closure(self, serials: Iterable[int]) -> list[Stmt]:
        """Statements that values need and that are not known yet, in program order."""
        found: set[int] = set()
        stack = [serial for serial in serials if serial not in self.known]
        while stack:
            serial = stack.pop()
            if serial not in found:
                found.add(serial)
                if serial not in self.saved:
                    stack.extend(arg for arg in self.needs(self.stmts[serial]) if arg not in self.known)
        return [stmt for stmt in self.kernel.body if stmt.serial in found]

    # -- statements ----------------------------------------------------------------------------------------------

    def operand_of(self, stmt: Stmt) -> tuple[Operand, str]:
        i = int(stmt.arg)  # type: ignore[call-overload]
        return self.kernel.inputs[i], self.names["in", i]

    def offset(self, operand: Operand, pointer: str, index: dict[int, str]) -> str:
        """The offset of an operand at loop indices, in elements; empty for none."""
        terms = []
        for i, step in enumerate(operand.steps):
            if step == 0 or index.get(i, "0") == "0":
                continue
            at = index[i] if re.fullmatch(r"\w+", index[i]) else f"({index[i]})"
            terms.append(at if step == 1 else f"{at} * {pointer}_{i}")
        return " + ".join(terms)

    def place(self, operand: Operand, pointer: str, index: dict[int, str]) -> str:
        offset = self.offset(operand, pointer, index)
        return f"{pointer} + {offset}" if offset else pointer

    def element(self, operand: Operand, pointer: str) -> str:
        """Element `j` of a tile."""
        step = operand.steps[self.vector]
        return f"{pointer}_at[{'j' if step == 1 else '0' if step == 0 else f'j * {pointer}_{self.vector}'}]"

    def declare(self, stmt: Stmt, value: str) -> None:
        """Give a value its name."""
        if stmt.op in ("load", "lookup") and stmt.dtype == BF16:
            self.prelude.add("from_bf16")
            value = f"from_bf16({value})"
        self.text.add(f"const {REGISTER[stmt.dtype]} {self.names[stmt.serial]} = {value};", stmt.origin)
        self.known[stmt.serial] = self.names[stmt.serial]

    def _numbers(self, stmt: Stmt) -> list[tuple[Any, bool, str, int]]:
        """(number, is it written down, what may be wrong with it, dimension) of each number of a lookup."""
        assert isinstance(stmt.arg, Lookup)
        first = int(stmt.arg.guarded)
        picked = self.kernel.inputs[stmt.arg.operand].picked
        return list(zip(stmt.args[first:], stmt.literal[first:], stmt.arg.checks, picked, strict=True))

    def straight(self, serial: int) -> tuple[int, list[int]] | None:
        """How a number grows along the tile, and what it is made of that stays the same; None: in no straight line."""
        stmt = self.stmts[serial]
        if self.vector not in stmt.vary:
            return 0, [serial]
        if stmt.op == "index":
            assert isinstance(stmt.arg, tuple)
            return (1, []) if stmt.arg[-1] == self.vector else None
        if stmt.op not in ("add", "sub", "mul"):
            return None
        sides = [(0, []) if lit else self.straight(int(arg)) for arg, lit in zip(stmt.args, stmt.literal, strict=True)]
        if sides[0] is None or sides[1] is None:
            return None
        parts = [*sides[0][1], *sides[1][1]]
        if stmt.op == "mul":
            known = sides[1][0] == 0 and stmt.literal[1]
            return (sides[0][0] * int(stmt.args[1]), parts) if known else None
        return sides[0][0] + sides[1][0] * (1 if stmt.op == "add" else -1), parts

    def _start(self, serial: int) -> str:
        """A number in a straight line, where the tile starts."""
        stmt = self.stmts[serial]
        if self.vector not in stmt.vary:
            return self.known[serial]
        if stmt.op == "index":
            return self.position(stmt, "")
        operands = [
            literal(arg, torch.int64) if lit else self._start(int(arg))
            for arg, lit in zip(stmt.args, stmt.literal, strict=True)
        ]
        return str(expression(stmt.op, torch.int64)).format(*(t if _is_word(t) else f"({t})" for t in operands))

    def needs(self, stmt: Stmt) -> list[int]:
        """What has to be known for a statement."""
        if stmt.op != "lookup":
            return list(stmt.sources)
        assert isinstance(stmt.arg, Lookup)
        found = [int(stmt.args[0])] if stmt.arg.guarded and not stmt.literal[0] else []
        for arg, is_literal, check, _ in self._numbers(stmt):
            if not is_literal:
                line = None if check else self.straight(int(arg))
                found += [int(arg)] if line is None else line[1]
        return found

    def _growth(self, stmt: Stmt) -> dict[str, int]:
        """How the place of a lookup grows along the tile where it is a straight line: by stride, how often."""
        assert isinstance(stmt.arg, Lookup)
        operand, pointer = self.kernel.inputs[stmt.arg.operand], self.names["in", stmt.arg.operand]
        growth = dict[str, int]()
        for arg, is_literal, check, d in self._numbers(stmt):
            line = None if is_literal or check else self.straight(int(arg))
            if line is not None and line[0]:
                step = "" if d in operand.units else f"{pointer}_step{d}"
                growth[step] = growth.get(step, 0) + line[0]
        if (walked := operand.steps[self.vector]) != 0:
            step = "" if walked == 1 else f"{pointer}_{self.vector}"
            growth[step] = growth.get(step, 0) + 1
        return growth

    def _is_inside(self, arg: float, is_literal: bool, check: str) -> bool:
        """Does a number change within a tile, in no straight line?"""
        if is_literal or self.vector not in self.stmts[int(arg)].vary:
            return False
        return bool(check) or self.straight(int(arg)) is None

    def _offsets(self, stmt: Stmt, inside: bool) -> list[str]:
        """Offsets by the numbers of a lookup: those that have to be taken for each element, or the others."""
        assert isinstance(stmt.arg, Lookup)
        operand, pointer = self.kernel.inputs[stmt.arg.operand], self.names["in", stmt.arg.operand]
        terms = []
        for arg, is_literal, check, d in self._numbers(stmt):
            if self._is_inside(arg, is_literal, check) != inside:
                continue
            rows = f"{pointer}_rows{d}"
            if is_literal:
                name = literal(arg, torch.int64)
            else:
                name = self.known[int(arg)] if inside else self._start(int(arg))
            if check == "wrap":
                name = f"({name} < 0 ? {name} + {rows} : {name})"
            if check:
                self.prelude.add("row_of")
                name = f"row_of({name}, {rows}, flag)"
            elif not _is_word(name):
                name = f"({name})"
            terms.append(name if d in operand.units else f"{name} * {pointer}_step{d}")
        return terms

    def row(self, stmt: Stmt) -> str:
        """Where what a lookup reads begins in this tile, as far as it is the same for all of it."""
        assert isinstance(stmt.arg, Lookup)
        k = stmt.arg.operand
        offset = self.offset(self.kernel.inputs[k], self.names["in", k], self.index)
        return " + ".join([self.names["in", k], *self._offsets(stmt, False), *([offset] if offset else [])])

    def _guarded(self, stmt: Stmt, element: str) -> str:
        """Read nothing where there is nothing to read."""
        assert isinstance(stmt.arg, Lookup)
        if not stmt.arg.guarded:
            return element
        guard = literal(stmt.args[0], torch.bool) if stmt.literal[0] else self.known[int(stmt.args[0])]
        return f"{guard} ? {element} : 0"

    def looked_up(self, stmt: Stmt) -> str:
        """Element `j` of a lookup that changes within the tile."""
        terms = self._offsets(stmt, True)
        for step, times in self._growth(stmt).items():
            factors = [f"({times}L)" if times < 0 else str(times)] if times != 1 else []
            terms.append(" * ".join(["j", *factors, *([step] if step else [])]))
        return self._guarded(stmt, f"{self.names[stmt.serial]}_at[{' + '.join(terms) or '0'}]")

    def is_row(self, stmt: Stmt) -> bool:
        """Does a lookup read one element after another, all of them there?"""
        assert isinstance(stmt.arg, Lookup)
        inside = any(self._is_inside(arg, literal_, check) for arg, literal_, check, _ in self._numbers(stmt))
        return not inside and self._growth(stmt) == {"": 1} and not stmt.arg.guarded

    def once(self, stmt: Stmt) -> None:
        """Compute a value that is the same for the whole tile."""
        if stmt.op == "lookup":
            self.declare(stmt, self._guarded(stmt, f"*({self.row(stmt)})"))
            return
        if not self.is_function(stmt):
            self.declare(stmt, self.expression(stmt))
            return
        name, function, type_ = self.names[stmt.serial], self.function(stmt), REGISTER[stmt.dtype]
        operands = []
        for position, operand in enumerate(self.operands(stmt)):
            self.text.add(f"const {type_} {name}_{'xw'[position]} = {operand};", stmt.origin)
            operands.append(f"&{name}_{'xw'[position]}")
        tail = f", 0, {int(not stmt.vary)}" if function.has_tail else ""
        self.text.add(f"{type_} {name};", stmt.origin)
        self.text.add(f"{function.name}(1, {', '.join(operands)}, &{name}{tail});", stmt.origin)
        self.known[stmt.serial] = name

    def operands(self, stmt: Stmt) -> list[str]:
        dtype = self._operand_dtype(stmt)
        texts = []
        for position, (arg, is_literal) in enumerate(zip(stmt.args, stmt.literal, strict=True)):
            wanted = torch.bool if stmt.op == "where" and position == 0 else dtype
            text = literal(arg, wanted) if is_literal else self.known[int(arg)]
            texts.append(f"({text})" if text.startswith("-") else text)
        return texts

    def expression(self, stmt: Stmt) -> str:
        """A scalar operation on known operands."""
        if stmt.op == "index":
            return self.position(stmt)
        operands, dtype = self.operands(stmt), self._operand_dtype(stmt)
        if stmt.op == "cast":
            return self._cast(stmt.dtype, operands[0], dtype)
        inlined = f"{stmt.op} inline" if stmt.arg == "inline" else stmt.op
        template = INLINED[inlined] if self.is_inlined(stmt) else expression(stmt.op, dtype)
        if template is None:
            raise NoSpelling(f"C has no {stmt.op} of {dtype}")
        self.need_in(template)
        made = template.format(*operands)
        small = stmt.dtype in (torch.uint8, torch.int8, torch.int16)
        return f"({REGISTER[stmt.dtype]})({made})" if small and stmt.op not in ("copy", "where") else made

    def position(self, stmt: Stmt, element: str = " + j") -> str:
        """Where along its loops an element is; element: of the tile."""
        assert isinstance(stmt.arg, tuple)
        text = ""
        for i in stmt.arg:
            at = self.index.get(i, "0")
            at = f"{at}{element}" if i == self.vector else at
            text = f"({text}) * n{i} + {at}" if text else at
        return text or "0"

    def need_in(self, template: str) -> None:
        if (called := re.match(r"(\w+)\(", template)) and called[1] in PRELUDE:
            self.prelude.add(called[1])

    def _operand_dtype(self, stmt: Stmt) -> torch.dtype:
        sources = [self.stmts[serial].dtype for serial in stmt.sources]
        return stmt.dtype if stmt.op == "where" or not sources else sources[0]

    def _cast(self, dtype: torch.dtype, operand: str, source: torch.dtype) -> str:
        if dtype in (BF16, F16) and self.fast:
            return operand  # rounded where it is stored
        if dtype in (BF16, F16):
            name = "round_bf16" if dtype == BF16 else "round_f16"
            self.prelude.add(name)
            return f"{name}({operand})"
        if dtype == torch.bool:
            return operand if source == torch.bool else f"{operand} != 0"
        return f"({REGISTER[dtype]}){operand}"

    def stored(self, dtype: torch.dtype, value: str) -> str:
        if dtype == BF16:
            self.prelude.add("to_bf16")
            return f"to_bf16({value})"
        return value

    # -- functions -----------------------------------------------------------------------------------------------

    def function(self, stmt: Stmt) -> Function:
        if stmt.dtype not in (F32, F64):
            raise NoSpelling(f"{stmt.op} of {stmt.dtype}")
        function = self.find(f"{stmt.op}_{stmt.arg}_{SUFFIX[stmt.dtype]}")
        if function is None:
            raise NoSpelling(f"eager's own {stmt.op} cannot be called on this machine")
        self.functions.add(function.name)
        return function

    def tail(self, period: int, count: str) -> str:
        """The range of this tile that eager computes by libm, declared once per tile."""
        if not self.flat:
            return "0, 0"
        if period not in self._tails:
            self.prelude.update(("tail", "eager_part"))
            name = f"tail{period}"
            self.text.add(f"long {name}[2];")
            self.text.add(f"tail(total, part, {self.flat}, {count}, {period}, {name}, {name} + 1);")
            self._tails[period] = f"{name}[0], {name}[1]"
        return self._tails[period]


class _Stages:
    """The loops of one tile. Stage k holds what needs k function calls before it."""

    def __init__(
        self,
        tiles: Tiles,
        varying: list[Stmt],
        targets: Sequence[Target],
        count: str,
        finish: Callable[[Stmt, str], None] | None,
    ) -> None:
        self.tiles, self.varying, self.targets, self.count, self.finish = tiles, varying, targets, count, finish
        self.blocks: dict[int, str] = {}
        self.by_serial = {stmt.serial: stmt for stmt in varying}
        self.stage: dict[int, int] = {}
        for stmt in varying:
            if stmt.serial in tiles.saved:
                self.stage[stmt.serial] = 0
            else:
                below = max((self.stage.get(serial, 0) for serial in tiles.needs(stmt)), default=0)
                self.stage[stmt.serial] = below + self._calls(stmt)
        self.last = max(self.stage.values(), default=0)
        self.wanted: list[dict[int, None]] = [{} for _ in range(self.last + 1)]

    def _calls(self, stmt: Stmt) -> bool:
        goes_on = stmt.op == "scan" and self.tiles.kernel.scanned == self.tiles.vector
        return (goes_on or self.tiles.is_function(stmt)) and stmt.serial not in self.tiles.saved

    def run(self) -> dict[int, str]:
        """Print the loops; returns expressions of what outlives the tile."""
        self._want()
        tiles = self.tiles
        for step in range(self.last + 1):
            for stmt in self.varying:
                if self._calls(stmt) and self.stage[stmt.serial] == step:
                    self._call(stmt)
            new = [serial for serial in self.wanted[step] if serial not in self.blocks]
            stores = [t for t in self.targets if t.out >= 0 and self.stage.get(t.serial, 0) == step]
            for serial in new:
                self.blocks[serial] = self._new_block(tiles.stmts[serial])
            if new or stores:
                self._loop(new, stores)
            for target in self.targets:
                if target.reduce is not None and self.stage.get(target.serial, 0) == step:
                    assert self.finish is not None
                    self.finish(target.reduce, self._memory(target.serial) or self.blocks[target.serial])
        return {t.serial: f"{self.blocks[t.serial]}[j]" for t in self.targets if t.kept}

    def _want(self) -> None:
        """Which values have to stand in blocks, and after which stage: operands of functions and of reductions, what is
        kept, and what a later stage reads and cannot simply load.
        """
        for stmt in self.varying:
            for serial in self.tiles.needs(stmt) if stmt.serial not in self.tiles.saved else ():
                source = self.by_serial.get(serial)
                stage = self.stage.get(serial, 0)
                if self._calls(stmt):
                    if self._memory(serial) is None:
                        self.wanted[self.stage[stmt.serial] - 1 if source is None else stage].setdefault(serial)
                elif source is None or source.op in ("load", "index", "lookup") or serial in self.tiles.saved:
                    continue
                elif stage < self.stage[stmt.serial]:
                    self.wanted[stage].setdefault(serial)
            if stmt.serial in self.tiles.saving and not self._calls(stmt):
                self.wanted[self.stage[stmt.serial]].setdefault(stmt.serial)
        for target in self.targets:
            if target.kept or (target.reduce is not None and self._memory(target.serial) is None):
                self.wanted[self.stage.get(target.serial, 0)].setdefault(target.serial)

    def _memory(self, serial: int) -> str | None:
        """Where a value already lies as a reduction or a call reads it."""
        tiles, stmt = self.tiles, self.by_serial.get(serial)
        if stmt is None:  # computed before the rows of this tile: a block, or one number
            known = tiles.known.get(serial, "")
            return known.removesuffix("[j]") if known.endswith("_b[j]") else None
        if serial in tiles.saved:
            return f"{tiles.names[serial]}_at"
        if stmt.op == "load" and stmt.dtype in (F32, F64, torch.int64):
            operand, pointer = tiles.operand_of(stmt)
            return f"{pointer}_at" if operand.steps[tiles.vector] == 1 else None
        if stmt.op == "lookup" and stmt.dtype in (F32, F64, torch.int64) and tiles.is_row(stmt):
            return f"{tiles.names[serial]}_at"
        return None

    def _new_block(self, stmt: Stmt) -> str:
        if stmt.serial in self.tiles.saving:
            return f"{self.tiles.names[stmt.serial]}_at"
        name = f"{self.tiles.names[stmt.serial]}_b"
        self.tiles.text.add(f"{REGISTER[stmt.dtype]} {name}[{self.tiles.block}];")
        return name

    def _go_on(self, stmt: Stmt) -> None:
        """One element after another, from where the last block ended."""
        tiles, name = self.tiles, self.tiles.names[stmt.serial]
        (arg,) = stmt.args
        x = literal(arg, stmt.dtype) if stmt.literal[0] else f"{self._memory(int(arg)) or self.blocks[int(arg)]}[j]"
        words = {"x": x, "acc": f"{name}_acc", "place": f"{name}_place", "at": f"{tiles.index[tiles.vector]} + j"}
        step, value = SCANS[str(stmt.arg)]
        result = self._new_block(stmt)
        with tiles.text.block(f"for (long j = 0; j < {self.count}; j++)", stmt.origin):
            tiles.text.add(step.format(**words), stmt.origin)
            tiles.text.add(f"{result}[j] = {value.format(**words)};", stmt.origin)
        self.blocks[stmt.serial] = result

    def _call(self, stmt: Stmt) -> None:
        if stmt.op == "scan":
            self._go_on(stmt)
            return
        tiles = self.tiles
        function, name = tiles.function(stmt), tiles.names[stmt.serial]
        operands = []
        for position, (arg, is_literal) in enumerate(zip(stmt.args, stmt.literal, strict=True)):
            if is_literal:
                tiles.text.add(f"{REGISTER[stmt.dtype]} {name}_{'xw'[position]}[{tiles.block}];")
                number = literal(arg, stmt.dtype)
                tiles.text.add(f"for (long j = 0; j < {self.count}; j++) {name}_{'xw'[position]}[j] = {number};")
                operands.append(f"{name}_{'xw'[position]}")
            else:
                operands.append(self._memory(int(arg)) or self.blocks[int(arg)])
        result = self._new_block(stmt)
        tail = f", {tiles.tail(function.period, self.count)}" if function.has_tail else ""
        tiles.text.add(f"{function.name}({self.count}, {', '.join(operands)}, {result}{tail});", stmt.origin)
        self.blocks[stmt.serial] = result

    def _loop(self, new: list[int], stores: list[Target]) -> None:
        """One vectorised loop over the tile."""
        tiles, text = self.tiles, self.tiles.text
        before = dict(tiles.known)
        tiles.known.update({serial: f"{name}[j]" for serial, name in self.blocks.items() if serial not in new})
        body = tiles.closure([*new, *(target.serial for target in stores)])
        text.add("#pragma omp simd")
        with text.block(f"for (long j = 0; j < {self.count}; j++)"):
            for stmt in body:
                if stmt.serial in tiles.saved:
                    tiles.declare(stmt, f"{tiles.names[stmt.serial]}_at[j]")
                elif stmt.op == "load":
                    tiles.declare(stmt, tiles.element(*tiles.operand_of(stmt)))
                elif stmt.op == "lookup":
                    tiles.declare(stmt, tiles.looked_up(stmt))
                elif stmt.op == "scan":  # of the columns side by side
                    name = tiles.names[stmt.serial]
                    words = {"x": tiles.operands(stmt)[0], "acc": f"{name}_acc[j]", "place": f"{name}_place[j]"}
                    step, value = SCANS[str(stmt.arg)]
                    text.add(step.format(at=tiles.index[tiles.kernel.scanned], **words), stmt.origin)
                    tiles.declare(stmt, value.format(**words))
                else:
                    tiles.declare(stmt, tiles.expression(stmt))
            for serial in new:
                text.add(f"{self.blocks[serial]}[j] = {tiles.known[serial]};")
            for target in stores:
                operand, pointer = tiles.kernel.outputs[target.out], tiles.names["out", target.out]
                value = tiles.stored(operand.dtype, tiles.known[target.serial])
                text.add(f"{tiles.element(operand, pointer)} = {value};")
        tiles.known = before


def _looked_up_in_a_row(kernel: Kernel) -> Iterator[tuple[int, Operand]]:
    """Loops along which a lookup reads one element after another."""
    stmts = {stmt.serial: stmt for stmt in kernel.body}

    def grows(serial: int, loop: int) -> int:
        stmt = stmts[serial]
        if loop not in stmt.vary:
            return 0
        if stmt.op == "index":
            assert isinstance(stmt.arg, tuple)
            return int(stmt.arg[-1] == loop)
        if stmt.op not in ("add", "sub"):
            return 0
        left, right = (
            0 if is_literal else grows(int(arg), loop) for arg, is_literal in zip(stmt.args, stmt.literal, strict=True)
        )
        return left + right if stmt.op == "add" else left - right

    for stmt in kernel.body:
        if stmt.op == "lookup":
            assert isinstance(stmt.arg, Lookup)
            operand, first = kernel.inputs[stmt.arg.operand], int(stmt.arg.guarded)
            numbers = zip(stmt.args[first:], stmt.literal[first:], operand.picked, strict=True)
            for arg, is_literal, d in numbers:
                if not is_literal and d in operand.units:
                    yield from ((i, operand) for i in range(len(kernel.loops)) if grows(int(arg), i) == 1)


def vector_loop(kernel: Kernel) -> int:
    """The loop to run innermost: the one along which most bytes are walked with step one, unless it is very short."""
    score = [0] * len(kernel.loops)
    for operand in kernel.operands:
        width = operand.dtype.itemsize * operand.numel
        for i, step in enumerate(operand.steps):
            score[i] += width if step == 1 else 0
    for i, operand in _looked_up_in_a_row(kernel):
        score[i] += operand.dtype.itemsize * operand.numel
    best = max(range(len(score)), key=lambda i: (score[i], i))
    if kernel.scanned >= 0:
        return best
    if not kernel.loops[best].reduced:
        best = max(range(len(score)), key=lambda i: (kernel.loops[i].hint >= 16, score[i], i))
    return best if score[best] > score[-1] or kernel.reduced else len(score) - 1
