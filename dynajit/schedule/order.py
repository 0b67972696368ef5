"""Kernels and calls in the order they run: calls as the program has them, a kernel as late as somebody needs it, or as
soon as it can run if it makes less than it reads, since what it reads may then go.
"""

from __future__ import annotations

from math import prod

from torch.fx import Node

from dynajit.lower.ir import Value, base_of
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

    def shrink() -> None:
        """Run what makes little of much, and has all of it."""
        for group in small:
            if id(group) not in done and group.epoch == epoch and all(map(is_there, group.loads.values())):
                group_needs(group)

    def is_there(load: tuple[Value, object]) -> bool:
        base = base_of(load[0])
        if base.op == "buffer":
            return base.serial not in made_by or id(made_by[base.serial]) in done
        return id(schedule.home[base.serial]) in done

    def group_needs(group: Group) -> None:
        if id(group) in done:
            return
        done.add(id(group))
        for load, _ in group.loads.values():
            base = base_of(load)
            if base.op != "buffer":
                group_needs(schedule.home[base.serial])
        steps.append(group)

    called = [item for item in program.items if isinstance(item, Extern)]
    made_by = {value.serial: item.node for item in called for value in values_of(item.result)}
    small = [group for group in schedule.groups if _shrinks(group, schedule)]
    for node in program.early:
        node_needs(node)
    epoch, pending = 0, list[Node]()
    for item in program.items:
        if isinstance(item, Extern):
            shrink()
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


def _shrinks(group: Group, schedule: Schedule) -> bool:
    """Does it make less than half of what it reads?"""
    made = sum(_bytes(value) for serial, value in group.body.items() if _is_stored(serial, group, schedule))
    read = {base.serial: base for base in (base_of(load) for load, _ in group.loads.values())}
    return 2 * made < sum(map(_bytes, read.values()))


def _is_stored(serial: int, group: Group, schedule: Schedule) -> bool:
    return serial in schedule.stored and schedule.home.get(serial) is group


def _bytes(value: Value) -> int:
    return prod(value.shape) * value.dtype.itemsize
