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


class _Stack(NamedTuple):
    depth: int
    saved: tuple[int, ...]  # the slots in which PUSH_EXC_INFO saved the exception that was current before

    def after(self, instr: Instr, jump: bool) -> _Stack:
        saved = self.saved
        if instr.op == "PUSH_EXC_INFO":
            saved = (*saved, self.depth - 1)
        elif instr.op == "POP_EXCEPT":
            saved = saved[:-1]
        elif instr.op == "SWAP":
            moved = {self.depth - 1: self.depth - instr.arg, self.depth - instr.arg: self.depth - 1}
            saved = tuple(moved.get(slot, slot) for slot in saved)
        return _Stack(self.depth + stack_effect(instr, jump), saved)

    def unwound(self, region: Region) -> _Stack:
        saved = tuple(slot for slot in self.saved if slot < region.depth)
        return _Stack(region.depth + region.push_lasti + 1, saved)


def stack_depths(code: Code) -> dict[int, int]:
    """How many values are on the stack before each reachable index."""
    return {index: stack.depth for index, stack in _stacks(code).items()}


def exception_slots(code: Code) -> dict[int, tuple[int, ...]]:
    """Before each reachable index: the stack slots that hold exceptions saved by PUSH_EXC_INFO, outermost first."""
    return {index: stack.saved for index, stack in _stacks(code).items()}


def handler_depth(code: Code) -> dict[int, int]:
    """Before each reachable index: how many exceptions are being handled (pushed, and not yet popped)."""
    return {index: len(stack.saved) for index, stack in _stacks(code).items()}


def deepest(code: Code) -> int:
    """How many stack slots the body needs."""
    most = 0
    for index, stack in _stacks(code).items():
        item = code.body[index]
        if isinstance(item, Instr):
            names = item.op == "CALL" and bool(item.arg[1])  # CALL_KW of 3.13 has them on the stack
            most = max(most, stack.depth + max(stack_effect(item), names))
    return most


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
            if len(known.saved) >= len(stack.saved):
                continue
        out[index] = stack
        item, region = code.body[index], regions[index]
        if isinstance(item, Label):
            todo += ((place, stack) for place in after[index])
            continue
        # PUSH_EXC_INFO cannot raise, and what it will save is not there yet: longer `saved` tuples win over its own.
        todo += ((place, stack.after(item, jump=place != index + 1)) for place in after[index])
        if region is not None:
            todo.append((at[region.handler], stack.unwound(region)))
    return out


# ---- local variables ----

_READS = frozenset({"LOAD_FAST", "LOAD_FAST_AND_CLEAR", "DELETE_FAST"})
_CELL_USES = frozenset({"LOAD_CLOSURE", "LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLASSDEREF"})
_WRITES = frozenset({"STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR", "MAKE_CELL"})


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
    before = predecessors(code)
    live: list[frozenset[str]] = [frozenset()] * len(code.body)
    todo = list(range(len(code.body)))
    while todo:
        index = todo.pop()
        item, region = code.body[index], regions[index]
        now = frozenset[str]().union(*(live[place] for place in after[index]))
        if isinstance(item, Instr):
            now = _live_before(item, now, code)
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
        if instr.op in ("STORE_FAST", "LOAD_FAST"):  # a read that did not raise found a value
            return Bound(self.definitely | {instr.arg}, self.maybe | {instr.arg})
        if instr.op in ("DELETE_FAST", "LOAD_FAST_AND_CLEAR"):
            return Bound(self.definitely - {instr.arg}, self.maybe - {instr.arg})
        return self

    def either(self, other: Bound) -> Bound:
        return Bound(self.definitely & other.definitely, self.maybe | other.maybe)


def bound(code: Code, entry: Bound | None = None, start: int = 0) -> dict[int, Bound]:
    """Which locals have a value before each index that is reachable from `start`, where `entry` holds.

    Without `entry`, the parameters have one. Names of cells are left out: other functions may bind and unbind them.
    """
    at, regions, after = places(code), regions_at(code), successors(code)
    if entry is None:
        given = frozenset(arguments(code))
        entry = Bound(given, given)
    cells = frozenset(code.cellvars)
    out: dict[int, Bound] = {}
    todo = [(start, Bound(entry.definitely - cells, entry.maybe - cells))]
    while todo:
        index, facts = todo.pop()
        known = out.get(index)
        now = facts if known is None else known.either(facts)
        if now == known:
            continue
        out[index] = now
        item, region = code.body[index], regions[index]
        following = now.after(item) if isinstance(item, Instr) and item.arg not in cells else now
        todo += ((place, following) for place in after[index])
        if region is not None and isinstance(item, Instr):
            todo.append((at[region.handler], now))
    return out
