"""Kernels and calls in the order they run: calls as the program has them, a kernel as late as somebody needs it."""

from __future__ import annotations

from torch.fx import Node

from dynajit.lower.ir import base_of
from dynajit.lower.program import Extern, Program, leaves
from dynajit.schedule.fuse import Schedule, values_of
from dynajit.schedule.group import Group
from dynajit.schedule.needs import Needs

Step = Group | Node


def order(program: Program, needs: Needs, schedule: Schedule) -> list[Step]:
    """All groups, all calls that run as they stand, and those views whose tensor somebody wants."""
    steps: list[Step] = []
    done: set[int] = set()
    externs = {item.node for item in program.items if isinstance(item, Extern)}

    def node_needs(node: Node) -> None:
        if id(node) not in done and (node in externs or node in needs.run):
            done.add(id(node))
            for source in node.all_input_nodes:
                node_needs(source)
            steps.append(node)
        for value in values_of(needs.stored.get(node)):
            group_needs(schedule.home[value.serial])

    def group_needs(group: Group) -> None:
        if id(group) in done:
            return
        done.add(id(group))
        for load, _ in group.loads.values():
            base = base_of(load)
            if base.op != "buffer":
                group_needs(schedule.home[base.serial])
        steps.append(group)

    for node in program.early:
        node_needs(node)
    epoch, pending = 0, list[Node]()
    for item in program.items:
        if isinstance(item, Extern):
            if item.barrier:
                for node in pending:
                    node_needs(node)
                for group in schedule.groups:
                    if group.epoch == epoch:
                        group_needs(group)
                epoch, pending = epoch + 1, []
            node_needs(item.node)
        elif item.node in needs.run:
            pending.append(item.node)
    for leaf in leaves(program.output):
        if isinstance(leaf, Node):
            node_needs(leaf)
    return steps
