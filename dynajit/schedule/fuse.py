"""Which values share a kernel. One pass in program order; each decision leaves a sentence in the report.

Levels keep it acyclic and linear: a kernel reads nothing of its own level, and a call that runs as it stands raises the
level of all that follows it. So joining a group never needs a search for paths.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import prod

import torch
from torch.fx import Node

from dynajit.lower.ir import LEAVES, UNARY, VIEWS, Value, base_of, walk
from dynajit.lower.program import Compute, Extern, Program, leaves
from dynajit.schedule.axes import Axes, Dim
from dynajit.schedule.group import Group, Misfit, Placement
from dynajit.schedule.needs import Needs

INLINE_OPS = 8  # a chain this short is computed again by each reader rather than stored
INLINE_LOADS = 4
READS = 2  # tensors: a value made of more of them is stored by the first kernel that computes it, for the next
SMALL = 4096  # elements: mathematical functions of so few may be computed again, too
MAX_BODY, MAX_LOADS = 200, 24
FEW_ROWS, LONG_ROW = 8, 65536
SMALL_KERNEL = 32768  # elements: below this, kernels that share no input are joined to save a launch

MATH = UNARY - {"neg", "abs", "floor", "ceil", "trunc", "rint", "not", "lnot", "isnan", "isinf", "signbit", "sign"}
MATH |= {"pow", "atan2", "hypot", "fmod"}


class Unfusable(Exception):
    """This node has no loops of its own; it has to run as it stands."""

    def __init__(self, serial: int, why: str) -> None:
        super().__init__(why)
        self.serial = serial


@dataclass
class Schedule:
    """home: the group that stores a value, by serial. stored: values that exist in memory. report: the decisions."""

    axes: Axes
    groups: list[Group]
    home: dict[int, Group]
    stored: set[int]
    report: list[str]


@dataclass
class _Chain:
    """A value that nobody computes yet: cheap enough to be computed by each reader. large: loads as long as itself."""

    ops: int
    loads: frozenset[int]
    large: frozenset[int]
    once: bool  # it holds a mathematical function of many elements, so only one value may read it
    chooses: bool = False  # some of its elements are read from elsewhere, or not at all


@dataclass
class _Fuser:
    program: Program
    needs: Needs
    axes: Axes = field(default_factory=Axes)
    groups: list[Group] = field(default_factory=list)
    merged: dict[int, Group] = field(default_factory=dict)  # number of a group -> the one it went into
    homes: dict[int, Group] = field(default_factory=dict)
    chains: dict[int, _Chain] = field(default_factory=dict)
    inline: dict[int, Value] = field(default_factory=dict)
    stored: set[int] = field(default_factory=set)
    levels: dict[int, int] = field(default_factory=dict)  # of buffers, by serial
    fresh: list[list[Value]] = field(default_factory=list)  # by item: what it computes for the first time
    users: dict[int, list[tuple[int, Value]]] = field(default_factory=lambda: defaultdict(list))
    near: dict[tuple[int, int, int], list[Group]] = field(default_factory=lambda: defaultdict(list))
    report: list[str] = field(default_factory=list)
    epoch: int = 0
    floor: int = 0  # the level of the last call that ran as it stands

    def home(self, value: Value) -> Group | None:
        """The group that stores a value, followed through the groups it went into."""
        group = self.homes.get(value.serial)
        while group is not None and group.number in self.merged:
            group = self.merged[group.number]
        return group

    # -- program order ---------------------------------------------------------------------------------------------

    def run(self) -> Schedule:
        named: dict[Node, list[Value]] = defaultdict(list)
        for root, node in self.needs.roots.values():
            named[node].append(root)
        live = {value.serial for value in walk([root for root, _ in self.needs.roots.values()])}
        self._find_uses(live, named)
        for position, item in enumerate(self.program.items):
            if isinstance(item, Extern):
                self._extern(item, position)
            elif item.node in self.needs.run:
                self._settle(item.node.all_input_nodes)
            if isinstance(item, Compute):
                for value in self.fresh[position]:
                    self._take(value)
        self._settle_values([root for root, _ in self.needs.roots.values()])
        for group in self.groups:
            group.domain, group.reduced = self.axes.resolve(group.domain), self.axes.resolve(group.reduced)
        self.stored.update(self.needs.roots)
        homes: dict[int, Group] = {}
        for serial, group in self.homes.items():
            while group.number in self.merged:
                group = self.merged[group.number]
            homes[serial] = group
        read = {group.number for serial, group in homes.items() if serial in self.stored}
        groups = [group for group in self.groups if group.number in read]  # the others' values are computed elsewhere
        return Schedule(self.axes, groups, homes, self.stored, self.report)

    def _find_uses(self, live: set[int], named: dict[Node, list[Value]]) -> None:
        """What each item computes for the first time, and where each value is read directly."""
        seen: set[int] = set()
        for position, item in enumerate(self.program.items):
            stack = [] if isinstance(item, Extern) else [*values_of(item.result), *named[item.node]]
            new: dict[int, Value] = {}
            while stack:
                value = stack.pop()
                if value.serial not in seen and value.serial in live:
                    seen.add(value.serial)
                    new[value.serial] = value
                    stack.extend(value.srcs)
            self.fresh.append([new[s] for s in sorted(new) if new[s].op not in VIEWS and new[s].op not in LEAVES])
            for value in new.values():
                for src in value.srcs:
                    self.users[base_of(src).serial].append((position, value))

    def _read_after(self, value: Value, position: int) -> bool:
        """Is a value that nobody stores yet read by an item after this one?"""
        if value.serial in self.needs.roots:
            return True
        return any(
            at > position or (user.serial in self.inline and self._read_after(user, position))
            for at, user in self.users[value.serial]
        )

    def _extern(self, item: Extern, position: int) -> None:
        self._settle(item.node.all_input_nodes, raise_floor=True)
        if item.barrier:
            self._settle_values([v for v in self.inline.values() if self._read_after(v, position)])
            for table in (self.inline, self.chains, self.levels):
                table.clear()
            self.epoch, self.floor = self.epoch + 1, 0
            self.report.append(f"{item.node.name}: runs as it stands, and nothing moves across it: {item.why}")
        else:
            self.report.append(f"{item.node.name}: runs as it stands: {item.why}")
        for value in values_of(item.result):
            self.levels[value.serial] = self.floor

    def _settle(self, nodes: list[Node], raise_floor: bool = False) -> None:
        """These nodes' tensors are wanted in memory now. raise_floor: all that follows comes after their kernels."""
        pending, seen = list(nodes), set(nodes)
        while pending:
            node = pending.pop()
            if node in self.needs.run:
                pending.extend(source for source in node.all_input_nodes if source not in seen)
                seen.update(node.all_input_nodes)
            values = values_of(self.needs.stored.get(node))
            self._settle_values(values)
            if raise_floor:
                for group in map(self.home, values):
                    if group is not None and group.epoch == self.epoch:
                        self.floor = max(self.floor, group.level + 1)

    def _settle_values(self, values: list[Value]) -> None:
        for value in values:
            if value.serial not in self.homes:
                self._join(value)

    # -- one value -------------------------------------------------------------------------------------------------

    def _take(self, value: Value) -> None:
        chain = self._chain(value)
        if chain is None:
            self._join(value)
        else:
            self.chains[value.serial], self.inline[value.serial] = chain, value

    def _chain(self, value: Value) -> _Chain | None:
        """The value as something to be computed by its readers, if it is cheap enough."""
        once = value.op in MATH and prod(value.shape) > SMALL
        if value.op in ("reduce", "scan"):
            return None
        table = self._table(value)
        ops, loads, large = 1, set[int](), set[int]()
        chooses = _chooses(value)
        for src in value.srcs:
            base = base_of(src)
            if base.serial == table:
                loads.add(table)
            elif base.serial in self.chains:
                below = self.chains[base.serial]
                ops, loads, large = ops + below.ops, loads | below.loads, large | below.large
                once, chooses = once or below.once, chooses or below.chooses
            elif base.op == "buffer":
                loads.add(base.serial)
                if prod(base.shape) >= prod(value.shape):
                    large.add(base.serial)
            elif base.op not in LEAVES:
                return None
        if not loads and value.dtype in (torch.int64, torch.bool) and value.op not in MATH:
            return _Chain(0, frozenset(), frozenset(), False)  # where something is: no kernel ever stores that
        if ops > INLINE_OPS or len(loads) > INLINE_LOADS:
            return None
        if once and (value.serial in self.needs.roots or len(self._readers(value)) != 1):
            return None
        if chooses and any(user.op == "reduce" for _, user in self.users[value.serial]):
            return None
        return _Chain(ops, frozenset(loads), frozenset(large), once, chooses)

    def _table(self, value: Value) -> int:
        """What a lookup looks up, if a kernel computes it: it is stored, and looked up after that kernel. Else -1."""
        if value.op != "lookup" or (table := base_of(value.srcs[0])).op == "buffer":
            return -1
        self._settle_values([table])
        return table.serial

    def _readers(self, value: Value) -> set[int]:
        return {user.serial for _, user in self.users[value.serial] if user.op not in VIEWS}

    def _join(self, value: Value) -> None:
        level, below = self._sources(value)
        same = [group for group in below if group.level == level]
        why = "reads only what is in memory"
        if same:
            why = self._try(value, same) or ""
            if not why:
                return
            level += 1
        extent = self._extent(value)
        candidates = self.near[self.epoch, level, extent][-3:]
        if not same and level < self.floor:  # its readers will most likely come after the last call, too
            level = self.floor
            candidates += self.near[self.epoch, level, extent][-3:]
        if extent <= SMALL_KERNEL:  # it may as well be computed later than it could be
            candidates = self.near[self.epoch, level + 1, extent][-3:] + candidates
        for group in reversed(candidates):
            if group.number not in self.merged and self._worth_joining(value, group):
                reason = self._try(value, [group])
                if reason is None:
                    return
                why = reason
        self._open(value, level, why)

    def _sources(self, value: Value) -> tuple[int, list[Group]]:
        """The lowest level this value may have, and the groups it reads from."""
        level, groups = 0, {}
        stack = list(value.srcs)
        tables = {base_of(value.srcs[0]).serial} if value.op == "lookup" else set[int]()
        while stack:
            base = base_of(stack.pop())
            group = self.home(base)
            if base.serial in self.inline and not (base.serial in tables and group is not None):
                if base.op == "lookup":
                    tables.add(base_of(base.srcs[0]).serial)
                stack.extend(base.srcs)
            elif group is not None and group.epoch == self.epoch:
                groups[group.number] = group
                level = max(level, group.level)
            elif base.op == "buffer":
                level = max(level, self.levels.get(base.serial, 0))
            elif base.op in LEAVES:
                stack.extend(base.srcs)
        return level, list(groups.values())

    def _extent(self, value: Value) -> int:
        return prod(value.srcs[0].shape if value.op == "reduce" else value.shape)

    def _worth_joining(self, value: Value, group: Group) -> bool:
        """Kernels side by side pay if they read the same memory, or are too small for anything but their launch."""
        if prod(self.axes.size[axis] for axis in self.axes.resolve(group.domain)) <= SMALL_KERNEL:
            return True
        mine = {base_of(src).serial for src in walk([value]) if base_of(src).op == "buffer"}
        return any(base_of(load).serial in mine for load, _ in group.loads.values())

    def _try(self, value: Value, groups: list[Group]) -> str | None:
        """Join these groups with the value as one; None if that worked, else why not."""
        mark = self.axes.mark()
        placement = Placement(self.axes, groups, self.inline)
        try:
            domain, reduced = self._fit(value, placement)
        except Misfit as misfit:
            self.axes.rollback(mark)
            return str(misfit)
        target = groups[0]
        for other in groups[1:]:
            target.absorb(other)
            self.merged[other.number] = target
            self.groups.remove(other)
        self._accept(target, placement, value, domain, reduced)
        self.report.append(f"{self._name(value)}: joins kernel {target.number}: the same loops")
        return None

    def _open(self, value: Value, level: int, why: str) -> None:
        group = Group(len(self.merged) + len(self.groups), self.epoch, level)
        mark = self.axes.mark()
        placement = Placement(self.axes, [group], self.inline)
        try:
            domain, reduced = self._fit(value, placement)
        except Misfit as misfit:
            self.axes.rollback(mark)
            raise Unfusable(value.serial, str(misfit)) from misfit
        self.groups.append(group)
        self._accept(group, placement, value, domain, reduced)
        self.near[self.epoch, level, self._extent(value)].append(group)
        self.report.append(f"{self._name(value)}: opens kernel {group.number}: {why}")

    def _accept(self, group: Group, placement: Placement, value: Value, domain: Dim, reduced: Dim) -> None:
        group.absorb(placement)
        group.domain, group.reduced = domain, reduced
        full, rows = set(domain), set(domain) - set(reduced)
        for serial in placement.body:
            axes = {axis for dim in group.dims[serial] for axis in self.axes.resolve(dim)}
            if serial == value.serial or (serial not in self.homes and axes in (full, rows)):
                self.homes[serial] = group
                chain = self.chains.get(serial)
                if chain is not None and len(chain.large) > (1 if serial in self.needs.roots else READS):
                    del self.chains[serial], self.inline[serial]  # stored once, where it was computed anyway
        for load, _ in placement.loads.values():
            base = base_of(load)
            if base.op != "buffer":
                self.stored.add(base.serial)

    def _fit(self, value: Value, placement: Placement) -> tuple[Dim, Dim]:
        """The domain and the reduced axes of the groups with the value in it."""
        dims = placement.place(value)
        over = placement.over.get(value.serial, ())
        source = (placement.known(value.srcs[0]) or ()) if value.op == "reduce" else dims
        filled = [axis for dim in source for axis in dim]
        mine = [*filled, *(axis for axis in over if axis not in filled)]
        groups = [group for group in placement.groups if group.domain]
        domain, reduced = self._together(groups)
        resolved = self.axes.resolve(mine)
        if not groups:
            domain, reduced = resolved, self.axes.resolve(over)
        elif set(resolved) - set(domain):
            self._tie(resolved, domain)
            domain, reduced = self._together(groups)
        resolved, over = self.axes.resolve(mine), self.axes.resolve(over)
        for axes in (resolved, *(self.axes.resolve(group.domain) for group in groups)):
            if len(axes) != len(set(axes)):
                raise Misfit("one loop would walk two dimensions of one value")
        self._check(value, placement, set(resolved), set(over), set(domain), set(reduced))
        return domain, reduced or over

    def _together(self, groups: list[Group]) -> tuple[Dim, Dim]:
        domain: Dim = ()
        reduced: Dim = ()
        for group in groups:
            mine, over = self.axes.resolve(group.domain), self.axes.resolve(group.reduced)
            domain = mine if len(mine) > len(domain) else domain
            if over and reduced and set(over) != set(reduced):
                raise Misfit("reductions run over different dimensions")
            reduced = over or reduced
        for group in groups:
            mine = self.axes.resolve(group.domain)
            if set(mine) != set(domain) and (group.reduced or set(mine) != set(domain) - set(reduced)):
                raise Misfit("the loops are not the same")
        return domain, reduced

    def _tie(self, mine: Dim, domain: Dim) -> None:
        """Walk dimensions that only look alike by the same loops; their sizes are compared at each call."""
        extra = [axis for axis in mine if axis not in domain]
        missing = [axis for axis in domain if axis not in mine]
        sizes = [prod(self.axes.size[axis] for axis in axes) for axes in (extra, missing)]
        if sizes[0] != sizes[1] or not self.axes.unify(missing, extra):
            raise Misfit("the shapes differ")

    def _check(
        self, value: Value, placement: Placement, mine: set[int], over: set[int], domain: set[int], reduced: set[int]
    ) -> None:
        rows = domain - reduced
        made = [value for body in (*(g.body for g in placement.groups), placement.body) for value in body.values()]
        if (reduced or over) and any(map(_chooses, made)):
            raise Misfit("a reduction does not wait for each element to be chosen")
        ways = (*(group.scans for group in placement.groups), placement.scans)
        scanned = {frozenset(self.axes.resolve(axes)) for scans in ways for axes in scans.values()}
        if len(scanned) > 1 or (scanned and (reduced or over)):
            raise Misfit("one runs along another dimension than the other")
        if over and reduced and over != reduced:
            raise Misfit("reductions run over different dimensions")
        if mine != domain and (not reduced or over or mine != rows):
            raise Misfit("the shapes differ")
        for _, dims in placement.loads.values():
            if any(axis not in domain for dim in dims for axis in self.axes.resolve(dim)):
                raise Misfit("an operand that only lends its shape is walked by other loops")
        bodies = sum(len(group.body) for group in placement.groups) + len(placement.body)
        loads = sum(len(group.loads) for group in placement.groups) + len(placement.loads)
        if bodies > MAX_BODY or loads > MAX_LOADS:
            raise Misfit("the kernel would grow too large")
        if reduced and mine == domain and self._few_rows(rows, reduced):
            for src in value.srcs:
                axes = {axis for dim in placement.known(src) or () for axis in self.axes.resolve(dim)}
                if axes <= rows and self.home(base_of(src)) in placement.groups:
                    raise Misfit("too few rows to share among threads while one waits for its reduction")

    def _few_rows(self, rows: set[int], reduced: set[int]) -> bool:
        count, length = (prod(self.axes.size[axis] for axis in axes) for axes in (rows, reduced))
        return count < FEW_ROWS and length >= LONG_ROW

    def _name(self, value: Value) -> str:
        origin = self.program.origins.get(value.serial)
        return f"{origin.name} ({value.op})" if origin else value.op


def _chooses(value: Value) -> bool:
    """Is something read in some places only?"""
    return value.op == "lookup" and value.arg.guarded


def values_of(tree: object) -> list[Value]:
    return [leaf for leaf in leaves(tree) if isinstance(leaf, Value)]


def fuse(program: Program, needs: Needs) -> Schedule:
    """Assign every value that has to be computed to a group."""
    return _Fuser(program, needs).run()
