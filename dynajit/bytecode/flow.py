"""What can happen in a body: stack depths, successors, reachability, live and bound locals.

All questions are asked of, and answered by, indices into `Code.body`; a Label counts as an instruction
that does nothing.
"""

from __future__ import annotations

import heapq
import inspect
import itertools
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from dynajit.bytecode.code import Code, Instr, Label, Region
from dynajit.bytecode.instructions import JUMPS, NO_FALL_THROUGH, stack_effect

T = TypeVar("T")

# ---- where control goes ----


def places(code: Code) -> dict[Label, int]:
    """The index of each label."""
    return {item: index for index, item in enumerate(code.body) if isinstance(item, Label)}


def successors(code: Code) -> list[tuple[int, ...]]:
    """Where control may go after each index when nothing is raised: the next one first, then the jump target."""
    at, out = places(code), list[tuple[int, ...]]()
    for index, item in enumerate(code.body):
        following: list[int] = []
        if not (isinstance(item, Instr) and item.op in NO_FALL_THROUGH) and index + 1 < len(code.body):
            following.append(index + 1)
        if isinstance(item, Instr) and item.op in JUMPS:
            assert item.target is not None, item
            following.append(at[item.target])
        out.append(tuple(following))
    return out


def reachable(code: Code, roots: Iterable[int] = (0,)) -> set[int]:
    """The indices that control can reach from `roots`, through handlers too."""
    at, regions, after = places(code), regions_at(code), successors(code)
    seen: set[int] = set()
    todo = [root for root in roots if root < len(code.body)]
    while todo:
        index = todo.pop()
        if index in seen:
            continue
        seen.add(index)
        todo += after[index]
        region = regions[index]
        if region is not None and isinstance(code.body[index], Instr):
            todo.append(at[region.handler])
    return seen


# ---- which handler holds where ----


def regions_at(code: Code) -> list[Region | None]:
    """The innermost region that covers each index: the one whose handler an exception there goes to."""
    at = places(code)
    out: list[Region | None] = [None] * len(code.body)
    for start, end, region in flatten((at[region.start], at[region.end], region) for region in code.regions):
        out[start:end] = [region] * (end - start)
    return out


def flatten(spans: Iterable[tuple[int, int, T]]) -> list[tuple[int, int, T]]:
    """Disjoint spans in order, each with what the innermost of the given (start, end, it) says there.

    Innermost is the one that starts last; of those, the one that ends first; of those, the last given.
    """
    given = [(start, end, it) for start, end, it in spans if start < end]
    starting: dict[int, list[int]] = {}
    for number, (start, _, _) in enumerate(given):
        starting.setdefault(start, []).append(number)
    edges = sorted({edge for start, end, _ in given for edge in (start, end)})
    active: list[tuple[int, int, int]] = []  # a heap of (-start, end, -number): the innermost first
    out: list[tuple[int, int, T]] = []
    for here, following in itertools.pairwise(edges):
        for number in starting.get(here, ()):
            heapq.heappush(active, (-here, given[number][1], -number))
        while active and active[0][1] <= here:
            heapq.heappop(active)
        if not active:
            continue
        innermost = given[-active[0][2]][2]
        extends = bool(out) and out[-1][1] == here and out[-1][2] is innermost
        out.append((out.pop()[0] if extends else here, following, innermost))
    return out


# ---- the stack ----


class _Kept(NamedTuple):
    """A stack slot that holds what an instruction put away: an exception (PUSH_EXC_INFO) or a local."""

    slot: int
    local: int | None  # the index of the LOAD_FAST_AND_CLEAR that put it there


class _Stack(NamedTuple):
    depth: int
    kept: tuple[_Kept, ...]

    def after(self, index: int, instr: Instr, jump: bool) -> _Stack:
        kept = self.kept
        if instr.op == "PUSH_EXC_INFO":
            kept = (*kept, _Kept(self.depth - 1, None))
        elif instr.op == "LOAD_FAST_AND_CLEAR":
            kept = (*kept, _Kept(self.depth, index))
        elif instr.op == "POP_EXCEPT":  # often of a copy, so the slot itself may stay
            last = max((number for number, it in enumerate(kept) if it.local is None), default=-1)
            kept = tuple(it for number, it in enumerate(kept) if number != last)
        elif instr.op == "SWAP":
            top, other = self.depth - 1, self.depth - instr.arg
            moved = {top: other, other: top}
            kept = tuple(it._replace(slot=moved.get(it.slot, it.slot)) for it in kept)
        depth = self.depth + stack_effect(instr, jump)
        return _Stack(depth, kept).cut(depth)

    def unwound(self, region: Region) -> _Stack:
        return self._replace(depth=region.depth + region.push_lasti + 1).cut(region.depth)

    def cut(self, depth: int) -> _Stack:
        """Without what was kept at or above `depth`."""
        return self._replace(kept=tuple(it for it in self.kept if it.slot < depth))


def stack_depths(code: Code) -> dict[int, int]:
    """How many values are on the stack before each reachable index."""
    return {index: stack.depth for index, stack in _stacks(code).items()}


def exception_slots(code: Code) -> dict[int, tuple[int, ...]]:
    """Before each reachable index: the stack slots that hold exceptions saved by PUSH_EXC_INFO, outermost first."""
    return {index: tuple(it.slot for it in stack.kept if it.local is None) for index, stack in _stacks(code).items()}


def handler_depth(code: Code) -> dict[int, int]:
    """Before each reachable index: how many exceptions are being handled (pushed, and not yet popped)."""
    return {index: len(slots) for index, slots in exception_slots(code).items()}


def deepest(code: Code) -> int:
    """How many stack slots the body needs."""
    most = 0
    for index, stack in _stacks(code).items():
        item = code.body[index]
        if isinstance(item, Instr):
            names = item.op == "CALL" and bool(item.arg[1])  # CALL_KW of 3.13 has them on the stack
            most = max(most, stack.depth + max(stack_effect(item), names))
    return most


def restores(code: Code) -> dict[int, int]:
    """The STORE_FASTs that put back what a LOAD_FAST_AND_CLEAR took, a value or none, and the index of the latter.

    Comprehensions that 3.12+ inlines do so around themselves (compile.c, push_inlined_comprehension_state).
    """
    out: dict[int, int] = {}
    for index, stack in _stacks(code).items():
        item = code.body[index]
        if isinstance(item, Instr) and item.op == "STORE_FAST":
            for it in stack.kept:
                if it.local is not None and it.slot == stack.depth - 1:
                    out[index] = it.local
    return out


def _stacks(code: Code) -> dict[int, _Stack]:
    at, regions, after = places(code), regions_at(code), successors(code)
    out: dict[int, _Stack] = {}
    todo = [(0, _Stack(0, ()))]
    while todo:
        index, stack = todo.pop()
        known = out.get(index)
        if known is not None:
            if known.depth != stack.depth:
                raise ValueError(f"{code.qualname}: {known.depth} or {stack.depth} values on the stack at {index}")
            # PUSH_EXC_INFO stands in the region of its own cleanup but cannot raise: there, more is kept than it says.
            if len(known.kept) >= len(stack.kept):
                continue
        out[index] = stack
        item, region = code.body[index], regions[index]
        if isinstance(item, Label):
            todo += ((place, stack) for place in after[index])
            continue
        todo += ((place, stack.after(index, item, jump=place != index + 1)) for place in after[index])
        if region is not None:
            todo.append((at[region.handler], stack.unwound(region)))
    return out


# ---- local variables ----

_READS = frozenset({"LOAD_FAST", "DELETE_FAST"})
_CELL_USES = frozenset({"LOAD_CLOSURE", "LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLASSDEREF"})
_WRITES = frozenset({"STORE_FAST", "DELETE_FAST", "MAKE_CELL"})


def arguments(code: Code) -> list[str]:
    """The names of the parameters, `*args` and `**kwargs` last, as they stand in `varnames`."""
    collected = bool(code.flags & inspect.CO_VARARGS) + bool(code.flags & inspect.CO_VARKEYWORDS)
    return code.varnames[: code.argcount + code.kwonlyargcount + collected]


def liveness(code: Code) -> list[frozenset[str]]:
    """The locals whose value may be read after each index, that index included, by handlers too.

    A cell variable is live while its cell may still be used. Free variables are left out, and so is what `locals()`
    or a debugger may read.
    """
    at, regions, after = places(code), regions_at(code), successors(code)
    before, restored = predecessors(code), restores(code)
    live: list[frozenset[str]] = [frozenset()] * len(code.body)
    todo = list(range(len(code.body)))
    while todo:
        index = todo.pop()
        item, region = code.body[index], regions[index]
        now = frozenset[str]().union(*(live[place] for place in after[index]))
        if isinstance(item, Instr):
            # A local that is put away and back is live in between if it is live afterwards.
            now = now if index in restored else _live_before(item, now, code)
            if region is not None:
                now |= live[at[region.handler]]
        if now != live[index]:
            live[index] = now
            todo += before[index]
    return live


def predecessors(code: Code) -> list[list[int]]:
    """From where control may come to each index, handlers included."""
    at, regions = places(code), regions_at(code)
    out: list[list[int]] = [[] for _ in code.body]
    for index, following in enumerate(successors(code)):
        for place in following:
            out[place].append(index)
        region = regions[index]
        if region is not None and isinstance(code.body[index], Instr):
            out[at[region.handler]].append(index)
    return out


def _live_before(instr: Instr, after: frozenset[str], code: Code) -> frozenset[str]:
    if instr.op in _WRITES:
        after -= {instr.arg}
    if instr.op in _READS or (instr.op in _CELL_USES and instr.arg in code.cellvars):
        after |= {instr.arg}
    if instr.op == "MAKE_CELL" and instr.arg in code.varnames:  # moves what the local held into the cell
        after |= {instr.arg}
    return after


class Bound(NamedTuple):
    """definitely: names that have a value on every path; maybe: names that have one on some path."""

    definitely: frozenset[str]
    maybe: frozenset[str]

    def after(self, instr: Instr) -> Bound:
        name = frozenset((instr.arg,)) if instr.op in _BINDS or instr.op in _UNBINDS else frozenset[str]()
        if instr.op in _BINDS:
            return Bound(self.definitely | name, self.maybe | name)
        return Bound(self.definitely - name, self.maybe - name)

    def with_name_as_in(self, other: Bound, name: str) -> Bound:
        one = frozenset((name,))
        return Bound(self.definitely - one | other.definitely & one, self.maybe - one | other.maybe & one)

    def either(self, other: Bound) -> Bound:
        return Bound(self.definitely & other.definitely, self.maybe | other.maybe)

    def without(self, names: frozenset[str]) -> Bound:
        return Bound(self.definitely - names, self.maybe - names)


_BINDS = frozenset({"STORE_FAST", "LOAD_FAST"})  # a read that did not raise found a value
_UNBINDS = frozenset({"DELETE_FAST", "LOAD_FAST_AND_CLEAR"})


def bound(code: Code, entry: Bound | None = None, start: int = 0) -> dict[int, Bound]:
    """Which locals have a value before each index that is reachable from `start`, where `entry` holds.

    Without `entry`, the parameters have one. Names of cells are left out: other functions may bind and unbind them.
    """
    at, regions, after, restored = places(code), regions_at(code), successors(code), restores(code)
    given, cells = frozenset(arguments(code)), frozenset(code.cellvars)
    out = {start: (entry or Bound(given, given)).without(cells)}
    todo = [start]

    def reach(place: int, facts: Bound) -> None:
        now = out[place].either(facts) if place in out else facts
        if out.get(place) != now:
            out[place] = now
            todo.append(place)

    while todo:
        index = todo.pop()
        item, region, facts = code.body[index], regions[index], out[index]
        following = facts
        if isinstance(item, Instr):
            taken = out.get(restored.get(index, -1))
            following = (facts.with_name_as_in(taken, item.arg) if taken else facts.after(item)).without(cells)
            if region is not None:
                reach(at[region.handler], facts)
            if item.op == "LOAD_FAST_AND_CLEAR":
                todo += (place for place, source in restored.items() if source == index and place in out)
        for place in after[index]:
            reach(place, following)
    return out
