"""The Python function that calls kernels and everything that runs as it stands: straight-line text."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from dynajit.codegen import memory
from dynajit.codegen.kernel import Kernel
from dynajit.lower.ir import Value
from dynajit.lower.program import Compute, Extern, Program, leaves
from dynajit.schedule.group import Group
from dynajit.schedule.needs import Needs
from dynajit.schedule.order import Step

MISS = "MISS"
aten: Any = torch.ops.aten
# How an aten call is written where the binding for people is faster: "torch.addmm", or ".view" for a method.
SPELLED = {
    **{aten.view.default: ".view", aten._unsafe_view.default: ".view", aten.reshape.default: ".reshape"},
    **{aten.permute.default: ".permute", aten.transpose.int: ".transpose", aten.t.default: ".t"},
    **{aten.expand.default: ".expand", aten.unbind.int: ".unbind", aten.unsqueeze.default: ".unsqueeze"},
    **{aten.select.int: ".select", aten.squeeze.dim: ".squeeze", aten.clone.default: ".clone"},
    **{aten.addmm.default: "torch.addmm", aten.mm.default: "torch.mm", aten.bmm.default: "torch.bmm"},
}


@dataclass(frozen=True)
class Wrapper:
    """source: text that defines `call`. constants: objects it names. keeps: by name of a launch, which of its results
    may go to memory of earlier ones.

    Beside those it needs `eager` (the graph as it stands), `MISS`, `missed` (a list) and the launches by name.
    """

    source: str
    constants: Mapping[str, Any]
    keeps: Mapping[str, tuple[bool, ...]]


@dataclass(frozen=True)
class _Line:
    """A statement of the wrapper, with the variables it reads and makes."""

    text: str
    reads: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    memory: tuple[tuple[str, int], ...] = ()  # what is new of that, with its bytes
    base: str = ""  # whose memory it makes a view of


def write(
    program: Program,
    needs: Needs,
    steps: Sequence[Step],
    kernels: Mapping[int, tuple[str, Kernel]],
    owned: bool = False,
) -> Wrapper:
    """The wrapper of a program. kernels: by number of their group, the name of the launch and the kernel.

    `MISS` says that a kernel does not fit these arguments, and that the call may start again another way. Once
    something ran that must not run twice, a kernel that does not fit is replaced by the calls it was made from.

    owned: the call takes its arguments in a list, which it empties, so that it may let go of each after its last use.
    Then, too, a kernel that does not fit is replaced, unless nothing was let go yet.
    """
    return _Writer(program, needs, kernels, owned).write(steps)


def owners(program: Program, needs: Needs) -> dict[int, tuple[Node, str]]:
    """Which node's result a value is, by serial, and where in it: "" or "[1]"."""
    found: dict[int, tuple[Node, str]] = {}
    for item in program.items:
        if isinstance(item, Compute):
            for tree in (item.result, needs.stored.get(item.node)):
                for path, leaf in _paths(tree):
                    if isinstance(leaf, Value):
                        found.setdefault(leaf.serial, (item.node, path))
    return found


def _paths(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, (tuple, list)):
        for position, leaf in enumerate(tree):
            yield from _paths(leaf, f"{path}[{position}]")
    else:
        yield path, tree


@dataclass
class _Writer:
    program: Program
    needs: Needs
    kernels: Mapping[int, tuple[str, Kernel]]
    owned: bool = False
    constants: dict[str, Any] = field(default_factory=dict)
    variables: dict[int, str] = field(default_factory=dict)  # serial of a value in memory -> variable
    taken: set[str] = field(default_factory=set)
    ran: set[Node] = field(default_factory=set)  # nodes that ran as they stand so far

    def write(self, steps: Sequence[Step]) -> Wrapper:
        program = self.program
        self.taken.update(node.name for node in program.bound)
        self.owners = owners(program, self.needs)
        for node, tree in program.bound.items():
            for path, value in _paths(tree):
                if isinstance(value, Value) and value.op == "buffer" and value.arg.name == node.name:
                    self.variables.setdefault(value.serial, node.name + path)
        params = [node.name for node in program.inputs]
        once = {item.node for item in program.items if isinstance(item, Extern) and not item.again}
        dirty, lines, helpers = False, list[_Line](), list[str]()
        last_miss = max((k for k, step in enumerate(steps) if not self._is_replaceable(step)), default=-1)
        for k, step in enumerate(steps):
            if self.owned and k == last_miss + 1:
                lines.append(_Line("arguments.clear()"))
            if isinstance(step, Node):
                lines.append(self._call(step))
                self.ran.add(step)
                dirty = dirty or step in once
            else:
                lines += self._launch(step, helpers if dirty or (self.owned and k > last_miss) else None)
        result = self._reference(program.output)
        lines = _without_unread(lines, {node.name for node in program.early}, result)
        text = [*self._guard_gradients(params), *_with_deletes(lines, params, result, self.owned), f"return {result}"]
        if self.owned and params:
            text.insert(0, f"{', '.join(params)}, = arguments")
        body = "\n".join(f"    {line}" for line in text)
        source = "\n\n".join([*helpers, f"def call({'arguments' if self.owned else ', '.join(params)}):\n{body}\n"])
        return Wrapper(source, self.constants, self._keeps(lines, params, result))

    def _is_replaceable(self, step: Step) -> bool:
        """Can this step be done by the calls that it stands for?"""
        if isinstance(step, Node):
            return True
        return all(operand.serial in self.owners for operand in self.kernels[step.number][1].outputs)

    # -- expressions ---------------------------------------------------------------------------------------------

    def _name(self, wish: str) -> str:
        base = re.sub(r"\W", "_", wish)
        unique, k = base, 1
        while unique in self.taken:
            k, unique = k + 1, f"{base}_{k}"
        self.taken.add(unique)
        return unique

    def _constant(self, value: Any) -> str:
        """How a Python object is written: as a literal where that is exact, else under a name of its own."""
        if value is None or type(value) in (bool, int, str) or value is Ellipsis:
            return repr(value)
        if type(value) is float and repr(value) not in ("nan", "inf", "-inf"):
            return repr(value)
        if isinstance(value, torch.dtype) and getattr(torch, str(value)[6:], None) is value:
            self.constants["torch"] = torch
            return str(value)
        for known, other in self.constants.items():
            if other is value:
                return known
        name = self._name(f"_{getattr(value, '__name__', type(value).__name__)}")
        self.constants[name] = value
        return name

    def _reference(self, tree: Any, plain: bool = False) -> str:
        """An argument of a call, nodes replaced by variables. plain: each node is a variable of its own name."""
        refer = partial(self._reference, plain=plain)
        if isinstance(tree, Node):
            stored = self.needs.stored.get(tree)
            return tree.name if plain or stored is None else self._stored(stored)
        if isinstance(tree, tuple) and not hasattr(tree, "_fields"):
            return _tuple(map(refer, tree))
        if isinstance(tree, list):
            return f"[{', '.join(map(refer, tree))}]"
        if isinstance(tree, dict):
            return "{" + ", ".join(f"{self._constant(k)}: {refer(v)}" for k, v in tree.items()) + "}"
        if isinstance(tree, slice):
            return f"slice({', '.join(map(refer, (tree.start, tree.stop, tree.step)))})"
        return self._constant(tree)

    def _stored(self, stored: Any) -> str:
        if isinstance(stored, Value):
            return self.variables[stored.serial]
        return _tuple(map(self._stored, stored)) if isinstance(stored, (tuple, list)) else self._constant(stored)

    def _run(self, node: Node, plain: bool = False) -> str:
        """The call that a node stands for."""
        refer = partial(self._reference, plain=plain)
        args = [refer(arg) for arg in node.args]
        if node in self.program.rewritten:
            args[0] += ".clone()"
        keywords = [f"{name}={refer(arg)}" for name, arg in node.kwargs.items()]
        if node.op == "call_method":
            return f"{args[0]}.{node.target}({', '.join(args[1:] + keywords)})"
        if node.target is operator.getitem and isinstance(node.args[1], int):
            return f"{args[0]}[{args[1]}]"
        spelled = SPELLED.get(node.target, "")
        if spelled.startswith("."):
            return f"{args[0]}{spelled}({', '.join(args[1:] + keywords)})"
        if spelled:
            self.constants["torch"] = torch
            return f"{spelled}({', '.join(args + keywords)})"
        return f"{self._constant(node.target)}({', '.join(args + keywords)})"

    def _read(self, node: Node) -> list[str]:
        names: list[str] = []
        for source in node.all_input_nodes:
            stored = [v for v in leaves(self.needs.stored.get(source)) if isinstance(v, Value)]
            names += [self.variables[value.serial] for value in stored] or [source.name]
        return names

    # -- statements ----------------------------------------------------------------------------------------------

    def _guard_gradients(self, params: list[str]) -> list[str]:
        """The graph as it stands, where autograd has to see it or somebody watches every operation."""
        self.constants |= {"grad_enabled": torch.is_grad_enabled, "watchers": torch._C._len_torch_dispatch_stack}
        wants = " or ".join(f"{node.name}.requires_grad" for node in self.program.tensors)
        grad = f" or (grad_enabled() and ({wants}))" if wants else ""
        return [f"if watchers(){grad}:", f"    return eager({', '.join(params)})"]

    def _call(self, node: Node) -> _Line:
        reads, text = tuple(self._read(node)), f"{node.name} = {self._run(node)}"
        if reads and memory.is_view(self.program, node):
            return _Line(text, reads, (node.name,), base=reads[0])
        return _Line(text, reads, (node.name,), ((node.name, memory.bytes_of(self.program.bound.get(node))),))

    def _keeps(self, lines: list[_Line], params: list[str], result: str) -> dict[str, tuple[bool, ...]]:
        """Which results may go to memory of earlier ones, without more memory in use than eager would have."""
        base: dict[str, str] = {}
        for line in lines:
            if line.base:
                base.update(dict.fromkeys(line.makes, base.get(line.base, line.base)))
        last: dict[str, int] = {}
        for position, line in enumerate(lines):
            last.update(dict.fromkeys((base.get(name, name) for name in (*line.reads, *line.makes)), position))
        words = re.findall(r"\w+", result)
        held = {base.get(name, name) for name in (*words, *(() if self.owned else params))}
        given = tuple((node.name, memory.bytes_of(self.program.bound.get(node))) for node in self.program.inputs)
        events = [memory.Event(given, ())]
        for position, line in enumerate(lines):
            names = dict.fromkeys(base.get(name, name) for name in (*line.reads, *line.makes))
            drops = tuple(name for name in names if last[name] == position and name not in held)
            events.append(memory.Event(line.memory, drops))
        outputs = {launch: self._memory(kernel) for launch, kernel in self.kernels.values()}
        candidates = {name: size for row in outputs.values() for name, size in row}
        chosen = memory.kept(memory.eager_events(self.program, self.owned), events, candidates)
        return {launch: tuple(name in chosen for name, _ in row) for launch, row in outputs.items()}

    def _launch(self, group: Group, helpers: list[str] | None) -> list[_Line]:
        """Call a kernel. helpers: where the text goes of what replaces it; None: the call starts again instead."""
        name, kernel = self.kernels[group.number]
        inputs = [self.variables[operand.serial] for operand in kernel.inputs]
        inputs += [*(scalar for scalar, _ in kernel.scalars), *kernel.extents]
        replacement = None
        if helpers is not None:
            text, replacement = self._replacement(name, kernel)
            helpers.append(text)
        outputs = []
        for operand in kernel.outputs:
            self.variables[operand.serial] = self._output_name(operand.serial)
            outputs.append(self.variables[operand.serial])
        target = outputs[0] if len(outputs) == 1 else "results"
        reads = tuple(word.partition("[")[0] for word in inputs)
        lines = [_Line(f"{target} = {name}({', '.join(inputs)})", reads, (target,), self._memory(kernel))]
        if replacement is None:
            lines.append(_Line(f"if {target} is None: return {MISS}"))
        else:
            call = f"{name}_eager({', '.join(replacement)})"
            lines.append(_Line(f"if {target} is None: {target} = {call}", tuple(replacement)))
        if len(outputs) > 1:
            lines.append(_Line(f"{', '.join(outputs)} = results", (), tuple(outputs)))
            lines.append(_Line("del results"))
        return lines

    def _memory(self, kernel: Kernel) -> tuple[tuple[str, int], ...]:
        return tuple((self.variables[x.serial], x.dtype.itemsize * x.numel) for x in kernel.outputs)

    def _output_name(self, serial: int) -> str:
        """A node's one tensor keeps the node's name."""
        if serial not in self.owners:
            return self._name(f"part_of_{self.program.origins[serial].name}")
        node, path = self.owners[serial]
        return node.name if not path else self._name(node.name + re.sub(r"\W", "_", path.rstrip("]")))

    def _replacement(self, name: str, kernel: Kernel) -> tuple[str, list[str]]:
        """A function that computes a kernel's outputs by the calls they come from, and the variables it takes."""
        items = {item.node: item for item in self.program.items if isinstance(item, Compute)}
        params: dict[str, None] = {}
        lines: list[str] = []
        done: set[Node] = set()

        def visit(node: Node) -> None:
            if node in done:
                return
            done.add(node)
            stored = [v for v in leaves(self.needs.stored.get(node)) if isinstance(v, Value)]
            if node not in items or node in self.ran:
                params[node.name] = None
            elif stored and all(v.serial in self.variables for v in stored):
                params.update(dict.fromkeys(self.variables[v.serial] for v in stored))
                if self._reference(node) != node.name:
                    lines.append(f"{node.name} = {self._reference(node)}")
            else:
                for source in node.all_input_nodes:
                    visit(source)
                lines.append(f"{node.name} = {self._run(node, plain=True)}")

        results = []
        for operand in kernel.outputs:
            node, path = self.owners[operand.serial]
            visit(node)
            results.append(node.name + path)
        lines.append(f"missed.append({name!r})")
        lines.append(f"return {results[0] if len(results) == 1 else _tuple(results)}")
        body = "\n".join(f"    {line}" for line in lines)
        return f"def {name}_eager({', '.join(params)}):\n{body}", list(params)


def _tuple(items: Any) -> str:
    texts = list(items)
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _without_unread(lines: list[_Line], numbers: set[str], result: str) -> list[_Line]:
    """Leave out numbers that became part of kernels, or of nothing."""
    kept, read = list[_Line](), set(re.findall(r"\w+", result))
    for line in reversed(lines):
        if not (line.makes and set(line.makes) <= numbers - read):
            kept.append(line)
            read.update(line.reads)
    return kept[::-1]


def _with_deletes(lines: list[_Line], params: list[str], result: str, owned: bool) -> list[str]:
    """Drop each variable after its last use, so that memory is free as early as in eager. owned: parameters as well."""
    kept = {*re.findall(r"\w+", result), *(() if owned else params), "results"}
    last: dict[str, int] = {}
    for position, line in enumerate(lines):
        last.update(dict.fromkeys((*line.reads, *line.makes), position))
    made: list[str] = []
    gone: list[str] = []
    for position, line in enumerate(lines):
        made.append(line.text)
        names = dict.fromkeys((*line.reads, *line.makes))
        gone += [name for name in names if last[name] == position and name not in kept]
        if gone and not (position + 1 < len(lines) and lines[position + 1].text.startswith("if ")):
            made.append(f"del {', '.join(gone)}")
            gone = []
    return made
