"""A group: values that one kernel computes, over one set of loop axes."""

from __future__ import annotations

from dataclasses import dataclass, field

from dynajit.lower.ir import LEAVES, VIEWS, Value, base_of
from dynajit.schedule.axes import Axes, Dim

Dims = tuple[Dim, ...]


class Misfit(Exception):
    """These values cannot share loops, for the reason given."""


@dataclass(eq=False)
class Group:
    """By serial: body: the values computed; dims: the axes of each dimension of a value; over: the axes of a reduction;
    views: the axes of views on the way to memory; loads: values read from memory, under the view they are read by, with
    the axes of the base's dimensions; the table of a lookup stands under the lookup. picks: of each lookup, the
    dimensions of the table's base that numbers say. scans: the axes of a scan.
    unwalked: by axis, the lookup and the dimension of its table's base, for what numbers say in views of a table.

    domain: all loop axes, in the order of the widest value. reduced: those that reductions run over. level: kernels of
    one level do not read each other.
    """

    number: int
    epoch: int
    level: int
    body: dict[int, Value] = field(default_factory=dict)
    dims: dict[int, Dims] = field(default_factory=dict)
    over: dict[int, Dim] = field(default_factory=dict)
    views: dict[int, Dims] = field(default_factory=dict)
    loads: dict[int, tuple[Value, Dims]] = field(default_factory=dict)
    picks: dict[int, tuple[int, ...]] = field(default_factory=dict)
    scans: dict[int, Dim] = field(default_factory=dict)
    unwalked: dict[int, tuple[int, int]] = field(default_factory=dict)
    domain: Dim = ()
    reduced: Dim = ()

    def absorb(self, other: Group | Placement) -> None:
        self.body.update(other.body)
        self.dims.update(other.dims)
        self.over.update(other.over)
        self.views.update(other.views)
        self.loads.update(other.loads)
        self.picks.update(other.picks)
        self.scans.update(other.scans)
        self.unwalked.update(other.unwalked)


class Placement:
    """An attempt to compute one more value within some groups taken together."""

    def __init__(self, axes: Axes, groups: list[Group], inline: dict[int, Value]) -> None:
        self.axes, self.groups, self.inline = axes, groups, inline
        self.dims: dict[int, Dims] = {}
        self.body: dict[int, Value] = {}
        self.loads: dict[int, tuple[Value, Dims]] = {}
        self.views: dict[int, Dims] = {}
        self.over: dict[int, Dim] = {}
        self.picks: dict[int, tuple[int, ...]] = {}
        self.scans: dict[int, Dim] = {}
        self.unwalked: dict[int, tuple[int, int]] = {}

    def known(self, value: Value) -> Dims | None:
        for dims in (self.dims, *(group.dims for group in self.groups)):
            if value.serial in dims:
                return dims[value.serial]
        return None

    def place(self, value: Value) -> Dims:
        """The axes of a value that these groups compute."""
        found = self.known(value)
        if found is None:
            if value.op == "reduce":
                found = self._reduce(value)
            elif value.op == "lookup":
                found = self._lookup(value)
            elif value.op == "scan":
                found = self._scan(value)
            else:
                found = self._broadcast(value, [self.read(src) for src in value.srcs])
            self.dims[value.serial], self.body[value.serial] = found, value
        return found

    def read(self, value: Value) -> Dims:
        """The axes of an operand, wherever it comes from."""
        found = self.known(value)
        if found is not None:
            return found
        if value.op in VIEWS:
            found = self._view(value)
        elif value.serial in self.inline:
            return self.place(value)
        elif value.op == "like":
            found = self.read(value.srcs[0])
        elif value.op in LEAVES - {"buffer", "full", "index"}:
            for src in value.srcs:
                self.read(src)
            found = ()
        else:
            found = tuple(() if size == 1 else (self.axes.new(size),) for size in value.shape)
            if value.op not in ("full", "index"):
                self.loads[value.serial] = value, found
        self.dims[value.serial] = found
        return found

    def _is_here(self, value: Value) -> bool:
        return self.known(value) is not None or value.serial in self.inline or value.op in LEAVES - {"buffer"}

    def _view(self, value: Value) -> Dims:
        """A view of something computed here follows it. A view of memory is a load with axes of its own, so that `x`
        and its transpose may stand in one kernel.
        """
        base = base_of(value)
        if self._is_here(base) and base.serial not in self._loaded():
            return self._transform(value, self.read(value.srcs[0]))
        chain = [value]
        while chain[-1].op in VIEWS:
            chain.append(chain[-1].srcs[0])
        dims: Dims = tuple(() if size == 1 else (self.axes.new(size),) for size in base.shape)
        start = dims
        for step in reversed(chain[:-1]):
            dims = self._transform(step, dims)
            self.views[step.serial] = dims
        self.loads[value.serial] = value, start
        return dims

    def _loaded(self) -> set[int]:
        """What is read from memory as it stands; the table of a lookup stands under a value that is computed here."""
        mine = {serial for serial in self.loads if serial not in self.picks}
        return mine | {serial for group in self.groups for serial in group.loads if serial not in group.picks}

    def _transform(self, value: Value, dims: Dims) -> Dims:
        source = value.srcs[0]
        if value.op == "permute":
            return tuple(dims[dim] for dim in value.arg)
        if value.op == "expand":
            return (*([()] * (len(value.shape) - len(dims))), *dims)
        return self._reshape(source.shape, dims, value.shape)

    def _reshape(self, shape: tuple[int, ...], dims: Dims, wanted: tuple[int, ...]) -> Dims:
        # A dimension that was expanded has no axis, but its elements take part in the row-major order.
        flat = [axis for size, dim in zip(shape, dims, strict=True) for axis in (dim or self._stand_in(size))]
        made: Dims = tuple(() if size == 1 else (self.axes.new(size),) for size in wanted)
        if not self.axes.unify([axis for dim in made for axis in dim], flat):
            raise Misfit(f"the reshape {list(shape)} -> {list(wanted)} does not split into loops")
        return made

    def _stand_in(self, size: int) -> Dim:
        return () if size == 1 else (self.axes.new(size),)

    def _broadcast(self, value: Value, operands: list[Dims]) -> Dims:
        rank = len(value.shape)
        made: list[Dim] = [()] * rank
        for dims in operands:
            for position, dim in enumerate(dims, rank - len(dims)):
                if dim and made[position]:
                    if not self.axes.unify(made[position], dim):
                        raise Misfit("operands are laid out over different loops")
                elif dim:
                    made[position] = dim
        return tuple(dim or self._stand_in(size) for dim, size in zip(made, value.shape, strict=True))

    def _lookup(self, value: Value) -> Dims:
        """The dimensions of the numbers and of those of the table that are walked; the others, no loop walks."""
        table, pick = value.srcs[0], value.arg
        base = base_of(table)
        if base.op != "buffer" and (base.serial in self.body or any(base.serial in g.body for g in self.groups)):
            raise Misfit("it looks up what these loops compute")
        chain = [table]
        while chain[-1].op in VIEWS:
            chain.append(chain[-1].srcs[0])
        dims: Dims = tuple(() if size == 1 else (self.axes.new(size),) for size in base.shape)
        start = dims
        for step in reversed(chain[:-1]):
            dims = self._transform(step, dims)
            self.views[step.serial] = dims
        numbered = [d for d, at in enumerate(pick.dims) if at is None]
        picked = tuple(d if table is base else self._picked(start, dims[d]) for d in numbered)
        for k in picked:
            self.unwalked.update(dict.fromkeys(self.axes.resolve(start[k]), (value.serial, k)))
        walked: list[Dim] = [()] * len(value.shape)
        for d, at in enumerate(pick.dims):
            if at is not None and at >= 0:
                walked[at] = dims[d]
        made = self._broadcast(value, [*(self.read(src) for src in value.srcs[1:]), tuple(walked)])
        self.picks[value.serial] = picked
        self.loads[value.serial] = table, tuple(() if d in picked else dim for d, dim in enumerate(start))
        return made

    def _picked(self, start: Dims, dim: Dim) -> int:
        """Which dimension of memory a dimension of the table is."""
        if not dim:
            raise Misfit("numbers for a dimension of one element")
        wanted = self.axes.resolve(dim)
        for k, other in enumerate(start):
            if self.axes.resolve(other) == wanted:
                return k
        raise Misfit("numbers for a part of a dimension")

    def _scan(self, value: Value) -> Dims:
        dims = self.read(value.srcs[0])
        _, d = value.arg
        filled = tuple(dim or self._stand_in(value.shape[k]) if k == d else dim for k, dim in enumerate(dims))
        self.scans[value.serial] = filled[d]
        return filled

    def _reduce(self, value: Value) -> Dims:
        source = value.srcs[0]
        dims = self.read(source)
        _, over = value.arg
        filled = tuple(dim or (self._stand_in(source.shape[d]) if d in over else ()) for d, dim in enumerate(dims))
        self.over[value.serial] = tuple(axis for d in over for axis in filled[d])
        return tuple(() if d in over else dim for d, dim in enumerate(filled))
