"""A graph down to loop nests: lower, find what is needed, fuse, order, build. One page with every step by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule

from dynajit.codegen.kernel import Kernel, build
from dynajit.codegen.text import NoSpelling
from dynajit.codegen.wrapper import Wrapper, owners, write
from dynajit.lower.from_fx import NotLowerable, from_fx
from dynajit.lower.ir import Value, walk
from dynajit.lower.program import Compute, Extern, Program, leaves
from dynajit.schedule.fuse import Schedule, Unfusable, fuse
from dynajit.schedule.group import Group
from dynajit.schedule.needs import Needs, needs
from dynajit.schedule.order import Step, order


@dataclass(frozen=True, eq=False)
class Plan:
    """kernels: by number of their group."""

    program: Program
    needs: Needs
    schedule: Schedule
    steps: Sequence[Step]
    kernels: Mapping[int, Kernel]

    @property
    def launched(self) -> list[tuple[str, Kernel]]:
        """(name of the launch, kernel) in the order in which they run."""
        return [(f"k{step.number}", self.kernels[step.number]) for step in self.steps if isinstance(step, Group)]

    def wrapper(self, owned: bool = False) -> Wrapper:
        names = {number: (f"k{number}", kernel) for number, kernel in self.kernels.items()}
        return write(self.program, self.needs, self.steps, names, owned)


def plan(gm: GraphModule, inputs: Sequence[Any], print_: Callable[[Kernel], object], lone: bool = True) -> Plan:
    """The loop nests of a graph for inputs like these. lone: make kernels of single operations, too.

    What turns out not to fit any loops, or what `print_` has no text for, runs as it stands. Each round takes at least
    one more node out, so there are no more rounds than nodes.
    """
    as_they_are: dict[str, str] = {}
    while True:
        program = from_fx(gm, inputs, as_they_are)
        refused = len(as_they_are)
        need = needs(program)
        try:
            schedule = fuse(program, need)
        except Unfusable as misfit:
            as_they_are[_node_of(program, misfit.serial)] = str(misfit)
            continue
        if not lone:
            for name in _lone(program, schedule):
                as_they_are[name] = "alone in its kernel: eager's own is as good"
            if len(as_they_are) > refused:
                continue
        kernels = {}
        owned = owners(program, need)
        # Where the calls that a kernel stands for may have to take its place, each result must be one of theirs.
        once = any(isinstance(item, Extern) and not item.again for item in program.items)
        for group in schedule.groups:
            stored = {serial for serial in group.body if serial in schedule.stored and schedule.home[serial] is group}
            for serial in stored - owned.keys() if once else ():
                as_they_are[_node_of(program, serial)] = "its parts do not fit into one kernel"
            try:
                kernels[group.number] = build(_kernel_name(group, program), group, schedule.axes, stored, program, need)
            except NoSpelling as reason:
                as_they_are.update(dict.fromkeys(_names(program, group), str(reason)))
                continue
            for operand in kernels[group.number].outputs:
                if not operand.dense and operand.serial in owned:
                    as_they_are[owned[operand.serial][0].name] = "eager leaves gaps in its result"
            try:
                print_(kernels[group.number])
            except NoSpelling as reason:
                as_they_are.update(dict.fromkeys(_names(program, group), str(reason)))
        if len(as_they_are) == refused:
            return Plan(program, need, schedule, order(program, need, schedule), kernels)


def passes(made: Plan) -> tuple[tuple[str, str], ...]:
    """The program after each step, as text: values over whole tensors, then which of them share a kernel. What a kernel
    stores has a star.
    """
    program, schedule = made.program, made.schedule
    results = [
        leaf
        for item in program.items
        if isinstance(item, Compute)
        for tree in (item.result, made.needs.stored.get(item.node))
        for leaf in leaves(tree)
    ]
    values = {value.serial: value for value in walk([leaf for leaf in results if isinstance(leaf, Value)])}
    rows = dict[str, list[str]]()
    for serial in sorted(values):
        origin = program.origins.get(serial)
        rows.setdefault(origin.name if origin is not None else "inputs", []).append(f"  {values[serial]!r}")
    lowered = "\n".join(line for name, lines in rows.items() for line in (f"{name}:", *lines))
    names = {number: kernel.name for number, kernel in made.kernels.items()}
    parts = []
    for step in made.steps:
        if isinstance(step, Group):
            body = [
                f"  {'*' if serial in schedule.stored else ' '} {step.body[serial]!r}" for serial in sorted(step.body)
            ]
            parts.append("\n".join([f"{names[step.number]}:", *body]))
        else:
            parts.append(f"{step.name}: runs as it stands")
    number = {serial: i for i, serial in enumerate(sorted(values))}

    def renumbered(text: str) -> str:
        return re.sub(r"%(\d+)", lambda found: f"%{number.get(int(found[1]), int(found[1]))}", text)

    return ("lowered", renumbered(lowered)), ("fused", renumbered("\n".join(parts)))


def _lone(program: Program, schedule: Schedule) -> list[str]:
    """Nodes of one aten operation that share none of their kernels with another, and of which eager's is no slower.
    Views do not count: eager's kernel reads through them as well.
    """
    views = {item.node.name for item in program.items if isinstance(item, Compute) and item.alias}
    origins = {serial: origin for serial, origin in program.origins.items() if origin.name not in views}
    together = [{origins[s] for s in group.body if s in origins} for group in schedule.groups]
    shared = {origin for origins in together if len(origins) > 1 for origin in origins}
    alone = [origin for origins in together for origin in origins if origin.plain and origin not in shared]
    return list(dict.fromkeys(origin.name for origin in alone))


def _names(program: Program, group: Group) -> list[str]:
    return [program.origins[serial].name for serial in group.body if serial in program.origins]


def _node_of(program: Program, serial: int) -> str:
    origin = program.origins.get(serial)
    if origin is None:
        raise NotLowerable("a value of unknown origin")
    return origin.name


def _kernel_name(group: Group, program: Program) -> str:
    """What the kernel does, in the user's operations."""
    words = [program.origins[serial].text for serial in sorted(group.body) if serial in program.origins]
    words = [word.partition(".")[0].strip("_") for word in words]  # of an aten overload: "mul.Tensor"
    words = [word for word in words if word.isidentifier()]
    return "_".join([f"k{group.number}", *dict.fromkeys(words)])[:60]
