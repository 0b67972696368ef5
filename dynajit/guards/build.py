"""Guards -> one `frame.Check`: a node for each source, parents first, and the checks of each node."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dynajit import frame
from dynajit.guards.guard import Guard
from dynajit.source import Builtins, Globals, Item, Known, Source


@dataclass
class _Node:
    source: Source
    checks: list[tuple[Any, ...]] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)  # of `checks`, in order
    names: dict[int, dict[str, Any]] = field(default_factory=dict)  # by kind of check
    named: list[Guard] = field(default_factory=list)


@dataclass(frozen=True)
class Built:
    """check: to be kept with the entry. guards: for each node the guards behind each of its checks, for `explain`."""

    check: frame.Check
    guards: tuple[tuple[Guard, ...], ...]


class _Builder:
    def __init__(self) -> None:
        self.order: dict[Source, int] = {}
        self.nodes: list[_Node] = []

    def node(self, source: Source) -> _Node:
        found = self.order.get(source)
        if found is None:
            if source.parent is not None:
                self.node(source.parent)
            found = self.order[source] = len(self.nodes)
            self.nodes.append(_Node(source))
        return self.nodes[found]

    def check(self, guard: Guard, *check: Any) -> None:
        node = self.node(guard.source)
        node.checks.append(check)
        node.guards.append(guard)

    def name(self, owner: Source, kind: int, name: str, expected: Any, guard: Guard) -> None:
        """One name of a dict, class or instance; all names of one are a single check with a single stamp."""
        node = self.node(owner)
        node.names.setdefault(kind, {})[name] = expected
        node.named.append(guard)

    def finished(self, inputs: Sequence[Source]) -> Built:
        for source in inputs:
            self.node(source)
        rows = []
        for node in self.nodes:
            parent = node.source.parent
            accessor, arg = node.source.accessor
            checks = [*node.checks, *node.names.items()]
            rows.append((-1 if parent is None else self.order[parent], accessor, arg, tuple(checks)))
        check = frame.Check(rows, [self.order[source] for source in inputs])
        return Built(check, tuple((*node.guards, *node.named) for node in self.nodes))


def _tensor(builder: _Builder, guard: Guard) -> None:
    builder.check(guard, frame.TENSOR, guard.expected)


def _is(builder: _Builder, guard: Guard) -> None:
    source = guard.source
    if isinstance(source, Item) and isinstance(source.key, str) and _is_namespace(source.base):
        builder.name(source.base, frame.DICT_VALUES, source.key, guard.expected, guard)
    else:
        builder.check(guard, frame.IS, guard.expected)


def _is_namespace(source: Source) -> bool:
    if isinstance(source, Known):
        return isinstance(source.value, dict)
    return isinstance(source, (Globals, Builtins))


def _item_absent(builder: _Builder, guard: Guard) -> None:
    builder.name(guard.source, frame.DICT_VALUES, guard.name, frame.MISSING, guard)


def _instance_absent(builder: _Builder, guard: Guard) -> None:
    builder.name(guard.source, frame.INSTANCE_VALUES, guard.name, frame.MISSING, guard)


def _empty(builder: _Builder, guard: Guard) -> None:
    builder.name(guard.source, frame.EMPTY, guard.name, True, guard)


def _class_attr(builder: _Builder, guard: Guard) -> None:
    builder.name(guard.source, frame.TYPE_ATTRS, guard.name, guard.expected, guard)


def _set_equals(builder: _Builder, guard: Guard) -> None:
    builder.check(guard, frame.PREDICATE, functools.partial(operator.eq, guard.expected))


def _relation(builder: _Builder, guard: Guard) -> None:
    """A relation is checked where the last of its numbers is fetched."""
    roots = [root.source for root in guard.expected.roots]
    for source in roots:
        builder.node(source)
    last = max(roots, key=lambda source: builder.order[source])
    node = builder.node(last)
    node.checks.append((frame.RELATION, guard.expected.predicate(), tuple(builder.order[source] for source in roots)))
    node.guards.append(guard)


def _pair(kind: int) -> Callable[[_Builder, Guard], None]:
    def build(builder: _Builder, guard: Guard) -> None:
        builder.node(guard.expected)
        builder.node(guard.source)
        first, second = sorted((builder.order[guard.source], builder.order[guard.expected]))
        node = builder.nodes[second]
        node.checks.append((kind, first))
        node.guards.append(guard)

    return build


def _plain(kind: int, *, argument: bool = True) -> Callable[[_Builder, Guard], None]:
    def build(builder: _Builder, guard: Guard) -> None:
        builder.check(guard, kind, *([guard.expected] if argument else []))

    return build


KINDS: dict[str, Callable[[_Builder, Guard], None]] = {
    "TYPE_IS": _plain(frame.TYPE_IS),
    "IS": _is,
    "EQUALS": _plain(frame.EQUALS),
    "LENGTH": _plain(frame.LENGTH),
    "KEYS": _plain(frame.KEYS),
    "ABSENT": _plain(frame.ABSENT, argument=False),
    "CODE": _plain(frame.CODE),
    "STATE": _plain(frame.STATE),
    "TENSOR": _tensor,
    "SET_EQUALS": _set_equals,
    "OBJECTS": _set_equals,
    "RELATION": _relation,
    "ITEM_ABSENT": _item_absent,
    "INSTANCE_ABSENT": _instance_absent,
    "EMPTY": _empty,
    "CLASS_ATTR": _class_attr,
    "SAME": _pair(frame.SAME),
    "NOT_SAME": _pair(frame.NOT_SAME),
}


def build(guards: Sequence[Guard], inputs: Sequence[Source]) -> Built:
    """The check for `guards`, which also fetches the values of `inputs` in order."""
    builder = _Builder()
    for guard in guards:
        KINDS[guard.kind](builder, guard)
    return builder.finished(inputs)
