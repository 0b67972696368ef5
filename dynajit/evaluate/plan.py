"""What is symbolic in the evaluation of a frame, and the other call by which its consequences are told.

An evaluation may find that the other call would not take its way: a comparison goes the other way, an operation fails.
Then the plan learns from it and the frame is evaluated anew (`Replan`). It learns, in this order: that two sizes are
equal, another value for the other call, that a number is not symbolic after all. So it comes to an end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dynajit import reasons
from dynajit.errors import Skip
from dynajit.guards.guard import Relation
from dynajit.source import Local, Source
from dynajit.symbol import NAMESPACE, Root, Symbol

PRIMES = (101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193, 197, 199)
SMALL = (7, 5, 3, 2)  # factors for a second try, where the program asks that a number be not too large
MAX_SEARCHED = 3  # numbers that one relation may be about for another value to be looked for
PATIENCE = 60  # new evaluations; then nothing more is symbolic


class Replan(Exception):
    """Evaluate the frame again: the plan has learnt something."""


class Plan:
    """numbers, sizes: the sources that changed between calls, and for tensors the dimensions.

    every_number, every_size: all that the arguments hold may change.
    """

    def __init__(
        self,
        numbers: Iterable[Source] = (),
        sizes: Mapping[Source, Iterable[int]] | None = None,
        *,
        every_number: bool = False,
        every_size: bool = False,
    ) -> None:
        self.numbers = frozenset(numbers)
        self.sizes = {source: frozenset(dims) for source, dims in (sizes or {}).items()}
        self.every_number, self.every_size = every_number, every_size
        self.static: set[Source] = set()
        self.equal: list[Relation] = []
        self.rounds = 0
        self._relations: list[Relation] = []
        self._names: dict[Source, str] = {}
        self._others: dict[Source, int] = {}
        self._tries: dict[Source, int] = {}

    # ---- what is symbolic ----
    def is_symbolic(self, source: Source) -> bool:
        """Whether a number read from here is symbolic."""
        wanted = source in self.numbers or (self.every_number and isinstance(source, Local))
        return wanted and source not in self.static and self.rounds < PATIENCE

    def symbolic_dims(self, source: Source, shape: tuple[int, ...], marks: Mapping[int, bool]) -> frozenset[int]:
        """The dimensions of a tensor whose sizes are symbolic. marks: those that the user has decided."""
        if self.rounds >= PATIENCE:
            return frozenset()
        every = self.every_size and isinstance(source.root, Local)
        wanted = frozenset(range(len(shape))) if every else self.sizes.get(source, frozenset())
        wanted |= {dim for dim, dynamic in marks.items() if dynamic}
        # What was learnt from a tensor of more dimensions is nothing that this one has.
        return frozenset(dim for dim in wanted if dim < len(shape) and marks.get(dim, True) and shape[dim] > 1)

    def root(self, source: Source, example: Any, *, size: bool = False) -> Symbol:
        """The symbol of a number that is read from `source`."""
        name = self._names.setdefault(source, f"n{len(self._names)}")
        root = Root(name, source, example, size)
        if type(example) is not int:
            return Symbol(name, (root,), example, example)
        if source not in self._others:
            self._others[source] = next(self._candidates(root))
        return Symbol(name, (root,), example, self._others[source])

    def _candidates(self, root: Root) -> Iterator[int]:
        """Values for the other call. Multiples first: what divides the example divides them, too. Smaller ones last."""
        n, prime = root.example, PRIMES[int(root.name[1:]) % len(PRIMES)]
        yield from (n * k for k in (prime, *SMALL)) if n > 1 else (n + prime, n + 7, n + 3)
        yield from (n + 1, n + 2)
        yield from (smaller for smaller in (n - 1, n - 2) if smaller > 1 or (n > 2 and not root.size))

    # ---- learning ----
    def require(self, relation: Relation) -> None:
        """A comparison that must go the way it went. Raises `Replan` when it would not in the other call."""
        self._relations.append(relation)
        roots = relation.roots
        assigned = {root.name: self._other(root) for root in roots}
        if relation.holds(assigned):
            return
        if len(roots) > MAX_SEARCHED or not self._search(roots):
            self.give_up(roots)
        self.again()

    def conflict(self, roots: tuple[Root, ...], fixed: frozenset[Source]) -> None:
        """An operation on sizes with these roots fails in the other call alone. fixed: roots guarded by value."""
        certain = [root for root in roots if root.source in fixed]
        if certain:
            self.give_up(certain)
        elif not self._equate(roots) and not self._advance(roots):
            self.give_up(roots)
        self.again()

    def give_up(self, roots: Iterable[Root]) -> None:
        self.static.update(root.source for root in roots)

    def again(self) -> None:
        self.rounds += 1
        if self.rounds > 2 * PATIENCE:  # nothing is symbolic any more, and the other call still goes another way
            raise Skip(reasons.DYNAMIC_SHAPE, "sizes that the data decides")
        raise Replan

    def _other(self, root: Root) -> Any:
        return self._others.get(root.source, root.example)

    def _search(self, roots: tuple[Root, ...]) -> bool:
        """Other values for these roots with which every relation so far holds."""
        mine = [relation for relation in self._relations if {*relation.roots} & {*roots}]
        whole = [root for root in roots if type(root.example) is int]
        rest = {root.name: self._other(root) for relation in mine for root in relation.roots}
        for values in itertools.product(*(tuple(self._candidates(root)) for root in whole)):
            assigned = {**rest, **{root.name: value for root, value in zip(whole, values, strict=True)}}
            if whole and all(relation.holds(assigned) for relation in mine):
                self._others.update({root.source: value for root, value in zip(whole, values, strict=True)})
                return True
        return False

    def _equate(self, roots: tuple[Root, ...]) -> bool:
        """Suppose that sizes which are equal now must be: that is what most operations ask for."""
        found = False
        for left, right in itertools.combinations([root for root in roots if type(root.example) is int], 2):
            if left.example == right.example and self._other(left) != self._other(right):
                relation = Relation(f"{left.name} == {right.name}", True, (left, right))
                self.equal.append(relation)
                self._relations.append(relation)
                if not self._search((left, right)):
                    self.give_up((left, right))
                found = True
        return found

    def _advance(self, roots: tuple[Root, ...]) -> bool:
        """The next value for each root: the operation may not take a large one."""
        moved = False
        for root in roots:
            if type(root.example) is not int:
                continue
            values = list(self._candidates(root))
            for position in range(self._tries.get(root.source, 0) + 1, len(values)):
                self._tries[root.source] = position
                assigned = {**{r.name: self._other(r) for rel in self._relations for r in rel.roots},
                            root.name: values[position]}  # fmt: skip
                mine = [relation for relation in self._relations if root in relation.roots]
                if all(relation.holds(assigned) for relation in mine):
                    self._others[root.source] = values[position]
                    moved = True
                    break
        return moved


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """A text of symbols, for given numbers."""
    return eval(text, NAMESPACE, dict(names))
