"""A group of values as one loop nest: what both printers print, and what a launch has to check and to hand over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

import torch

from dynajit.codegen.text import NoSpelling
from dynajit.lower.ir import VIEWS, Origin, Value, base_of
from dynajit.lower.program import Program
from dynajit.schedule.axes import Axes, Dim
from dynajit.schedule.group import Dims, Group
from dynajit.schedule.needs import Needs


@dataclass(frozen=True)
class Size:
    """How an axis gets its size at a launch: `dim` of input `operand`, or number `extent` of the graph, or what the
    relation `dim` says if `operand` is -2, divided by the axes `divide`. Else it is `hint`, the example's size.
    """

    hint: int
    operand: int = -1
    dim: int = -1
    divide: tuple[int, ...] = ()
    extent: int = -1


@dataclass(frozen=True)
class Held:
    """What must hold of sizes at a launch: the product of `axes` times `factor` is (exact) or is at most `plus` and the
    sum of `terms`: (input, dimension, coefficient).
    """

    axes: tuple[int, ...]
    factor: int
    plus: int
    terms: tuple[tuple[int, int, int], ...]
    exact: bool


@dataclass(frozen=True)
class Operand:
    """A tensor that a kernel reads or writes. dims: the axes of each of its dimensions. steps: how far one turn of each
    loop goes, in elements: 0, 1, or None for a number known at the launch. layout: dimensions by falling stride; dense:
    without gaps. shape, strides: of the example. picked: dimensions in which it is not walked, but looked up by numbers
    that the kernel calculates; units: those of them that must have stride one.
    """

    name: str
    serial: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    dims: Dims
    strides: tuple[int, ...]
    layout: tuple[int, ...]
    dense: bool
    steps: tuple[int | None, ...] = ()
    picked: tuple[int, ...] = ()
    units: tuple[int, ...] = ()

    @property
    def numel(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class Loop:
    """One loop over a product of axes that every operand walks with one step."""

    axes: tuple[int, ...]
    reduced: bool
    hint: int


@dataclass(frozen=True)
class Stmt:
    """One value of the loop body. args: serials of values or Python numbers. vary: the loops it depends on."""

    serial: int
    op: str
    args: tuple[int | float | bool, ...]
    literal: tuple[bool, ...]
    dtype: torch.dtype
    vary: frozenset[int]
    arg: object = None
    origin: Origin | None = None

    @property
    def sources(self) -> tuple[int, ...]:
        """Serials of the operands that are values."""
        return tuple(int(arg) for arg, is_literal in zip(self.args, self.literal, strict=True) if not is_literal)

    @property
    def name(self) -> str:
        return self.origin.name if self.origin else self.op


@dataclass(frozen=True)
class Lookup:
    """The argument of a statement that looks up elements of input `operand`: its operands are, if it is guarded, where
    there is anything to read, and then a number for each picked dimension, with what may be wrong with it (`Pick`).
    """

    operand: int
    checks: tuple[str, ...]
    guarded: bool


@dataclass(frozen=True)
class Kernel:
    """inputs: operands that are handed over, read or not. body: statements in program order. stores: (serial, output).
    scalars: names of the graph's numbers, with their types. extents: names of those that are sizes, handed over behind
    the scalars. What must hold at a launch: pins: (axes, number) pairs; measures: (axes, position in extents); held.
    scanned: the loop that has to be walked in order, one element after another.
    """

    name: str
    sizes: tuple[Size, ...]
    loops: tuple[Loop, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    scalars: tuple[tuple[str, torch.dtype], ...]
    body: tuple[Stmt, ...]
    stores: tuple[tuple[int, int], ...]
    pins: tuple[tuple[tuple[int, ...], int], ...]
    extents: tuple[str, ...] = ()
    measures: tuple[tuple[tuple[int, ...], int], ...] = ()
    held: tuple[Held, ...] = ()
    scanned: int = -1

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (*self.inputs, *self.outputs)

    def signature(self) -> object:
        """Equal for kernels with the same text but for names: one machine code serves both."""
        number = {stmt.serial: i for i, stmt in enumerate(self.body)}
        body = tuple(
            (
                stmt.op,
                tuple(repr(a) if lit else number[int(a)] for a, lit in zip(stmt.args, stmt.literal, strict=True)),
                stmt.literal,
                stmt.dtype,
                stmt.vary,
                stmt.arg,
            )
            for stmt in self.body
        )
        operands = tuple((o.dtype, o.steps, o.picked, o.units) for o in self.operands)
        loops = tuple(loop.reduced for loop in self.loops)
        stores = tuple((number[serial], k) for serial, k in self.stores)
        return loops, self.scanned, operands, len(self.inputs), tuple(dtype for _, dtype in self.scalars), body, stores

    @property
    def checks(self) -> bool:
        """May it find that its results do not count?"""
        return any(
            stmt.op == "checked" or (isinstance(stmt.arg, Lookup) and any(stmt.arg.checks)) for stmt in self.body
        )

    @property
    def flag(self) -> int:
        """Where among sizes and strides it says so; then come stride and size of each dimension that is looked up."""
        return len(self.loops) * (1 + len(self.operands))

    @property
    def reduced(self) -> frozenset[int]:
        return frozenset(i for i, loop in enumerate(self.loops) if loop.reduced)


def build(name: str, group: Group, axes: Axes, stored: set[int], program: Program, needs: Needs) -> Kernel:
    """The loop nest of a group. `stored` are the values of its body that others read from memory."""
    origins, strides = program.origins, needs.strides
    number = {axis: i for i, axis in enumerate(axes.resolve(group.domain))}

    def dims_of(dims: Dims) -> Dims:
        return tuple(tuple(number[axis] for axis in axes.resolve(dim)) for dim in dims)

    inputs: list[Operand] = []
    load_of: dict[int, int] = {}  # serial of the value that is loaded -> its operand
    for serial, (load, dims) in sorted(group.loads.items()):
        base = base_of(load)
        given = base.arg.strides if base.op == "buffer" else strides.get(base.serial, contiguous(base.shape))
        load_of[serial] = len(inputs)
        operand = _operand(_name(base, origins), base, dims_of(dims), given)
        picked = group.picks.get(serial, ())
        units = tuple(d for d in picked if operand.strides[d] == 1 and operand.dense)
        inputs.append(replace(operand, picked=picked, units=units))
    outputs: list[Operand] = []
    stores: list[tuple[int, int]] = []
    for serial in sorted(stored):
        value = group.body[serial]
        given = strides.get(serial, contiguous(value.shape))
        stores.append((serial, len(outputs)))
        outputs.append(_operand(_name(value, origins), value, dims_of(group.dims[serial]), given))

    pinned, measures, extents, tables = _said(program, group, axes, number, load_of)
    held = (*tables, *_held(group, inputs, load_of, dims_of, program, extents, measures))
    sizes = _sizes([axes.size[axis] for axis in number], inputs, pinned, measures, held)
    reduced = {number[axis] for axis in axes.resolve(group.reduced)}
    positions = {
        leaf.serial: dims_of(group.dims[leaf.serial])[0]
        for value in group.body.values()
        for leaf in map(base_of, value.srcs)
        if leaf.op == "index" and leaf.serial in group.dims
    }
    scanned = {number[axis] for scan in group.scans.values() for axis in axes.resolve(scan)}
    counted = scanned | {axis for dim in positions.values() for axis in dim}
    # What eager sums is a tensor in memory, and the order of its additions follows that tensor's strides.
    summed = [
        _operand("", source, dims_of(group.dims[source.serial]), strides.get(source.serial, contiguous(source.shape)))
        for value in group.body.values()
        if value.op == "reduce" and value.arg[0] == "sum"
        for source in value.srcs
        if source.serial in group.dims
    ]
    loops = _loops(sizes, reduced, [*outputs, *inputs], counted, summed)
    inputs = [_with_steps(operand, loops, sizes) for operand in inputs]
    outputs = [_with_steps(operand, loops, sizes) for operand in outputs]
    body, scalars = _body(group, loops, dims_of, load_of, inputs, program, positions)
    along = [i for i, loop in enumerate(loops) if scanned & set(loop.axes)]
    if len(along) > 1:
        raise NoSpelling("one after another along several loops")
    return Kernel(
        name=name,
        sizes=sizes,
        loops=loops,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        scalars=scalars,
        body=body,
        stores=tuple(stores),
        pins=tuple(dict.fromkeys(pinned)),
        extents=tuple(extents),
        measures=tuple(dict.fromkeys(measures)),
        held=held,
        scanned=along[0] if along else -1,
    )


def _held(
    group: Group,
    inputs: list[Operand],
    load_of: dict[int, int],
    dims_of: Callable[[Dims], Dims],
    program: Program,
    extents: list[str],
    measures: list[tuple[tuple[int, ...], int]],
) -> tuple[Held, ...]:
    """What the lookups of a group count on. Sizes that the graph's numbers say are added to the measures."""
    found: dict[Held, None] = {}
    for serial, value in group.body.items():
        if value.op != "lookup":
            continue
        dims = dims_of(group.dims[serial])
        if not value.arg.guarded:  # a number that is wrong reads the first element
            k = load_of[serial]
            found.update(dict.fromkeys(Held((), 1, 0, ((k, d, 1),), False) for d in inputs[k].picked))
        for relation in value.arg.relations:
            size = None if relation.pin is None else program.pins.get(relation.pin[0], {}).get(relation.pin[1])
            if relation.pin is not None and size is None:
                continue
            axes = tuple(axis for d in relation.dims for axis in dims[d])
            if isinstance(size, str):
                if not axes:
                    raise NoSpelling("places that follow from a number of the graph")
                if size not in extents:
                    extents.append(size)
                measures.append((axes, extents.index(size)))
                continue
            places = [_operand_of(table, inputs) for table, _, _ in relation.terms]
            if -1 in places:  # it is looked up by another kernel, which this relation holds to the example's sizes, too
                example = prod(value.shape[d] for d in relation.dims)
                found.setdefault(Held(axes, 1, example, (), True))
                found.update(dict.fromkeys(_as_example(value, load_of[serial], inputs)))
                continue
            terms = tuple((k, d, times) for k, (_, d, times) in zip(places, relation.terms, strict=True))
            found.setdefault(Held(axes, relation.factor, relation.plus, terms, relation.exact))
        if serial in program.pins:  # the numbers were calculated from the example's sizes
            found.update(dict.fromkeys(_as_example(value, load_of[serial], inputs)))
    return tuple(found)


def _as_example(value: Value, k: int, inputs: list[Operand]) -> list[Held]:
    """What is looked up has the size of the example, in the dimensions that numbers say."""
    shape = base_of(value.srcs[0]).shape
    return [Held((), shape[d], 0, ((k, d, 1),), True) for d in inputs[k].picked]


def _operand_of(table: Value, inputs: list[Operand]) -> int:
    """An input that is this table; -1 if there is none."""
    return next((k for k, operand in enumerate(inputs) if operand.serial == table.serial), -1)


Pins = list[tuple[tuple[int, ...], int]]


def _said(
    program: Program, group: Group, axes: Axes, number: Mapping[int, int], load_of: Mapping[int, int]
) -> tuple[Pins, Pins, list[str], list[Held]]:
    """What the program says of sizes: pins, measures, the extents they are compared with, and sizes of tables."""
    pinned: Pins = []
    measures: Pins = []
    extents: list[str] = []
    tables: list[Held] = []
    for serial, by_dim in program.pins.items():
        dims = group.dims.get(serial) or group.views.get(serial) or ()
        for dim, size in by_dim.items():
            found = axes.resolve(dims[dim]) if dim < len(dims) else ()
            if not all(axis in number for axis in found):  # what numbers say, no loop walks
                if len(found) > 1 or isinstance(size, str):
                    raise NoSpelling("numbers for a part of a dimension")
                lookup, d = group.unwalked[found[0]]
                tables.append(Held((), size, 0, ((load_of[lookup], d, 1),), True))
                continue
            walked = tuple(number[axis] for axis in found)
            if not walked:
                continue
            if isinstance(size, int):
                pinned.append((walked, size))
                continue
            if size not in extents:
                extents.append(size)
            measures.append((walked, extents.index(size)))
    return pinned, measures, extents, tables


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(max(size, 1) for size in shape[i + 1 :]) for i in range(len(shape)))


def layout_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """The order of dimensions by falling stride, and whether a tensor so laid out has no gaps."""
    order = tuple(range(len(shape)))
    if contiguous(shape) != strides:
        # A dimension of size one with the stride of another lies within it: (8, 1, 2) by (1, 8, 8) is 2, 1, 8.
        order = tuple(sorted(order, key=lambda d: (-strides[d], shape[d] == 1, d)))
    step, dense = 1, True
    for d in reversed(order):
        dense = dense and strides[d] == step
        step *= shape[d]
    return order, dense


def _name(value: Value, origins: Mapping[int, Origin]) -> str:
    if value.op == "buffer":
        return str(value.arg.name)
    return origins[value.serial].name if value.serial in origins else f"v{value.serial}"


def _operand(name: str, value: Value, dims: Dims, strides: tuple[int, ...]) -> Operand:
    layout, dense = layout_of(value.shape, strides)
    return Operand(name, value.serial, value.dtype, value.shape, dims, strides, layout, dense)


def _sizes(
    hints: list[int],
    inputs: list[Operand],
    pins: list[tuple[tuple[int, ...], int]],
    measures: list[tuple[tuple[int, ...], int]],
    held: tuple[Held, ...],
) -> tuple[Size, ...]:
    """Where each axis gets its size: a dimension or number of its own, the rest of a product, what a relation says, or
    else the example's.
    """
    found: dict[int, Size] = {}
    for k, operand in enumerate(inputs):
        for d, dim in enumerate(operand.dims):
            if len(dim) == 1:
                found.setdefault(dim[0], Size(hints[dim[0]], k, d))
    for dim, extent in measures:
        if len(dim) == 1:
            found.setdefault(dim[0], Size(hints[dim[0]], extent=extent))
    for dim, size in pins:
        if len(dim) == 1:
            found.setdefault(dim[0], Size(size))
    products = [
        (dim, Size(0, k, d)) for k, operand in enumerate(inputs) for d, dim in enumerate(operand.dims) if len(dim) > 1
    ]
    products += [(dim, Size(0, extent=extent)) for dim, extent in measures if len(dim) > 1]
    while len(found) < len(hints):
        for dim, whole in products:
            open_ = [axis for axis in dim if axis not in found]
            if len(open_) == 1:
                rest = tuple(axis for axis in dim if axis != open_[0])
                found[open_[0]] = replace(whole, hint=hints[open_[0]], divide=rest)
                break
        else:
            if (from_held := _from_relation(hints, held, found)) is not None:
                found[from_held[0]] = from_held[1]
                continue
            in_products = [axis for dim, _ in products for axis in dim[1:] if axis not in found]
            axis = in_products[-1] if in_products else next(a for a in range(len(hints)) if a not in found)
            found[axis] = Size(hints[axis])
    return tuple(found[axis] for axis in range(len(hints)))


def _from_relation(hints: list[int], held: tuple[Held, ...], found: dict[int, Size]) -> tuple[int, Size] | None:
    """An axis whose size follows from a relation, and how."""
    for k, relation in enumerate(held):
        open_ = [axis for axis in relation.axes if axis not in found]
        if relation.exact and relation.factor == 1 and relation.terms and len(open_) == 1:
            rest = tuple(axis for axis in relation.axes if axis != open_[0])
            return open_[0], Size(hints[open_[0]], -2, k, rest)
    return None


def _axis_steps(operand: Operand, sizes: tuple[Size, ...]) -> dict[int, int]:
    """The stride of each axis for the example."""
    steps: dict[int, int] = {}
    for dim, stride in zip(operand.dims, operand.strides, strict=True):
        for i, axis in enumerate(dim):
            steps[axis] = stride * prod(sizes[inner].hint for inner in dim[i + 1 :])
    return steps


def _loops(
    sizes: tuple[Size, ...], reduced: set[int], operands: list[Operand], counted: set[int], summed: list[Operand]
) -> tuple[Loop, ...]:
    """Axes ordered by the strides of the widest operands, outputs first, and merged where all operands allow; not those
    whose positions are values. summed: operands that only say what may be merged.
    """
    steps = [_axis_steps(operand, sizes) for operand in operands]
    widest = sorted(range(len(operands)), key=lambda k: (-len(steps[k]), k))

    def weight(axis: int) -> tuple[bool, list[int]]:
        return axis in reduced, [-steps[k].get(axis, 0) for k in widest]

    steps += [_axis_steps(operand, sizes) for operand in summed]
    loops: list[Loop] = []
    for axis in sorted(range(len(sizes)), key=weight):
        last = loops[-1] if loops else None
        if last is not None and counted & {axis, *last.axes}:
            last = None
        if last is not None and last.reduced == (axis in reduced) and _mergeable(last.axes[-1], axis, sizes, steps):
            loops[-1] = Loop((*last.axes, axis), last.reduced, last.hint * sizes[axis].hint)
        else:
            loops.append(Loop((axis,), axis in reduced, sizes[axis].hint))
    return tuple(loops) or (Loop((), False, 1),)  # one element is a loop of one turn


def _mergeable(outer: int, inner: int, sizes: tuple[Size, ...], steps: list[dict[int, int]]) -> bool:
    for step in steps:
        if (outer in step) != (inner in step):
            return False
        if outer in step and step[outer] != step[inner] * sizes[inner].hint:
            return False
    return True


def _with_steps(operand: Operand, loops: tuple[Loop, ...], sizes: tuple[Size, ...]) -> Operand:
    steps = _axis_steps(operand, sizes)
    per_loop: list[int | None] = []
    for loop in loops:
        step = steps.get(loop.axes[-1]) if loop.axes else None
        per_loop.append(0 if step is None else 1 if step == 1 else None)
    return replace(operand, steps=tuple(per_loop))


def _body(
    group: Group,
    loops: tuple[Loop, ...],
    dims_of: object,
    load_of: dict[int, int],
    inputs: list[Operand],
    program: Program,
    positions: dict[int, Dim],
) -> tuple[tuple[Stmt, ...], tuple[tuple[str, torch.dtype], ...]]:
    assert callable(dims_of)
    loop_of = {axis: i for i, loop in enumerate(loops) for axis in loop.axes}
    reduced = frozenset(i for i, loop in enumerate(loops) if loop.reduced)
    made: dict[int, Stmt] = {}
    numbers: dict[int, float | int | bool] = {}
    scalars: dict[str, torch.dtype] = {}

    def operand(value: Value) -> int:
        """The serial under which a source stands in the body: leaves are made on the way, views are looked through."""
        while value.op in VIEWS and value.serial not in load_of:
            value = value.srcs[0]
        serial = value.serial
        if serial in made or serial in numbers or serial in group.body:
            return serial
        if serial in load_of:
            steps = inputs[load_of[serial]].steps
            vary = frozenset(i for i, step in enumerate(steps) if step != 0)
            made[serial] = Stmt(serial, "load", (), (), value.dtype, vary, load_of[serial])
        elif value.op in ("const", "full", "like"):
            numbers[serial] = value.arg
        elif value.op == "index":
            along = tuple(loop_of[axis] for axis in positions[serial])
            made[serial] = Stmt(serial, "index", (), (), value.dtype, frozenset(along), along)
        elif value.op == "extent":
            table, d = value.arg
            arg = next(
                ((k, d) for k, other in enumerate(inputs) if other.serial == table.serial and d in other.picked), None
            )
            if arg is None:
                raise NoSpelling("the size of a tensor that the kernel does not look up")
            made[serial] = Stmt(serial, "extent", (), (), value.dtype, frozenset(), arg)
        elif value.op == "scalar":
            scalars.setdefault(value.arg, value.dtype)
            made[serial] = Stmt(serial, "scalar", (), (), value.dtype, frozenset(), list(scalars).index(value.arg))
        else:
            assert value.op == "count", value
            try:
                shape = dims_of(group.dims[value.srcs[0].serial])
            except KeyError as error:
                raise NoSpelling("the number of elements of a tensor that no loop walks") from error
            over = frozenset(loop_of[axis] for d in value.arg for axis in shape[d])
            made[serial] = Stmt(serial, "count", (), (), value.dtype, frozenset(), over)
        return serial

    for serial in sorted(group.body):
        value = group.body[serial]
        sources = [operand(src) for src in (value.srcs[1:] if value.op == "lookup" else value.srcs)]
        args = tuple(numbers.get(s, s) for s in sources)
        literal = tuple(s in numbers for s in sources)
        vary = frozenset[int]().union(*(made[s].vary for s in sources if s in made))
        arg = program.ways.get(serial, value.arg)
        if value.op == "lookup":
            steps = inputs[load_of[serial]].steps
            vary |= frozenset(i for i, step in enumerate(steps) if step != 0)
            arg = Lookup(load_of[serial], value.arg.checks, value.arg.guarded)
        if value.op == "scan":
            vary |= frozenset(loop_of[axis] for d in dims_of((group.scans[serial],)) for axis in d)
            arg = value.arg[0]
        if value.op == "reduce":
            vary, arg = vary - reduced, value.arg[0]
        made[serial] = Stmt(serial, value.op, args, literal, value.dtype, vary, arg, program.origins.get(serial))
    return tuple(made.values()), tuple(scalars.items())
