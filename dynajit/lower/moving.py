"""The elements of a value at other places: what slices, pads, joins and reorderings of a tensor are.

A place is said dimension by dimension: a dimension of the result walks it, or a number says where. Cheap elementwise
operations are done after the move, so that nothing but what is in memory is ever looked up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from math import prod

import torch

from dynajit.lower.build import Unsupported, broadcast, const, op
from dynajit.lower.ir import POINTWISE, UNARY, VIEWS, Pick, Relation, Value, base_of

INT = torch.int64
# Too dear to be done for elements that nobody wants, or more than once.
DEAR = (UNARY | {"pow", "atan2", "hypot", "fmod"}) - {
    *("neg", "abs", "floor", "ceil", "trunc", "rint", "not", "lnot", "isnan", "isinf", "signbit", "sign"),
    *("reciprocal", "rsqrt", "sqrt"),
}
# Values older than this may have been written to, where they are in memory: they are read from there.
SINCE: ContextVar[int] = ContextVar("SINCE", default=0)
MOST = 12  # operations that are done again at the new place


@dataclass(frozen=True)
class Walk:
    """Dimension `dim` of the result walks this one."""

    dim: int


@dataclass(frozen=True)
class Number:
    """A number says where, for each element of the result. check: what may be wrong with it (`Pick`). guard: where
    there is anything to read; None: everywhere.
    """

    value: Value
    check: str = ""
    guard: Value | None = None


Place = Walk | Number | None  # None: the one element there is


@dataclass(frozen=True)
class Linear:
    """A size, as a number and sums of sizes of tensors in memory: (tensor, dimension, how often)."""

    plus: int
    terms: tuple[tuple[Value, int, int], ...] = ()

    def __add__(self, other: Linear | int) -> Linear:
        return (
            Linear(self.plus + other, self.terms)
            if isinstance(other, int)
            else Linear(self.plus + other.plus, _collected((*self.terms, *other.terms)))
        )

    def __mul__(self, times: int) -> Linear:
        return Linear(self.plus * times, tuple((v, d, k * times) for v, d, k in self.terms))

    def value(self) -> Value:
        """The size as a value for a kernel."""
        made: Value | None = const(self.plus, INT) if self.plus or not self.terms else None
        for table, d, times in self.terms:
            term = Value("extent", (), (), INT, (table, d))
            term = term if times == 1 else op("mul", term, times)
            made = term if made is None else op("add", made, term)
        assert made is not None
        return made


def _collected(terms: Sequence[tuple[Value, int, int]]) -> tuple[tuple[Value, int, int], ...]:
    found: dict[tuple[Value, int], int] = {}
    for table, d, times in terms:
        found[table, d] = found.get((table, d), 0) + times
    return tuple((table, d, times) for (table, d), times in found.items() if times)


def equal(dims: Sequence[int], size: Linear, pin: tuple[int, int] | None = None) -> Relation:
    """The product of some of the result's dimensions is this size."""
    return Relation(tuple(dims), 1, size.plus, size.terms, True, pin)


def fixed(number: int, size: Linear) -> Relation:
    """The size is this number."""
    return Relation((), number, size.plus, size.terms, True)


def at_most(number: int, size: Linear) -> Relation:
    return Relation((), number, size.plus, size.terms, False)


def index(size: int) -> Value:
    return Value("index", (), (size,), INT)


def along(value: Value, dim: int, rank: int) -> Value:
    """A value of one dimension, standing along dimension `dim` of a result."""
    shape = tuple(value.shape[0] if d == dim else 1 for d in range(rank))
    return Value("reshape", (value,), shape, value.dtype) if rank != 1 else value


def here(dim: int, shape: Sequence[int]) -> Value:
    """Where along a dimension of the result an element is."""
    return const(0, INT) if shape[dim] == 1 else along(index(shape[dim]), dim, len(shape))


def in_memory(x: Value) -> Value:
    """A value that can be looked up: one that is in memory or that a kernel stores, or a view of such a one."""
    if base_of(x).op in ("const", "scalar", "full", "like", "count", "index", "extent"):
        raise Unsupported("elements of a number")
    return x


def moved(x: Value, places: Sequence[Place], shape: tuple[int, ...], relations: Sequence[Relation] = ()) -> Value:
    """What stands at these places of `x`; where it is not of the result's shape, it broadcasts to it."""
    found: dict[Relation, None] = dict.fromkeys(relations)
    _Move(shape, found).move(x, tuple(places))  # finds what else has to hold
    return _Move(shape, found).move(x, tuple(places))


def looked_up(
    table: Value, places: Sequence[Place], shape: tuple[int, ...], relations: Sequence[Relation] = ()
) -> Value:
    """The lookup itself."""
    dims = tuple(
        None if isinstance(place, Number) else -1 if place is None or table.shape[d] == 1 else place.dim
        for d, place in enumerate(places)
    )
    numbers = [place for place in places if isinstance(place, Number)]
    guards = list({id(n.guard): n.guard for n in numbers if n.guard is not None}.values())
    guard = guards[0] if guards else None
    for other in guards[1:]:
        guard = op("and", guard, other) if guard is not None else other
    operands = ([guard] if guard is not None else []) + [number.value for number in numbers]
    checks = tuple(number.check for number in numbers)
    pick = Pick(dims, checks, guard is not None, tuple(relations))
    walked = tuple(
        shape[d] if d in dims or any(_stands(v.shape, d, len(shape)) for v in operands) else 1
        for d in range(len(shape))
    )
    return Value("lookup", (table, *operands), walked, table.dtype, pick)


def _stands(shape: tuple[int, ...], d: int, rank: int) -> bool:
    at = d - (rank - len(shape))
    return at >= 0 and shape[at] != 1


def is_pushed(x: Value) -> bool:
    """Is a value computed at its new place, rather than looked up?"""
    if x.op in VIEWS or x.op in ("const", "scalar", "full", "like", "index"):
        return True
    if x.serial < SINCE.get():
        return False
    if x.op == "lookup":
        return not any(x.arg.checks)
    if x.op not in POINTWISE or (x.op in DEAR and x.srcs) or x.arg == "vec":
        return False
    return x.op != "div" or x.dtype.is_floating_point  # what is read beside a tensor is zero


def _weight(x: Value) -> int:
    """Operations between a value and what is in memory, at most."""
    if x.op in VIEWS:
        return _weight(x.srcs[0])
    return 1 + sum(map(_weight, x.srcs)) if x.op in POINTWISE and is_pushed(x) else 0


def extent(x: Value, d: int) -> Linear:
    """The size of a dimension, by sizes of what is in memory."""
    if x.op == "full":
        return Linear(x.shape[d])
    if x.op == "like":
        return extent(x.srcs[0], d)
    if x.op == "permute":
        return extent(x.srcs[0], x.arg[d])
    if x.op == "expand":
        k = d - (len(x.shape) - len(x.srcs[0].shape))
        if k < 0 or x.srcs[0].shape[k] != x.shape[d]:
            raise Unsupported("the size of an expanded dimension")
        return extent(x.srcs[0], k)
    if x.op == "reshape":
        for mine, theirs in blocks(x.srcs[0].shape, x.shape):
            if d in theirs:
                return extent(x.srcs[0], mine[0]) if len(mine) == len(theirs) == 1 else Linear(x.shape[d])
        return Linear(1)
    if x.op == "index" and x.arg is not None:
        return Linear(x.shape[0])
    if x.op == "index":
        raise Unsupported("the size of something that is counted")
    if x.op == "lookup" and is_pushed(x):
        for relation in x.arg.relations:
            if relation.exact and relation.dims == (d,) and relation.factor == 1 and relation.pin is None:
                return Linear(relation.plus, relation.terms)
        if d in x.arg.dims:
            return extent(x.srcs[0], x.arg.dims.index(d))
    if (x.op in POINTWISE or x.op == "lookup") and is_pushed(x):
        for src in x.srcs[1 if x.op == "lookup" else 0 :]:
            k = d - (len(x.shape) - len(src.shape))
            if k >= 0 and src.shape[k] == x.shape[d] and (size := _known(src, k)) is not None:
                return size
        raise Unsupported("a size that nothing says")
    return Linear(0, ((x, d, 1),))


def blocks(shape: tuple[int, ...], wanted: tuple[int, ...]) -> Iterator[tuple[list[int], list[int]]]:
    """Which dimensions of one shape became which of another, those of one element left out."""
    a = [d for d, size in enumerate(shape) if size != 1]
    b = [d for d, size in enumerate(wanted) if size != 1]
    if 0 in shape:
        raise Unsupported("nothing is there")
    while a:
        mine, theirs = [a.pop(0)], [b.pop(0)]
        while (left := prod(shape[d] for d in mine)) != (right := prod(wanted[d] for d in theirs)):
            (mine if left < right else theirs).append((a if left < right else b).pop(0))
        yield mine, theirs


class _Move:
    """One move: the result's shape, and what has to hold of sizes."""

    def __init__(self, shape: tuple[int, ...], relations: dict[Relation, None]) -> None:
        self.shape, self.relations = shape, relations

    def move(self, x: Value, places: tuple[Place, ...]) -> Value:
        if self._is_identity(x, places) or x.op in ("const", "scalar"):
            return x
        if x.op in ("full", "like"):
            return const(x.arg, x.dtype)
        if x.op == "permute":
            source: list[Place] = [None] * len(places)
            for d, k in enumerate(x.arg):
                source[k] = places[d]
            return self.move(x.srcs[0], tuple(source))
        if x.op == "expand":
            return self.move(x.srcs[0], self._of_operand(x, x.srcs[0], places))
        if x.op == "reshape":
            return self._reshape(x, places)
        if x.op == "index":
            self._pin(x, 0, places[0], None)
            return self._position(places[0])
        if not any(isinstance(place, Number) for place in places):
            return self._view(x, places)
        if x.op == "lookup" and is_pushed(x):
            return self._lookup(x, places)
        if x.op in POINTWISE and is_pushed(x) and _weight(x) <= MOST:
            return self._pointwise(x, places)
        return self._look_up(in_memory(x), places)

    def _is_identity(self, x: Value, places: tuple[Place, ...]) -> bool:
        lead = len(self.shape) - len(x.shape)
        return all(place == Walk(d + lead) or (place is None and x.shape[d] == 1) for d, place in enumerate(places))

    def _look_up(self, table: Value, places: tuple[Place, ...]) -> Value:
        return looked_up(table, places, self.shape, tuple(self.relations))

    def _view(self, x: Value, places: tuple[Place, ...]) -> Value:
        """All dimensions are walked: a permutation, with dimensions of one element between them."""
        walked = [(place.dim, d) for d, place in enumerate(places) if isinstance(place, Walk)]
        order = tuple(d for _, d in sorted(walked)) + tuple(d for d, place in enumerate(places) if place is None)
        made = (
            x
            if order == tuple(range(len(order)))
            else Value("permute", (x,), tuple(x.shape[d] for d in order), x.dtype, order)
        )
        sizes = {at: x.shape[d] for at, d in walked}
        shape = tuple(sizes.get(d, 1) for d in range(len(self.shape)))
        return made if shape == made.shape else Value("reshape", (made,), shape, x.dtype, "free")

    def _position(self, place: Place) -> Value:
        if isinstance(place, Walk):
            return here(place.dim, self.shape)
        return place.value if place is not None else const(0, INT)

    def _of_operand(self, x: Value, src: Value, places: tuple[Place, ...]) -> tuple[Place, ...]:
        """The places of an operand that broadcasts to `x`."""
        lead = len(x.shape) - len(src.shape)
        if x.op == "expand":
            for d, place in enumerate(places):
                if d < lead or src.shape[d - lead] != x.shape[d]:
                    self._pin(x, d, place, None)
        return tuple(None if size == 1 != x.shape[d + lead] else places[d + lead] for d, size in enumerate(src.shape))

    def _pin(self, view: Value, d: int, place: Place, size: Linear | None) -> None:
        """If the program writes down the size of this dimension of a view, it has to be that."""
        if isinstance(place, Walk):
            self.relations.setdefault(equal((place.dim,), Linear(view.shape[d]), (view.serial, d)))
        elif size is not None and size.terms:
            self.relations.setdefault(Relation((), view.shape[d], size.plus, size.terms, True, (view.serial, d)))

    def _pointwise(self, x: Value, places: tuple[Place, ...]) -> Value:
        srcs = []
        for src in x.srcs:
            srcs.append(self.move(src, self._of_operand(x, src, places)))
        for d, place in enumerate(places):
            if isinstance(place, Number):  # the operands' sizes are not compared by loops
                self._same_size(x, d)
        return Value(x.op, tuple(srcs), broadcast([src.shape for src in srcs]), x.dtype, x.arg)

    def _same_size(self, x: Value, d: int) -> None:
        sizes = []
        for src in x.srcs:
            k = d - (len(x.shape) - len(src.shape))
            if k >= 0 and src.shape[k] == x.shape[d] and (size := _known(src, k)) is not None:
                sizes.append(size)
        for other in sizes[1:]:
            if (difference := other + sizes[0] * -1) != Linear(0):
                self.relations.setdefault(Relation((), 0, difference.plus, difference.terms, True))

    def _lookup(self, x: Value, places: tuple[Place, ...]) -> Value:
        """The lookup of a lookup."""
        table, *operands = x.srcs
        pick: Pick = x.arg
        there = [self.move(v, self._of_operand(x, v, places)) for v in operands]
        guard = there.pop(0) if pick.guarded else None
        outer = [place for place in places if isinstance(place, Number)]
        composed: list[Place] = []
        for d, at in enumerate(pick.dims):
            if at is None:
                value = there.pop(0)
                guards = [n.guard for n in outer if n.guard is not None]
                for other in guards:
                    guard = other if guard is None else op("and", guard, other)
                composed.append(Number(value, "", guard))
            else:
                composed.append(None if at < 0 or table.shape[d] == 1 else places[at])
        for relation in pick.relations:
            walked = [places[d] for d in relation.dims]
            if all(isinstance(place, Walk) for place in walked):
                dims = tuple(place.dim for place in walked if isinstance(place, Walk))
                self.relations.setdefault(
                    Relation(dims, relation.factor, relation.plus, relation.terms, relation.exact, relation.pin)
                )
        return self.move(table, tuple(composed))

    def _reshape(self, x: Value, places: tuple[Place, ...]) -> Value:
        """Blocks of dimensions that are walked stay a view; in the others, numbers for the operand are calculated."""
        src = x.srcs[0]
        source: list[Place] = [None] * len(src.shape)
        kept: list[tuple[list[int], list[int]]] = []
        for mine, theirs in blocks(src.shape, x.shape):
            if len(mine) == len(theirs) == 1:
                source[mine[0]] = places[theirs[0]]
                self._pin(x, theirs[0], places[theirs[0]], _known(src, mine[0]))
            elif not any(isinstance(places[d], Number) for d in theirs):
                kept.append((mine, theirs))
            elif len(mine) == 1:
                source[mine[0]] = self._flat(x, theirs, places, extent(src, mine[0]))
            else:
                raise Unsupported("a part of several dimensions that became one")
        if not kept:
            return self.move(src, tuple(source))
        if is_pushed(base_of(src)) and base_of(src).op not in ("buffer",):
            return self._look_up(in_memory(x), places)
        shape: list[int] = []
        order: list[Place] = []
        firsts = {mine[0]: (mine, theirs) for mine, theirs in kept}
        inside = {d for mine, _ in kept for d in mine}
        for d, size in enumerate(src.shape):
            if d in firsts:
                shape += [x.shape[k] for k in firsts[d][1]]
                order += [places[k] for k in firsts[d][1]]
            elif d not in inside:
                shape.append(size)
                order.append(source[d])
        table = Value("reshape", (src,), tuple(shape), x.dtype)
        for _, theirs in kept:
            for k in theirs:
                self._pin(x, k, places[k], None)
        return self._look_up(in_memory(table), tuple(order))

    def _flat(self, x: Value, theirs: list[int], places: tuple[Place, ...], size: Linear) -> Number:
        """The number within a dimension that a view split up. All sizes are held to be those of the example."""
        made: Value | None = None
        guard: Value | None = None
        for d in theirs:
            place = places[d]
            if isinstance(place, Walk):
                self.relations.setdefault(equal((place.dim,), Linear(x.shape[d])))
            elif isinstance(place, Number) and place.guard is not None:
                guard = place.guard if guard is None else op("and", guard, place.guard)
            own = self._position(place)
            made = own if made is None else op("add", op("mul", made, x.shape[d]), own)
        assert made is not None
        self.relations.setdefault(Relation((), prod(x.shape[d] for d in theirs), size.plus, size.terms, True))
        return Number(made, "", guard)


def _known(x: Value, d: int) -> Linear | None:
    try:
        return extent(x, d)
    except Unsupported:
        return None
