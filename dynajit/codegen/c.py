"""The C printer: one headerless file per graph, one function per kernel.

Inner loops run over a block of the vector axis, so that mathematical functions take whole blocks: `exp_vml(m, x, y)`.
Everything between two such calls is one loop that the compiler vectorises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch

from dynajit.codegen.c_reduce import BLOCK, Kind, kind_of
from dynajit.codegen.c_text import BF16, F16, F32, F64, PRELUDE, REGISTER, STORAGE, SUFFIX, expression, literal
from dynajit.codegen.functions import Function
from dynajit.codegen.kernel import Kernel, Operand, Stmt

FUNCTIONS = frozenset(
    (
        *("exp", "expm1", "exp2", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan"),
        *("pow", "atan2", "hypot", "fmod"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma", "sqrt"),
    )
)
KEYWORDS = frozenset(
    (
        *("auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern"),
        *("float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed"),
        *("sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while"),
        *(
            "i",
            "j",
            "m",
            "n",
            "p",
            "z",
            "s",
            "r",
            "lo",
            "hi",
            "row",
            "exp",
            "log",
            "sin",
            "cos",
            "tan",
            "floor",
            "ceil",
        ),
        *("main", "abs", "max", "min", "pow", "sqrt", "asm", "share", "fmod", "fmodf"),
    )
)
PARALLEL = 131072  # below this many scalar operations, starting threads costs more than it saves


class NoSpelling(Exception):  # noqa: N818
    """The printer has no text for an operation."""


@dataclass
class Text:
    """Lines with the origin each came from."""

    lines: list[str] = field(default_factory=list)
    origins: list[object] = field(default_factory=list)
    depth: int = 0

    def add(self, line: str, origin: object = None) -> None:
        self.lines.append("  " * self.depth + line if not line.startswith("#") else line)
        self.origins.append(origin)

    def open(self, line: str) -> None:
        self.add(line + " {")
        self.depth += 1

    def close(self) -> None:
        self.depth -= 1
        self.add("}")


@dataclass(frozen=True)
class CKernel:
    """text: the function, named `name`. prelude: what it needs of `PRELUDE`. functions: mathematical functions by block."""

    name: str
    text: str
    origins: tuple[object, ...]
    prelude: frozenset[str]
    functions: tuple[str, ...]


def cost_of(kernel: Kernel) -> int:
    """Scalar operations for one element, roughly."""
    return sum(12 if is_function(stmt) else 4 if stmt.op in ("div", "sqrt", "rsqrt") else 1 for stmt in kernel.body)


def is_function(stmt: Stmt) -> bool:
    """Is it computed by a call for a whole block? An exact square root is not: it is one instruction."""
    return stmt.op in FUNCTIONS and stmt.arg != "exact"


def print_kernel(kernel: Kernel, name: str, find: Callable[[str], Function | None]) -> CKernel:
    """One kernel as a C function `void name(void *const *p, const long *z, const union number *s)`."""
    printer = _Printer(kernel, name, find)
    printer.function()
    text = printer.text
    return CKernel(
        name, "\n".join(text.lines), tuple(text.origins), frozenset(printer.prelude), tuple(sorted(printer.functions))
    )


class _Printer:
    def __init__(self, kernel: Kernel, name: str, find: Callable[[str], Function | None]) -> None:
        self.kernel, self.name, self.find = kernel, name, find
        self.text = Text()
        self.prelude: set[str] = set()
        self.functions: set[str] = set()
        self.stmts = {stmt.serial: stmt for stmt in kernel.body}
        self.reduced = kernel.reduced
        self.vector = self._vector_loop()
        self.names = self._names()
        self.known: dict[int, str] = {}  # expressions of values that need no computing where we are
        self.tails: dict[int, str] = {}
        self.flat = "0"  # where a tile starts, counted in elements of the whole loop nest

    # -- names ---------------------------------------------------------------------------------------------------

    def _names(self) -> dict[object, str]:
        """C identifiers: inputs and outputs by the user's names, values by the operation they come from."""
        taken = set(KEYWORDS)
        names: dict[object, str] = {}

        def take(key: object, wish: str) -> None:
            base = re.sub(r"\W", "_", wish)
            base = base if base and not base[0].isdigit() and base not in taken else f"{base}_"
            unique, k = base, 1
            while unique in taken:
                k, unique = k + 1, f"{base}{k}"
            taken.add(unique)
            names[key] = unique

        for i, operand in enumerate(self.kernel.inputs):
            take(("in", i), operand.name)
        for i, operand in enumerate(self.kernel.outputs):
            take(("out", i), "out" if len(self.kernel.outputs) == 1 else f"out_{operand.name}")
        for stmt in self.kernel.body:
            if stmt.op == "load":
                take(stmt.serial, f"{names['in', stmt.arg]}_v")
            else:
                take(stmt.serial, stmt.origin.name if stmt.origin else stmt.op)
        return names

    def _vector_loop(self) -> int:
        """The loop to run innermost: the one that most bytes are walked along with step one."""
        kernel = self.kernel
        score = [0] * len(kernel.loops)
        for operand in kernel.operands:
            for i, step in enumerate(operand.steps):
                if step == 1:
                    score[i] += operand.dtype.itemsize * len([s for s in operand.steps if s != 0])
        best = max(range(len(score)), key=lambda i: (score[i], i))
        if not self.reduced:
            return len(score) - 1 if score[-1] >= score[best] else best
        return best

    # -- the function --------------------------------------------------------------------------------------------

    def function(self) -> None:
        kernel, text = self.kernel, self.text
        text.add(f"void {self.name}(void *const *p, const long *z, const union number *s)")
        text.add("{")
        text.depth += 1
        for i, operand in enumerate(kernel.inputs):
            if any(stmt.op == "load" and stmt.arg == i for stmt in kernel.body):
                text.add(f"const {STORAGE[operand.dtype]} *const {self.names['in', i]} = p[{i}];")
        for i, operand in enumerate(kernel.outputs):
            text.add(f"{STORAGE[operand.dtype]} *restrict const {self.names['out', i]} = p[{len(kernel.inputs) + i}];")
        for i, _loop in enumerate(kernel.loops):
            text.add(f"const long n{i} = z[{i}];")
        at = len(kernel.loops)
        for operand, pointer in self._pointers():
            for i, step in enumerate(operand.steps):
                if step is None:
                    text.add(f"const long {pointer}_{i} = z[{at + i}];")
            at += len(kernel.loops)
        for stmt in kernel.body:
            if stmt.op == "scalar":
                member = "i" if stmt.dtype == torch.int64 else "f"
                text.add(f"const {REGISTER[stmt.dtype]} {self.names[stmt.serial]} = s[{stmt.arg}].{member};")
                self.known[stmt.serial] = self.names[stmt.serial]
            elif stmt.op == "count":
                assert isinstance(stmt.arg, frozenset)
                product = " * ".join(f"n{i}" for i in sorted(stmt.arg)) or "1"
                text.add(f"const {REGISTER[stmt.dtype]} {self.names[stmt.serial]} = {product};")
                self.known[stmt.serial] = self.names[stmt.serial]
        if any(is_function(stmt) and self._function(stmt).has_tail for stmt in kernel.body):
            text.add(f"const long total = {' * '.join(f'n{i}' for i in range(len(kernel.loops)))};")
            text.add("const long part = eager_part(total);")
            self.prelude.add("eager_part")
        if not self.reduced:
            self._pointwise()
        elif self.vector in self.reduced:
            self._rows()
        else:
            self._columns()
        text.close()

    def _pointers(self) -> list[tuple[Operand, str]]:
        kernel = self.kernel
        ins = [(operand, self.names["in", i]) for i, operand in enumerate(kernel.inputs)]
        return ins + [(operand, self.names["out", i]) for i, operand in enumerate(kernel.outputs)]

    def _parallel(self, work: str) -> str:
        return f"#pragma omp parallel if({work} > {max(PARALLEL // max(cost_of(self.kernel), 1), 1)})"

    # -- pointwise -----------------------------------------------------------------------------------------------

    def _pointwise(self) -> None:
        """All elements are shared out evenly; a thread walks its part in segments of the vector loop."""
        text, loops = self.text, list(range(len(self.kernel.loops)))
        self.prelude.add("share")
        outer = [i for i in loops if i != self.vector]
        text.add(f"const long n = {' * '.join(f'n{i}' for i in loops)};")
        text.add(self._parallel("n"))
        text.open("")
        text.add("long lo, hi;")
        text.add("share(n, &lo, &hi);")
        blocked = any(is_function(stmt) for stmt in self.kernel.body)
        inner = f"n{self.vector}"
        text.open("for (long i = lo, m; i < hi; i += m)")
        if outer:
            text.add(f"const long start = i % {inner}, row = i / {inner};")
            text.add(f"m = {inner} - start < hi - i ? {inner} - start : hi - i;")
        else:
            text.add("m = hi - i;")
        if blocked:
            text.add(f"m = m < {BLOCK} ? m : {BLOCK};")
        index = self._unravel(outer, "row") | {self.vector: "start" if outer else "i"}
        self.flat = "i"
        self._tile([(k, s) for s, k in self.kernel.stores], "m", index)
        text.close()
        text.close()

    def _unravel(self, loops: list[int], flat: str) -> dict[int, str]:
        """Index expressions of several loops from one flat index, declared as variables."""
        index: dict[int, str] = {}
        rest = flat
        for position, i in enumerate(reversed(loops)):
            last = position == len(loops) - 1
            expression = rest if last else f"{rest} % n{i}"
            if len(loops) == 1:
                index[i] = flat
            else:
                self.text.add(f"const long i{i} = {expression};")
                index[i] = f"i{i}"
            rest = f"{rest} / n{i}" if rest == flat else f"({rest}) / n{i}"
        return index

    def _offset(self, operand: Operand, pointer: str, index: dict[int, str], but: Iterable[int] = ()) -> str:
        """The offset of an operand at loop indices, in elements."""
        terms = []
        for i, step in enumerate(operand.steps):
            if step == 0 or i not in index or i in but or index[i] == "0":
                continue
            at = index[i] if re.fullmatch(r"\w+", index[i]) else f"({index[i]})"
            terms.append(at if step == 1 else f"{at} * {pointer}_{i}")
        return " + ".join(terms)

    # -- tiles ---------------------------------------------------------------------------------------------------

    def _tile(
        self,
        stores: list[tuple[int, int]],
        count: str,
        index: dict[int, str],
        reduces: list[Stmt] | None = None,
        finish: Callable[[Stmt, str], None] | None = None,
    ) -> None:
        """Compute values for `count` elements along the vector loop, from `index` on: store outputs, hand blocks of
        operands of reductions to `finish`.
        """
        text, reduces = self.text, reduces or []
        outer_known, self.tails = dict(self.known), {}
        targets = [serial for _, serial in stores] + [int(r.args[0]) for r in reduces if not r.literal[0]]
        inner = self._closure(targets)
        # Pointers to this tile.
        for stmt in inner:
            if stmt.op == "load":
                operand, pointer = self.kernel.inputs[int(stmt.arg)], self.names["in", stmt.arg]  # type: ignore[call-overload]
                offset = self._offset(operand, pointer, index)
                where = f"{pointer} + {offset}" if offset else pointer
                if self.vector in stmt.vary:
                    type_ = STORAGE[operand.dtype]
                    text.add(f"const {type_} *const {pointer}_at = {where};")
                else:
                    self._declare(stmt, f"{pointer}[{offset or '0'}]")
        for k, _ in stores:
            operand, pointer = self.kernel.outputs[k], self.names["out", k]
            offset = self._offset(operand, pointer, index)
            text.add(
                f"{STORAGE[operand.dtype]} *restrict const {pointer}_at = {f'{pointer} + {offset}' if offset else pointer};"
            )
        for stmt in inner:  # values that are the same for the whole tile
            if self.vector not in stmt.vary and stmt.serial not in self.known:
                if is_function(stmt):
                    self._scalar_call(stmt)
                else:
                    self._declare(stmt, self._expression(stmt))
        varying = [stmt for stmt in inner if self.vector in stmt.vary]
        self._stages(varying, stores, reduces, count, finish)
        self.known = outer_known

    def _closure(self, targets: list[int]) -> list[Stmt]:
        """Statements that the targets need and that are not known yet, in program order."""
        found: set[int] = set()
        stack = [serial for serial in targets if serial not in self.known]
        while stack:
            serial = stack.pop()
            if serial in found:
                continue
            found.add(serial)
            stmt = self.stmts[serial]
            stack.extend(
                int(arg)
                for arg, literal in zip(stmt.args, stmt.literal, strict=True)
                if not literal and arg not in self.known
            )
        return [stmt for stmt in self.kernel.body if stmt.serial in found]

    def _stages(
        self,
        varying: list[Stmt],
        stores: list[tuple[int, int]],
        reduces: list[Stmt],
        count: str,
        finish: Callable[[Stmt, str], None] | None,
    ) -> None:
        text = self.text
        stage: dict[int, int] = {}
        for stmt in varying:
            below = max(
                (stage.get(int(a), 0) for a, lit in zip(stmt.args, stmt.literal, strict=True) if not lit), default=0
            )
            stage[stmt.serial] = below + is_function(stmt)
        by_serial = {stmt.serial: stmt for stmt in varying}
        last = max(stage.values(), default=0)

        def at(serial: int) -> int:
            return stage.get(serial, 0)

        # What each stage leaves in a block: operands of functions and reductions, and values that later stages read.
        wanted: list[list[int]] = [[] for _ in range(last + 1)]
        for stmt in varying:
            if is_function(stmt):
                for arg, is_literal in zip(stmt.args, stmt.literal, strict=True):
                    if not is_literal and not self._is_block(by_serial.get(int(arg))):
                        wanted[stage[stmt.serial] - 1].append(int(arg))
        kept = {serial for row in wanted for serial in row}
        for stmt in varying:
            for arg, is_literal in zip(stmt.args, stmt.literal, strict=True):
                source = None if is_literal else by_serial.get(int(arg))
                if source is not None and not is_function(source) and source.op != "load":
                    if stage[source.serial] < stage[stmt.serial] - is_function(stmt) and source.serial not in kept:
                        kept.add(source.serial)
                        wanted[stage[source.serial]].append(source.serial)
        store_at = {k: at(serial) for k, serial in stores}
        blocks: dict[int, str] = {}
        reduce_source: dict[int, str] = {}
        for r in reduces:
            source_serial = int(r.args[0])
            direct = self._direct(by_serial.get(source_serial), r)
            if direct is not None:
                reduce_source[r.serial] = direct
            elif source_serial not in kept and (
                source_serial not in by_serial or not is_function(by_serial[source_serial])
            ):
                kept.add(source_serial)
                wanted[at(source_serial)].append(source_serial)
        for step in range(last + 1):
            for stmt in varying:  # mathematical functions whose operand is ready
                if is_function(stmt) and stage[stmt.serial] == step:
                    self._block_call(stmt, blocks, count)
            targets = [serial for serial in dict.fromkeys(wanted[step]) if serial not in blocks]
            out = [(k, serial) for k, serial in stores if store_at[k] == step]
            if targets or out:
                for serial in targets:
                    blocks[serial] = self._new_block(self._stmt(serial))
                self._loop(varying, targets, out, blocks, stage, step, count)
            for r in reduces:
                if finish is not None and at(int(r.args[0])) == step:
                    finish(r, reduce_source.get(r.serial) or blocks[int(r.args[0])])

    def _stmt(self, serial: int) -> Stmt:
        return self.stmts[serial]

    def _direct(self, source: Stmt | None, reduce: Stmt) -> str | None:
        """The memory a reduction can read without a copy."""
        if source is None or source.op != "load" or source.dtype not in (F32, F64, torch.int64):
            return None
        index = int(source.arg)  # type: ignore[call-overload]
        if self.kernel.inputs[index].steps[self.vector] != 1:
            return None
        return f"{self.names['in', index]}_at"

    def _new_block(self, stmt: Stmt) -> str:
        name = f"{self.names[stmt.serial]}_b"
        self.text.add(f"{REGISTER[stmt.dtype]} {name}[{BLOCK}];")
        return name

    def _is_block(self, stmt: Stmt | None) -> bool:
        return stmt is not None and is_function(stmt)

    def _block_call(self, stmt: Stmt, blocks: dict[int, str], count: str) -> None:
        function = self._function(stmt)
        operands = []
        for position, (arg, is_literal) in enumerate(zip(stmt.args, stmt.literal, strict=True)):
            if is_literal:
                block = f"{self.names[stmt.serial]}_{'xw'[position]}"
                self.text.add(f"{REGISTER[stmt.dtype]} {block}[{BLOCK}];")
                self.text.add(f"for (long j = 0; j < {count}; j++) {block}[j] = {literal(arg, stmt.dtype)};")
                operands.append(block)
            else:
                operands.append(blocks[int(arg)])
        name = self._new_block(stmt)
        tail = f", {self._tail(function.period, count)}" if function.has_tail else ""
        self.text.add(f"{function.name}({count}, {', '.join(operands)}, {name}{tail});", stmt.origin)
        blocks[stmt.serial] = name

    def _function(self, stmt: Stmt) -> Function:
        if stmt.dtype not in (F32, F64):
            raise NoSpelling(f"{stmt.op} of {stmt.dtype}")
        function = self.find(f"{stmt.op}_{stmt.arg}_{SUFFIX[stmt.dtype]}")
        if function is None:
            raise NoSpelling(f"eager's own {stmt.op} cannot be called on this machine")
        self.functions.add(function.name)
        return function

    def _tail(self, period: int, count: str) -> str:
        """The range of this tile that eager computes by libm, declared once per tile."""
        if period not in self.tails:
            self.prelude.update(("tail", "eager_part"))
            name = f"tail{period}"
            self.text.add(f"long {name}[2];")
            self.text.add(f"tail(total, part, {self.flat}, {count}, {period}, {name}, {name} + 1);")
            self.tails[period] = f"{name}[0], {name}[1]"
        return self.tails[period]

    def _loop(
        self,
        varying: list[Stmt],
        targets: list[int],
        out: list[tuple[int, int]],
        blocks: dict[int, str],
        stage: dict[int, int],
        step: int,
        count: str,
    ) -> None:
        """One vectorised loop over the tile: what stage `step` computes."""
        text, scope = self.text, dict(self.known)
        ready = {serial: f"{name}[j]" for serial, name in blocks.items() if serial not in targets}
        self.known.update(ready)
        body = self._closure(targets + [serial for _, serial in out])
        text.add("#pragma omp simd")
        text.open(f"for (long j = 0; j < {count}; j++)")
        for stmt in body:
            if stmt.op == "load":
                index = int(stmt.arg)  # type: ignore[call-overload]
                pointer = self.names["in", index]
                step_ = self.kernel.inputs[index].steps[self.vector]
                self._declare(stmt, f"{pointer}_at[j]" if step_ == 1 else f"{pointer}_at[j * {pointer}_{self.vector}]")
            elif stmt.serial in targets:
                text.add(
                    f"const {REGISTER[stmt.dtype]} {self.names[stmt.serial]} = {self._expression(stmt)};", stmt.origin
                )
                self.known[stmt.serial] = self.names[stmt.serial]
            else:
                self._declare(stmt, self._expression(stmt))
        for serial in targets:
            text.add(f"{blocks[serial]}[j] = {self.known[serial]};")
        for k, serial in out:
            operand, pointer = self.kernel.outputs[k], self.names["out", k]
            step_ = operand.steps[self.vector]
            place = (
                f"{pointer}_at[j]"
                if step_ == 1
                else f"{pointer}_at[j * {pointer}_{self.vector}]"
                if step_ is None
                else f"{pointer}_at[0]"
            )
            text.add(f"{place} = {self._stored(operand.dtype, self.known[serial])};")
        text.close()
        self.known = scope

    # -- statements ----------------------------------------------------------------------------------------------

    def _declare(self, stmt: Stmt, expression: str) -> None:
        if stmt.op == "load":
            operand = self.kernel.inputs[int(stmt.arg)]  # type: ignore[call-overload]
            if operand.dtype == BF16:
                self.prelude.add("from_bf16")
                expression = f"from_bf16({expression})"
        self.text.add(f"const {REGISTER[stmt.dtype]} {self.names[stmt.serial]} = {expression};", stmt.origin)
        self.known[stmt.serial] = self.names[stmt.serial]

    def _stored(self, dtype: torch.dtype, value: str) -> str:
        if dtype == BF16:
            self.prelude.add("to_bf16")
            return f"to_bf16({value})"
        return value

    def _expression(self, stmt: Stmt) -> str:
        operands = []
        dtype = self._operand_dtype(stmt)
        for position, (arg, is_literal) in enumerate(zip(stmt.args, stmt.literal, strict=True)):
            if is_literal:
                wanted = torch.bool if stmt.op == "where" and position == 0 else dtype
                text = literal(arg, wanted)
                operands.append(f"({text})" if text.startswith("-") else text)
            else:
                operands.append(self.known[int(arg)])
        if stmt.op == "cast":
            return self._cast(stmt, operands[0], dtype)
        template = expression(stmt.op, F32 if dtype in (BF16, F16) else dtype)
        if template is None:
            raise NoSpelling(f"{stmt.op} of {dtype}")
        if (name := re.match(r"(\w+)\(", template)) and name[1] in PRELUDE:
            self.prelude.add(name[1])
        made = template.format(*operands)
        small = stmt.dtype in (torch.uint8, torch.int8, torch.int16)
        return f"({REGISTER[stmt.dtype]})({made})" if small and stmt.op not in ("copy", "where") else made

    def _operand_dtype(self, stmt: Stmt) -> torch.dtype:
        sources = [
            self.stmts[int(arg)].dtype
            for arg, is_literal in zip(stmt.args, stmt.literal, strict=True)
            if not is_literal
        ]
        if stmt.op == "where":
            return stmt.dtype
        return sources[0] if sources else stmt.dtype

    def _cast(self, stmt: Stmt, operand: str, source: torch.dtype) -> str:
        if stmt.dtype == BF16:
            self.prelude.add("round_bf16")
            return f"round_bf16({operand})"
        if stmt.dtype == F16:
            self.prelude.add("round_f16")
            return f"round_f16({operand})"
        if stmt.dtype == torch.bool:
            return operand if source == torch.bool else f"{operand} != 0"
        return f"({REGISTER[stmt.dtype]}){operand}"

    def _scalar_call(self, stmt: Stmt) -> None:
        name, function = self.names[stmt.serial], self._function(stmt)
        type_ = REGISTER[stmt.dtype]
        operands = []
        for position, (arg, is_literal) in enumerate(zip(stmt.args, stmt.literal, strict=True)):
            operand = literal(arg, stmt.dtype) if is_literal else self.known[int(arg)]
            self.text.add(f"const {type_} {name}_{'xw'[position]} = {operand};", stmt.origin)
            operands.append(f"&{name}_{'xw'[position]}")
        tail = f", 0, {int(not stmt.vary)}" if function.has_tail else ""
        self.text.add(f"{type_} {name};", stmt.origin)
        self.text.add(f"{function.name}(1, {', '.join(operands)}, &{name}{tail});", stmt.origin)
        self.known[stmt.serial] = name

    # -- reductions ----------------------------------------------------------------------------------------------

    def _passes(self) -> tuple[list[list[Stmt]], dict[int, int]]:
        """Reductions by the pass that computes them, and the pass after which each value is known."""
        after: dict[int, int] = {}
        passes: list[list[Stmt]] = []
        for stmt in self.kernel.body:
            below = max((after[int(a)] for a, lit in zip(stmt.args, stmt.literal, strict=True) if not lit), default=0)
            if stmt.op == "reduce":
                while len(passes) <= below:
                    passes.append([])
                passes[below].append(stmt)
                below += 1
            after[stmt.serial] = below
        return passes, after

    def _rows(self) -> None:
        """One row after another, shared among threads; each pass walks the row in blocks."""
        text, kernel = self.text, self.kernel
        outer = [i for i in range(len(kernel.loops)) if i not in self.reduced]
        around = [i for i in sorted(self.reduced) if i != self.vector]
        rows = " * ".join(f"n{i}" for i in outer) or "1"
        length = " * ".join(f"n{i}" for i in sorted(self.reduced))
        text.add(f"const long rows = {rows};")
        text.add(
            f"#pragma omp parallel for schedule(static) if(rows > 1 && rows * {length} > {max(PARALLEL // cost_of(kernel), 1)})"
        )
        text.open("for (long r = 0; r < rows; r++)")
        index = self._unravel(outer, "r")
        passes, after = self._passes()
        known_before = dict(self.known)
        store_of: dict[int, list[tuple[int, int]]] = {}
        for serial, k in kernel.stores:
            store_of.setdefault(after[serial], []).append((k, serial))
        for step in range(max([len(passes), *(key + 1 for key in store_of)])):
            reduces = passes[step] if step < len(passes) else []
            stores = store_of.get(step, [])
            full = [(k, serial) for k, serial in stores if self._is_full(k)]
            self._row_values(step, after, index)
            for k, serial in stores:
                if not self._is_full(k):
                    self._store_row(k, serial, index)
            if reduces or full:
                self._row_pass(reduces, full, index, around)
        self.known = known_before
        text.close()

    def _is_full(self, k: int) -> bool:
        return any(step != 0 and i in self.reduced for i, step in enumerate(self.kernel.outputs[k].steps))

    def _store_row(self, k: int, serial: int, index: dict[int, str]) -> None:
        operand, pointer = self.kernel.outputs[k], self.names["out", k]
        offset = self._offset(operand, pointer, index)
        self.text.add(f"{pointer}[{offset or '0'}] = {self._stored(operand.dtype, self.known[serial])};")

    def _row_values(self, step: int, after: dict[int, int], index: dict[int, str]) -> None:
        """Values of the row as a whole that became known with the last pass."""
        for stmt in self.kernel.body:
            if stmt.vary & self.reduced or after[stmt.serial] != step or stmt.serial in self.known:
                continue
            if stmt.op == "load":
                i = int(stmt.arg)  # type: ignore[call-overload]
                pointer = self.names["in", i]
                self._declare(stmt, f"{pointer}[{self._offset(self.kernel.inputs[i], pointer, index) or '0'}]")
            elif is_function(stmt):
                self._scalar_call(stmt)
            elif stmt.op != "reduce":
                self._declare(stmt, self._expression(stmt))

    def _row_pass(
        self, reduces: list[Stmt], full: list[tuple[int, int]], index: dict[int, str], around: list[int]
    ) -> None:
        text = self.text
        kinds: dict[int, Kind] = {}
        for stmt in reduces:
            kind = kinds[stmt.serial] = kind_of(str(stmt.arg), self._reduced_dtype(stmt))
            text.add(f"{kind.accumulator} {self.names[stmt.serial]} = {kind.start};", stmt.origin)
        inside = dict(index)
        for i in around:
            text.open(f"for (long i{i} = 0; i{i} < n{i}; i{i}++)")
            inside[i] = f"i{i}"
        text.open(f"for (long start = 0, m; start < n{self.vector}; start += m)")
        text.add(f"m = n{self.vector} - start < {BLOCK} ? n{self.vector} - start : {BLOCK};")
        inside[self.vector] = "start"

        def finish(stmt: Stmt, block: str) -> None:
            kind, name = kinds[stmt.serial], self.names[stmt.serial]
            self._need(kind)
            text.add(f"{name} = {kind.merge.format(name, f'{kind.block}(m, {block})')};", stmt.origin)

        self.flat = f"r * n{self.vector} + start" if not around else "0"
        self._tile(full, "m", inside, reduces, finish)
        text.close()
        for _ in around:
            text.close()
        for stmt in reduces:
            name = self.names[stmt.serial]
            if kinds[stmt.serial].accumulator != REGISTER[stmt.dtype]:
                text.add(f"const {REGISTER[stmt.dtype]} {name}_r = ({REGISTER[stmt.dtype]}){name};", stmt.origin)
                name = f"{name}_r"
            self.known[stmt.serial] = name

    def _reduced_dtype(self, stmt: Stmt) -> torch.dtype:
        return stmt.dtype

    def _need(self, kind: Kind) -> None:
        self.prelude.add(kind.block)
        if (name := re.match(r"(\w+)\(", kind.merge)) and name[1] in PRELUDE:
            self.prelude.add(name[1])

    def _columns(self) -> None:
        raise NoSpelling("a reduction over an outer dimension")
