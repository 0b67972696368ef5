"""The loops around tiles, by the kind of kernel: elementwise, along rows, down columns, or few long rows in parts.

No order of additions depends on the number of threads: a row is summed by one thread in eager's order, or in parts of a
fixed length.
"""

from __future__ import annotations

import contextlib
from math import prod

import torch

from dynajit.codegen.c_cascade import WIDE
from dynajit.codegen.c_reduce import BLOCK, Kind, kind_of
from dynajit.codegen.c_text import REGISTER, STORAGE, SUFFIX, literal
from dynajit.codegen.c_tile import FUNCTIONS, Target, Tiles
from dynajit.codegen.kernel import Kernel, Stmt
from dynajit.codegen.passes import Passes
from dynajit.codegen.text import NoSpelling

PARALLEL = 131072  # scalar operations: below this, starting threads costs more than it saves
PART = 16384  # elements of a row that one thread sums at a time
FEW = 16  # rows: so few are summed in parts
SHORT = 12  # elements of the vector loop: shorter tiles cost more than a choice for each element
MOST_CUT = 400  # statements, times the ends of tiles: more text than this is not worth it
FLUSH = 64  # rows: a column sums so many in float32 before it adds them to its double


def cost_of(kernel: Kernel) -> int:
    """Scalar operations for one element, roughly."""
    return sum(12 if stmt.op in FUNCTIONS else 4 if stmt.op in ("div", "rsqrt") else 1 for stmt in kernel.body)


def print_loops(tiles: Tiles) -> None:
    """The body of a kernel's function, once its arguments have names."""
    kernel = tiles.kernel
    if kernel.scanned >= 0:
        _scans(tiles)
    elif not kernel.reduced:
        _pointwise(tiles)
    elif tiles.vector not in kernel.reduced:
        _columns(tiles)
    elif _in_parts(tiles):
        _parts(tiles)
    else:
        _rows(tiles)


def _grain(kernel: Kernel) -> int:
    return max(PARALLEL // max(cost_of(kernel), 1), 1)


def _unravel(tiles: Tiles, loops: list[int], flat: str) -> dict[int, str]:
    """Indices of several loops from one flat index, as declared variables."""
    if len(loops) == 1:
        return {loops[0]: flat}
    index, rest = {}, flat
    for position, i in enumerate(reversed(loops)):
        last = position == len(loops) - 1
        tiles.text.add(f"const long i{i} = {rest if last else f'{rest} % n{i}'};")
        index[i] = f"i{i}"
        rest = f"{rest} / n{i}"
    return index


def _size(loops: list[int]) -> str:
    return " * ".join(f"n{i}" for i in loops) or "1"


# -- elementwise -------------------------------------------------------------------------------------------------


def _pointwise(tiles: Tiles) -> None:
    """All elements are shared out evenly; a thread walks its part in segments of the vector loop."""
    text, kernel, vector = tiles.text, tiles.kernel, tiles.vector
    loops = list(range(len(kernel.loops)))
    outer = [i for i in loops if i != vector]
    tiles.prelude.add("share")
    tiles.flat = "i"
    text.add(f"const long n = {_size(loops)};")
    cuts = _cuts(tiles)
    text.add(f"#pragma omp parallel if(n > {_grain(kernel)})")
    with text.block(""):
        text.add("long lo, hi;")
        text.add("share(n, &lo, &hi);")
        walked = f", start = lo % n{vector}, row = lo / n{vector}" if outer else ""
        with text.block(f"for (long i = lo, m{walked}; i < hi; i += m{', start += m' if outer else ''})"):
            if outer:
                text.add(f"if (start == n{vector}) start = 0, row++;")
                text.add(f"m = n{vector} - start < hi - i ? n{vector} - start : hi - i;")
            else:
                text.add("m = hi - i;")
            if any(map(tiles.is_function, kernel.body)):
                text.add(f"m = m < {BLOCK} ? m : {BLOCK};")
            index = _unravel(tiles, outer, "row") if outer else {}
            index[vector] = "start" if outer else "i"
            _cut_tiles(tiles, cuts, index)


def _cuts(tiles: Tiles) -> list[Stmt]:
    """Comparisons of the place along the vector loop with something that holds for the whole kernel, such as where one
    of several tensors ends: a tile that stops there needs no choice for each element. Not if tiles would be very short.
    """
    kernel, stmts = tiles.kernel, tiles.stmts
    found = [stmt for stmt in kernel.body if stmt.op in ("lt", "ge") and _is_cut(tiles, stmt)]
    ends = {stmt.args[1] for stmt in found}
    if kernel.loops[tiles.vector].hint < SHORT * (len(ends) + 1):
        return []
    needed = tiles.closure([serial for stmt in found for serial in stmt.sources])
    for stmt in needed:
        if not stmt.vary and stmt.serial not in tiles.known:
            tiles.once(stmts[stmt.serial])
    return found


def _is_cut(tiles: Tiles, stmt: Stmt) -> bool:
    if stmt.literal[0] or len(stmt.sources) not in (1, 2):
        return False
    at = tiles.stmts[int(stmt.args[0])]
    if at.op != "index" or at.arg != (tiles.vector,):
        return False
    return stmt.literal[1] or (
        not (end := tiles.stmts[int(stmt.args[1])]).vary
        and all(s.dtype == torch.int64 and s.op not in ("load", "lookup") for s in tiles.closure([end.serial]))
    )


def _cut_tiles(tiles: Tiles, cuts: list[Stmt], index: dict[int, str]) -> None:
    """A tile, ended where one of the comparisons comes out another way. For each way they come out while the ends stand
    in the order they have in the example, there is a text of its own; for all others, one that chooses.
    """
    text, start, kernel = tiles.text, index[tiles.vector], tiles.kernel
    targets = [Target(serial, out=k) for serial, k in kernel.stores]
    ends = dict[str, list[Stmt]]()
    for stmt in cuts:
        ends.setdefault(_end_of(tiles, stmt), []).append(stmt)
    for end in ends:
        text.add(f"if ({start} < {end} && {end} - {start} < m) m = {end} - {start};")
    if not ends:
        tiles.tile(targets, "m", index)
        return
    known, word = dict(tiles.known), "if"
    for passed in _orders(ends, tiles):
        tests = [f"{start} {'>=' if end in passed else '<'} {end}" for end in ends]
        for end, stmts in ends.items():
            tiles.known |= {stmt.serial: str(int((stmt.op == "ge") == (end in passed))) for stmt in stmts}
        with text.block(f"{word} ({' && '.join(tests)})"):
            tiles.tile(targets, "m", index)
        tiles.known, word = dict(known), "else if"
    with text.block("else") if word != "if" else contextlib.nullcontext():
        for stmt in cuts:
            test = f"{start} {'<' if stmt.op == 'lt' else '>='} {_end_of(tiles, stmt)}"
            text.add(f"const int {tiles.names[stmt.serial]} = {test};", stmt.origin)
            tiles.known[stmt.serial] = tiles.names[stmt.serial]
        tiles.tile(targets, "m", index)
    tiles.known = known


def _end_of(tiles: Tiles, stmt: Stmt) -> str:
    return literal(stmt.args[1], torch.int64) if stmt.literal[1] else tiles.known[int(stmt.args[1])]


def _orders(ends: dict[str, list[Stmt]], tiles: Tiles) -> list[set[str]]:
    """Which ends lie behind a tile, for each part of the vector loop, if there are few of them."""
    if (len(ends) + 1) * len(tiles.kernel.body) > MOST_CUT:
        return []
    places = {end: _hint(stmts[0].args[1], stmts[0].literal[1], tiles) for end, stmts in ends.items()}
    order = sorted(ends, key=lambda end: places[end])
    return [set(order[:k]) for k in range(len(order) + 1)]


def _hint(arg: float, is_literal: bool, tiles: Tiles) -> int:
    """A number that follows from sizes, for those of the example."""
    if is_literal:
        return int(arg)
    stmt = tiles.stmts[int(arg)]
    if stmt.op == "extent":
        assert isinstance(stmt.arg, tuple)
        return int(tiles.kernel.inputs[stmt.arg[0]].shape[stmt.arg[1]])
    sides = [_hint(other, lit, tiles) for other, lit in zip(stmt.args, stmt.literal, strict=True)]
    if len(sides) != 2:
        return 0
    return {"add": sides[0] + sides[1], "sub": sides[0] - sides[1], "mul": sides[0] * sides[1]}.get(stmt.op, 0)


# -- in order ----------------------------------------------------------------------------------------------------

START = {"sum": "0", "prod": "1", "max": "low", "min": "high", "where_max": "low", "where_min": "high"}
_ENDS = {
    "low": {torch.float32: "-__builtin_inff()", torch.float64: "-__builtin_inf()", None: "-__LONG_MAX__ - 1"},
    "high": {torch.float32: "__builtin_inff()", torch.float64: "__builtin_inf()", None: "__LONG_MAX__"},
}


def _scans(tiles: Tiles) -> None:
    """Along the vector loop: rows are shared among threads, each is walked from its beginning, in blocks. Across it:
    blocks of columns are shared among threads, each is walked down.
    """
    text, kernel, vector, scanned = tiles.text, tiles.kernel, tiles.vector, tiles.kernel.scanned
    outer = [i for i in range(len(kernel.loops)) if i not in (vector, scanned)]
    targets = [Target(serial, out=k) for serial, k in kernel.stores]
    across = vector != scanned
    if across:
        text.add(f"const long blocks = (n{vector} + {BLOCK - 1}) / {BLOCK}, rows = {_size(outer)} * blocks;")
    else:
        text.add(f"const long rows = {_size(outer)};")
    total = _size(list(range(len(kernel.loops))))
    text.add(f"#pragma omp parallel for schedule(static) if(rows > 1 && {total} > {_grain(kernel)})")
    with text.block("for (long r = 0; r < rows; r++)"):
        if across:
            text.add(f"const long b = r % blocks * {BLOCK}, m = n{vector} - b < {BLOCK} ? n{vector} - b : {BLOCK};")
            text.add("const long row = r / blocks;")
        index = _unravel(tiles, outer, "row" if across else "r") if outer else {}
        index[vector] = "b"
        for stmt in kernel.body:
            if stmt.op == "scan":
                _begin(tiles, stmt, across)
        ordered = [*outer, scanned] + [vector] * across == list(range(len(kernel.loops)))
        if across:
            index[scanned] = "s"
            tiles.flat = f"((row * n{scanned} + s) * n{vector} + b)" if ordered else ""
            with text.block(f"for (long s = 0; s < n{scanned}; s++)"):
                tiles.tile(targets, "m", index)
        else:
            tiles.flat = f"(r * n{vector} + b)" if ordered else ""
            with text.block(f"for (long b = 0, m; b < n{vector}; b += m)"):
                text.add(f"m = n{vector} - b < {BLOCK} ? n{vector} - b : {BLOCK};")
                tiles.tile(targets, "m", index)


def _begin(tiles: Tiles, stmt: Stmt, across: bool) -> None:
    """What a scan knows before the first element, for each column."""
    text, name = tiles.text, tiles.names[stmt.serial]
    dtype = tiles.stmts[stmt.sources[0]].dtype if stmt.sources else stmt.dtype
    start = START[str(stmt.arg)]
    start = _ENDS[start].get(dtype) or _ENDS[start][None] if start in _ENDS else start
    place = str(stmt.arg).startswith("where")
    if not across:
        text.add(f"{REGISTER[dtype]} {name}_acc = {start};", stmt.origin)
        if place:
            text.add(f"long {name}_place = 0;")
        return
    text.add(f"{REGISTER[dtype]} {name}_acc[{BLOCK}];", stmt.origin)
    text.add(f"for (long j = 0; j < m; j++) {name}_acc[j] = {start};")
    if place:
        text.add(f"long {name}_place[{BLOCK}];")
        text.add(f"for (long j = 0; j < m; j++) {name}_place[j] = 0;")


# -- what reductions share ---------------------------------------------------------------------------------------


def _kind(stmt: Stmt) -> Kind:
    if any(stmt.literal):
        raise NoSpelling("a reduction of a constant")
    return kind_of(str(stmt.arg), stmt.dtype)


def _need(tiles: Tiles, kind: Kind) -> None:
    tiles.prelude.add(kind.block)
    tiles.need_in(kind.merge)


def _reduced_value(tiles: Tiles, stmt: Stmt, name: str) -> None:
    """From the accumulator to the value, rounded once."""
    if _kind(stmt).accumulator != REGISTER[stmt.dtype]:
        tiles.text.add(f"const {REGISTER[stmt.dtype]} {name}_r = ({REGISTER[stmt.dtype]}){name};", stmt.origin)
        name = f"{name}_r"
    tiles.known[stmt.serial] = name


def _store_row(tiles: Tiles, serial: int, k: int, index: dict[int, str]) -> None:
    operand, pointer = tiles.kernel.outputs[k], tiles.names["out", k]
    at = tiles.offset(operand, pointer, index) or "0"
    tiles.text.add(f"{pointer}[{at}] = {tiles.stored(operand.dtype, tiles.known[serial])};")


def _row_statements(tiles: Tiles, stmts: list[Stmt], index: dict[int, str]) -> None:
    tiles.index = index
    for stmt in stmts:
        if stmt.serial in tiles.known:
            continue
        if stmt.op == "load":
            operand, pointer = tiles.operand_of(stmt)
            tiles.declare(stmt, f"{pointer}[{tiles.offset(operand, pointer, index) or '0'}]")
        else:
            tiles.once(stmt)


# -- along rows --------------------------------------------------------------------------------------------------


def _rows(tiles: Tiles) -> None:
    """One row after another, shared among threads; each pass walks the row in blocks."""
    text, kernel, vector = tiles.text, tiles.kernel, tiles.vector
    passes = Passes(kernel)
    outer = [i for i in range(len(kernel.loops)) if i not in kernel.reduced]
    around = [i for i in sorted(kernel.reduced) if i != vector]
    scratch = {} if around else _scratch(tiles, passes)
    work = f"rows > 1 && rows * {_size(sorted(kernel.reduced))} > {_grain(kernel)}"
    text.add(f"const long rows = {_size(outer)};")
    own = {serial: k for serial, k in scratch.items() if k < 0}
    with contextlib.ExitStack() as stack:
        if own:
            text.add(f"#pragma omp parallel if({work})")
            stack.enter_context(text.block(""))
            for serial in own:
                type_ = REGISTER[tiles.stmts[serial].dtype]
                text.add(f"{type_} *const {tiles.names[serial]}_row = __builtin_malloc(n{vector} * sizeof({type_}));")
            text.add("#pragma omp for schedule(static)")
        else:
            text.add(f"#pragma omp parallel for schedule(static) if({work})")
        known = dict(tiles.known)
        with text.block("for (long r = 0; r < rows; r++)"):
            index = _unravel(tiles, outer, "r") if outer else {}
            for serial, k in scratch.items():
                if k >= 0:
                    operand, pointer = kernel.outputs[k], tiles.names["out", k]
                    place = tiles.place(operand, pointer, index)
                    text.add(f"{STORAGE[operand.dtype]} *const {tiles.names[serial]}_row = {place};")
            for step in range(passes.count):
                _row_statements(tiles, passes.row_values(step), index)
                for serial, k in passes.stores(step, False):
                    _store_row(tiles, serial, k, index)
                tiles.saving = {s: f"{tiles.names[s]}_row" for s in scratch if passes.first[s] == step}
                _row_pass(tiles, passes, step, index, around)
                tiles.saved |= tiles.saving
                tiles.saving = {}
        tiles.known, tiles.saved = known, {}
        for serial in own:
            text.add(f"__builtin_free({tiles.names[serial]}_row);")


def _row_pass(tiles: Tiles, passes: Passes, step: int, index: dict[int, str], around: list[int]) -> None:
    text, vector = tiles.text, tiles.vector
    reduces = passes.reduces[step] if step < len(passes.reduces) else []
    full = passes.stores(step, True)
    if not reduces and not full:
        return
    cascades = {s.serial: SUFFIX[s.dtype] for s in reduces if _is_any_sum(s)}
    for stmt in reduces:
        name = tiles.names[stmt.serial]
        if stmt.serial in cascades:
            tiles.prelude.add(f"cascade_{cascades[stmt.serial]}")
            text.add(f"{REGISTER[stmt.dtype]} {name} = 0;", stmt.origin)
        else:
            text.add(f"{_kind(stmt).accumulator} {name} = {_kind(stmt).start};", stmt.origin)
    inside = dict(index)
    with contextlib.ExitStack() as stack:
        for i in around:
            stack.enter_context(text.block(f"for (long i{i} = 0; i{i} < n{i}; i{i}++)"))
            inside[i] = f"i{i}"
        for stmt in reduces:
            if stmt.serial in cascades:
                name, suffix = tiles.names[stmt.serial], cascades[stmt.serial]
                text.add(f"struct sum_{suffix} {name}_sum;", stmt.origin)
                text.add(f"sum_start_{suffix}(&{name}_sum, n{vector});", stmt.origin)
        with text.block(f"for (long start = 0, m; start < n{vector}; start += m)"):
            text.add(f"m = n{vector} - start < {BLOCK} ? n{vector} - start : {BLOCK};")
            inside[vector] = "start"
            tiles.flat = "" if around else f"r * n{vector} + start" if index else "start"
            _block_reduce(tiles, reduces, full, inside, cascades)
        for stmt in reduces:
            if stmt.serial in cascades:
                name = tiles.names[stmt.serial]
                text.add(f"{name} = {name} + sum_end_{cascades[stmt.serial]}(&{name}_sum);", stmt.origin)
    for stmt in reduces:
        name = tiles.names[stmt.serial]
        if stmt.serial in cascades:
            tiles.known[stmt.serial] = name
        else:
            _reduced_value(tiles, stmt, name)


def _block_reduce(
    tiles: Tiles, reduces: list[Stmt], full: list[tuple[int, int]], index: dict[int, str], cascades: dict[int, str]
) -> None:
    """A tile whose blocks go into running values named like their reductions."""

    def finish(stmt: Stmt, block: str) -> None:
        kind, name = _kind(stmt), tiles.names[stmt.serial]
        if stmt.serial in cascades:
            tiles.text.add(f"sum_block_{cascades[stmt.serial]}(&{name}_sum, m, {block});", stmt.origin)
            return
        _need(tiles, kind)
        tiles.text.add(f"{name} = {kind.merge.format(name, f'{kind.block}(m, {block})')};", stmt.origin)

    targets = [Target(serial, out=k) for serial, k in full]
    targets += [Target(stmt.sources[0], reduce=stmt) for stmt in reduces if _kind(stmt)]
    tiles.tile(targets, "m", index, finish)


def _scratch(tiles: Tiles, passes: Passes) -> dict[int, int]:
    """Results of functions that a later pass reads again, by serial: the output whose row they may wait in, or -1."""
    kernel, found = tiles.kernel, dict[int, int]()
    needed = [passes.needs(step) for step in range(passes.count)]
    free = [
        k
        for step in range(passes.count)
        for _, k in passes.stores(step, True)
        if kernel.outputs[k].steps[tiles.vector] == 1
    ]
    for stmt in kernel.body:
        uses = [step for step, serials in enumerate(needed) if stmt.serial in serials]
        if stmt.op in FUNCTIONS and tiles.vector in stmt.vary and len(uses) > 1:
            passes.first[stmt.serial] = uses[0]
            fits = [
                k
                for serial, k in kernel.stores
                if k in free
                and passes.after[serial] >= uses[-1]
                and STORAGE[kernel.outputs[k].dtype] == REGISTER[stmt.dtype]
            ]
            found[stmt.serial] = fits[0] if fits else -1
            free = [k for k in free if not fits or k != fits[0]]
    return found


# -- few long rows -----------------------------------------------------------------------------------------------


def _in_parts(tiles: Tiles) -> bool:
    kernel = tiles.kernel
    rows = prod(loop.hint for loop in kernel.loops if not loop.reduced)
    length = prod(loop.hint for loop in kernel.loops if loop.reduced)
    return rows < FEW and length >= 2 * PART and len(kernel.reduced) == 1 and Passes(kernel).is_single


def _parts(tiles: Tiles) -> None:
    """Parts of rows, shared among threads; then each row's parts in order."""
    text, kernel, vector = tiles.text, tiles.kernel, tiles.vector
    passes = Passes(kernel)
    outer = [i for i in range(len(kernel.loops)) if i not in kernel.reduced]
    reduces = passes.reduces[0]
    text.add(f"const long rows = {_size(outer)}, parts = (n{vector} + {PART - 1}) / {PART};")
    for stmt in reduces:
        type_ = _kind(stmt).accumulator
        name = tiles.names[stmt.serial]
        text.add(f"{type_} *const {name}_parts = __builtin_malloc(rows * parts * sizeof({type_}));", stmt.origin)
    known = dict(tiles.known)
    text.add(f"#pragma omp parallel for schedule(static) if(parts > 1 && rows * n{vector} > {_grain(kernel)})")
    with text.block("for (long c = 0; c < rows * parts; c++)"):
        text.add(f"const long r = c / parts, first = c % parts * {PART};")
        text.add(f"const long last = n{vector} - first < {PART} ? n{vector} : first + {PART};")
        index = _unravel(tiles, outer, "r") if outer else {}
        _row_statements(tiles, [s for s in passes.row_values(0) if s.op == "load"], index)
        _row_statements(tiles, passes.row_values(0), index)
        for stmt in reduces:
            text.add(f"{_kind(stmt).accumulator} {tiles.names[stmt.serial]} = {_kind(stmt).start};", stmt.origin)
        with text.block("for (long start = first, m; start < last; start += m)"):
            text.add(f"m = last - start < {BLOCK} ? last - start : {BLOCK};")
            tiles.flat = f"r * n{vector} + start"
            _block_reduce(tiles, reduces, [], index | {vector: "start"}, {})
        for stmt in reduces:
            name = tiles.names[stmt.serial]
            text.add(f"{name}_parts[c] = {name};", stmt.origin)
    tiles.known = dict(known)
    with text.block("for (long r = 0; r < rows; r++)"):
        index = _unravel(tiles, outer, "r") if outer else {}
        for stmt in reduces:
            kind, name = _kind(stmt), tiles.names[stmt.serial]
            text.add(f"{kind.accumulator} {name} = {kind.start};", stmt.origin)
            part = f"{name}_parts[c]"
            text.add(f"for (long c = r * parts; c < (r + 1) * parts; c++) {name} = {kind.merge.format(name, part)};")
            _reduced_value(tiles, stmt, name)
        for step in range(passes.count):
            _row_statements(tiles, passes.row_values(step), index)
            for serial, k in passes.stores(step, False):
                _store_row(tiles, serial, k, index)
    tiles.known = known
    for stmt in reduces:
        text.add(f"__builtin_free({tiles.names[stmt.serial]}_parts);")


# -- down columns ------------------------------------------------------------------------------------------------


def _columns(tiles: Tiles) -> None:
    """Blocks of neighbouring columns, shared among threads; each pass goes down the rows with one value per column."""
    text, kernel, vector = tiles.text, tiles.kernel, tiles.vector
    passes = Passes(kernel)
    outer = [i for i in range(len(kernel.loops)) if i not in kernel.reduced and i != vector]
    tiles.prelude.add("columns_each")
    tiles.block = WIDE
    text.add(f"const long each = columns_each(n{vector}), tiles = (n{vector} + each - 1) / each;")
    work = f"{_size(list(range(len(kernel.loops))))} > {_grain(kernel)}"
    text.add(f"#pragma omp parallel for schedule(static) if({work})")
    known = dict(tiles.known)
    with text.block(f"for (long r = 0; r < {' * '.join(['tiles', *(f'n{i}' for i in outer)])}; r++)"):
        text.add("const long start = r % tiles * each;")
        text.add(f"const long m = n{vector} - start < each ? n{vector} - start : each;")
        index = _unravel(tiles, outer, "(r / tiles)") if outer else {}
        index[vector] = "start"
        tiles.flat = ""
        for step in range(passes.count):
            _column_values(tiles, passes, step, index)
            _column_pass(tiles, passes, step, index)
    tiles.known = known


def _column_values(tiles: Tiles, passes: Passes, step: int, index: dict[int, str]) -> None:
    """Values per column that became known: stored, or kept in a block for the passes that follow."""
    later = {
        s
        for stmt in passes.kernel.body
        if passes.after[stmt.serial] >= step and stmt.vary & passes.kernel.reduced
        for s in stmt.sources
    }
    targets = [Target(serial, out=k) for serial, k in passes.stores(step, False)]
    for stmt in passes.row_values(step):
        if stmt.serial in later and stmt.op not in ("load", "scalar", "count", "index") and tiles.vector in stmt.vary:
            targets.append(Target(stmt.serial, kept=True))
    if targets:
        tiles.tile(targets, "m", index)


def _column_pass(tiles: Tiles, passes: Passes, step: int, index: dict[int, str]) -> None:
    text, kernel = tiles.text, tiles.kernel
    reduces = passes.reduces[step] if step < len(passes.reduces) else []
    full = passes.stores(step, True)
    if not reduces and not full:
        return
    loops = sorted(kernel.reduced)
    last = loops[-1]
    kinds = {stmt.serial: _kind(stmt) for stmt in reduces}
    eager = {s.serial: SUFFIX[s.dtype] for s in reduces if len(loops) == 1 and _is_any_sum(s)}
    sums = [s for s in reduces if s.serial not in eager and kinds[s.serial].accumulator != REGISTER[s.dtype]]
    for stmt in reduces:
        _start_columns(tiles, stmt, eager.get(stmt.serial), last)
    inside = dict(index)
    with contextlib.ExitStack() as stack:
        for i in loops[:-1]:
            stack.enter_context(text.block(f"for (long i{i} = 0; i{i} < n{i}; i{i}++)"))
            inside[i] = f"i{i}"
        inside[last] = f"i{last}"
        if sums:  # float32 sums of a few rows at a time, then into double
            stack.enter_context(text.block(f"for (long first = 0; first < n{last}; first += {FLUSH})"))
            text.add(f"const long last = n{last} - first < {FLUSH} ? n{last} : first + {FLUSH};")
            for stmt in sums:
                name = tiles.names[stmt.serial]
                text.add(f"float {name}_few[{WIDE}];", stmt.origin)
                text.add(f"for (long j = 0; j < m; j++) {name}_few[j] = 0;")
        bounds = ("first", "last") if sums else ("0", f"n{last}")
        with text.block(f"for (long i{last} = {bounds[0]}; i{last} < {bounds[1]}; i{last}++)"):

            def finish(stmt: Stmt, block: str) -> None:
                name = tiles.names[stmt.serial]
                if stmt.serial in eager:
                    text.add(f"columns_row_{eager[stmt.serial]}(&{name}_sum, i{last}, {block});", stmt.origin)
                    return
                name += "_few" if stmt in sums else ""
                tiles.need_in(kinds[stmt.serial].merge)
                text.add("#pragma omp simd")
                merged = kinds[stmt.serial].merge.format(f"{name}[j]", f"{block}[j]")
                text.add(f"for (long j = 0; j < m; j++) {name}[j] = {merged};", stmt.origin)

            targets = [Target(serial, out=k) for serial, k in full]
            targets += [Target(stmt.sources[0], reduce=stmt) for stmt in reduces]
            tiles.tile(targets, "m", inside, finish)
        for stmt in sums:
            name = tiles.names[stmt.serial]
            text.add(f"for (long j = 0; j < m; j++) {name}[j] += {name}_few[j];", stmt.origin)
    for stmt in reduces:
        name = tiles.names[stmt.serial]
        if stmt.serial in eager:
            text.add(f"columns_end_{eager[stmt.serial]}(&{name}_sum, {name});", stmt.origin)
        tiles.known[stmt.serial] = f"({REGISTER[stmt.dtype]}){name}[j]" if stmt in sums else f"{name}[j]"


def _start_columns(tiles: Tiles, stmt: Stmt, eager: str | None, loop: int) -> None:
    """Declare what a reduction down columns adds up in. eager: the type's suffix, for eager's order of additions."""
    text, kind, name = tiles.text, _kind(stmt), tiles.names[stmt.serial]
    if eager is None:
        text.add(f"{kind.accumulator} {name}[{WIDE}];", stmt.origin)
        text.add(f"for (long j = 0; j < m; j++) {name}[j] = {kind.start};")
        return
    tiles.prelude.add(f"columns_{eager}")
    text.add(f"{REGISTER[stmt.dtype]} {name}[{WIDE}];", stmt.origin)
    text.add(f"struct columns_{eager} {name}_sum;", stmt.origin)
    text.add(f"columns_start_{eager}(&{name}_sum, n{loop}, start, m, n{tiles.vector});", stmt.origin)


def _is_any_sum(stmt: Stmt) -> bool:
    return stmt.arg in ("sum", "total") and stmt.dtype.is_floating_point and not any(stmt.literal)
