"""An append-only `torch.fx` graph that can go back to an earlier length."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import fx

from dynajit import reasons
from dynajit.bytecode import NOWHERE, Position
from dynajit.errors import GraphBreak


@dataclass(frozen=True)
class Origin:
    """The program text that made a node. callers: the inlined calls around it, outermost first.

    module: the path of the `nn.Module` whose code it is, as the program reaches it.
    """

    filename: str
    qualname: str
    position: Position = NOWHERE
    callers: tuple[tuple[str, str, int | None], ...] = ()
    module: str = ""

    @property
    def line(self) -> int | None:
        return self.position.line

    @property
    def root_line(self) -> int | None:
        """The line of the compiled function itself, also when the node comes from a function that it calls."""
        return self.callers[0][2] if self.callers else self.position.line


class Recorder:
    """nodes: everything recorded, in order of creation (placeholders stand first in the graph itself)."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.nodes: list[fx.Node] = []
        self._last_input: fx.Node | None = None
        self._alive: set[fx.Node] = set()

    def placeholder(self, name: str, origin: Origin) -> fx.Node:
        """A new input, behind the inputs that are there already."""
        anchor = self._last_input
        clean = self._free(re.sub(r"\W+", "_", name).strip("_") or "arg")
        if anchor is not None:
            with self.graph.inserting_after(anchor):
                node = self.graph.placeholder(clean)
        elif self.nodes:
            with self.graph.inserting_before(next(iter(self.graph.nodes))):
                node = self.graph.placeholder(clean)
        else:
            node = self.graph.placeholder(clean)
        self._last_input = node
        return self._keep(node, origin)

    def _free(self, name: str) -> str:
        """A parameter name that no other input has: fx takes it as it stands."""
        taken = {node.target for node in self.nodes if node.op == "placeholder"}
        unique, count = name, 1
        while unique in taken:
            count += 1
            unique = f"{name}_{count}"
        return unique

    def call(self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], origin: Origin) -> fx.Node:
        if any(map(_has_numpy, (*args, *kwargs.values()))):  # they print as code that names numpy
            raise GraphBreak(reasons.OPAQUE_CALL, "an operation on one of numpy's numbers")
        if target is operator.pow and _is_negative(args[0]):
            # fx would print -2 ** x, which is -(2 ** x); for tensors torch.pow is what Tensor.__rpow__ calls
            is_tensor = isinstance(args[1], fx.Node) and isinstance(args[1].meta.get("val"), torch.Tensor)
            target = torch.pow if is_tensor else power
        return self._keep(self.graph.create_node(op, target, tuple(args), dict(kwargs)), origin)

    def _keep(self, node: fx.Node, origin: Origin) -> fx.Node:
        node.meta["position"] = origin
        self.nodes.append(node)
        self._alive.add(node)
        return node

    def erase_last(self, node: fx.Node) -> None:
        assert self.nodes[-1] is node
        self.nodes.pop()
        self._alive.discard(node)
        self.graph.erase_node(node)

    def is_alive(self, node: fx.Node) -> bool:
        """Whether the node was not undone."""
        return node in self._alive

    @property
    def mark(self) -> int:
        return len(self.nodes)

    def roll_back(self, mark: int) -> None:
        while len(self.nodes) > mark:
            node = self.nodes.pop()
            self._alive.discard(node)
            self.graph.erase_node(node)
            if node.op == "placeholder":
                inputs = [n for n in self.nodes if n.op == "placeholder"]
                self._last_input = inputs[-1] if inputs else None

    @property
    def operations(self) -> int:
        """How many nodes compute something."""
        return sum(node.op != "placeholder" for node in self.nodes)


def power(base: Any, exponent: Any) -> Any:
    return base**exponent


def _is_negative(number: Any) -> bool:
    """Whether it prints with a minus sign, as -0.0 does."""
    return type(number) in (int, float) and repr(number).startswith("-")


def _has_numpy(arg: Any) -> bool:
    if isinstance(arg, slice):
        return any(map(_has_numpy, (arg.start, arg.stop, arg.step)))
    return any(map(_has_numpy, arg)) if isinstance(arg, (list, tuple)) else isinstance(arg, np.generic)
