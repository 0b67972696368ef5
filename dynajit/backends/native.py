"""Our own kernels: lower, schedule, print, build, launch. One page that shows the stages in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import GraphModule

from dynajit.backends.base import CompiledGraph, KernelInfo, Observer, backend
from dynajit.backends.eager import eager
from dynajit.caching.key import key
from dynajit.caching.store import Store
from dynajit.codegen.c import print_kernel
from dynajit.codegen.c_file import CFile, print_file
from dynajit.codegen.kernel import Kernel, Operand, build
from dynajit.codegen.text import NoSpelling
from dynajit.codegen.wrapper import owners, write
from dynajit.lower.from_fx import NotLowerable, from_fx
from dynajit.lower.ir import Origin
from dynajit.lower.program import Program
from dynajit.options import Options
from dynajit.runtime.fast_launch import launcher
from dynajit.runtime.launch import Plan
from dynajit.runtime.load import load
from dynajit.runtime.mathlib import function
from dynajit.runtime.toolchain import toolchain
from dynajit.schedule.fuse import Schedule, Unfusable, fuse
from dynajit.schedule.group import Group
from dynajit.schedule.needs import Needs, needs
from dynajit.schedule.order import Step, order

MISS: Any = object()
Form = Callable[..., tuple[Any, ...]]
VARIANTS = 8  # per graph; beyond that, arguments that fit none run the graph as it stands


@dataclass(frozen=True, eq=False)
class Lowered:
    """A program with its schedule and loop nests."""

    program: Program
    needs: Needs
    schedule: Schedule
    steps: Sequence[Step]
    kernels: Mapping[int, Kernel]  # by number of their group


@backend("native")
def native(
    gm: GraphModule, example_inputs: Sequence[Any], options: Options, observer: Observer | None = None
) -> CompiledGraph:
    whole = replace(eager(gm, example_inputs, options, observer), backend="native")
    why = _reason_against(gm, example_inputs)
    if why:
        return replace(whole, notes=(why,))
    variants = _Variants(gm, whole.fn, options, observer)
    try:
        first = variants.compile(example_inputs)
    except NotLowerable as reason:
        return replace(whole, notes=(f"the graph runs as it stands: {reason}",))
    if not first.kernels:
        return replace(whole, notes=first.notes, schedule=first.schedule)
    return replace(first, fn=variants.call)


def _reason_against(gm: GraphModule, example_inputs: Sequence[Any]) -> str:
    """Why a graph is not worth lowering, or must not be lowered; empty if it may."""
    if toolchain() is None:
        return "no C compiler was found (gcc, clang, or what DYNAJIT_CC names): the graph runs with eager's kernels"
    if torch.is_autocast_enabled("cpu"):
        return "autocast is on: the graph runs as it stands"
    switches = any(node.target is torch._C._set_grad_enabled for node in gm.graph.nodes)
    grads = any(isinstance(x, torch.Tensor) and x.requires_grad for x in example_inputs)
    if grads and (switches or torch.is_grad_enabled()):
        return "inputs require gradients: the graph runs under eager autograd"
    return ""


class _Variants:
    """The forms in which one graph was compiled, by the kind of its inputs."""

    def __init__(
        self, gm: GraphModule, whole: Callable[..., tuple[Any, ...]], options: Options, observer: Observer | None
    ) -> None:
        self.gm, self.whole, self.options, self.observer = gm, whole, options, observer
        self.forms: list[Form] = []
        self.chosen: dict[Any, int] = {}
        self.current: Form = whole
        self.missed: list[str] = []

    def call(self, *args: Any) -> tuple[Any, ...]:
        results = self.current(*args)
        if results is MISS:
            return self._elsewhere(args)
        if self.missed:
            self.missed.clear()
            self._elsewhere(None, args)
        return results

    def _elsewhere(self, args: tuple[Any, ...] | None, seen: tuple[Any, ...] = ()) -> tuple[Any, ...]:
        """Find or make the form for these arguments; run it if `args` are given."""
        given = seen if args is None else args
        kind = _kind(given)
        if kind not in self.chosen:
            for position, form in enumerate(self.forms):
                if args is not None and (results := form(*args)) is not MISS:
                    self.chosen[kind], self.current = position, form
                    return results
            if len(self.forms) >= VARIANTS:
                return self.whole(*args) if args is not None else ()
            try:
                self.compile(given)
            except NotLowerable:
                self.forms.append(self.whole)
            self.chosen[kind] = len(self.forms) - 1
        self.current = self.forms[self.chosen[kind]]
        if args is None:
            return ()
        results = self.current(*args)
        return self.whole(*args) if results is MISS else results

    def compile(self, inputs: Sequence[Any]) -> CompiledGraph:
        """One more form, for arguments like these."""
        watch = _Stopwatch(self.observer)
        lowered = lower(self.gm, inputs)
        watch.lap("lowering", f"{len(lowered.kernels)} kernels")
        groups = [step for step in lowered.steps if isinstance(step, Group)]
        kernels = [lowered.kernels[group.number] for group in groups]
        file = print_file(kernels, function)
        chain = toolchain()
        assert chain is not None
        hit, addresses = False, list[int]()
        if kernels:
            path, hit = chain.build(file.source, Store())
            addresses = load(path, file.entries, file.symbols)
        seconds = watch.lap("building", "from the cache" if hit else f"{len(file.source)} characters of C")
        launches = {f"k{g.number}": launcher(Plan(k, a)) for g, k, a in zip(groups, kernels, addresses, strict=True)}
        names = {group.number: (f"k{group.number}", kernel) for group, kernel in zip(groups, kernels, strict=True)}
        wrapper = write(lowered.program, lowered.needs, lowered.steps, names)
        scope = {**wrapper.constants, **launches, "eager": self.whole, "MISS": MISS, "missed": self.missed}
        exec(compile(wrapper.source, "<dynajit wrapper>", "exec"), scope)
        self.forms.append(scope["call"])
        self.current = scope["call"]
        self.chosen[_kind(inputs)] = len(self.forms) - 1
        report = tuple(lowered.schedule.report)
        infos = _infos(kernels, file, seconds, hit)
        identity = key(file.source, wrapper.source)
        return CompiledGraph(scope["call"], infos, "native", (), identity, report, wrapper.source)


def lower(gm: GraphModule, inputs: Sequence[Any]) -> Lowered:
    """Graph -> values -> schedule -> loop nests. What turns out not to fit any loops runs as it stands."""
    as_they_are: dict[str, str] = {}
    while True:
        program = from_fx(gm, inputs, as_they_are)
        need = needs(program)
        try:
            schedule = fuse(program, need)
        except Unfusable as misfit:
            as_they_are[_node_of(program, misfit.serial)] = str(misfit)
            continue
        owned = owners(program, need)
        cut = next((serial for serial in sorted(schedule.stored) if serial not in owned), None)
        if cut is not None:
            as_they_are[_node_of(program, cut)] = "its parts do not fit into one kernel"
            continue
        kernels = {}
        refused = False
        for group in schedule.groups:
            stored = {serial for serial in group.body if serial in schedule.stored and schedule.home[serial] is group}
            kernel = build(_kernel_name(group, program.origins), group, schedule.axes, stored, program, need)
            try:
                print_kernel(kernel, kernel.name, function)
            except NoSpelling as reason:
                for serial in group.body.keys() & program.origins.keys():
                    as_they_are[program.origins[serial].name] = str(reason)
                refused = True
                break
            kernels[group.number] = kernel
        if not refused:
            return Lowered(program, need, schedule, order(program, need, schedule), kernels)


def _node_of(program: Program, serial: int) -> str:
    origin = program.origins.get(serial)
    if origin is None:
        raise NotLowerable("a value of unknown origin")
    return origin.name


def _kernel_name(group: Group, origins: Mapping[int, Origin]) -> str:
    words = [origins[serial].text for serial in sorted(group.body) if serial in origins]
    return "_".join([f"k{group.number}", *dict.fromkeys(words)])[:60]


def _kind(args: Sequence[Any]) -> Any:
    """What a compiled form may depend on."""
    return tuple((x.shape, x.stride(), x.dtype) if isinstance(x, torch.Tensor) else type(x) for x in args)


def _infos(kernels: Sequence[Kernel], file: CFile, seconds: float, hit: bool) -> tuple[KernelInfo, ...]:
    infos = []
    for kernel, entry in zip(kernels, file.entries, strict=True):
        printed = file.kernels[entry]
        lines = tuple(
            (number, origin.position)
            for number, origin in enumerate(printed.origins, 1)
            if isinstance(origin, Origin) and origin.position is not None
        )
        ops = tuple(dict.fromkeys(stmt.origin.text for stmt in kernel.body if stmt.origin is not None))
        note = "" if entry == kernel.name else f"the same code as {entry}"
        infos.append(
            KernelInfo(
                kernel.name,
                "c",
                printed.text,
                True,
                lines,
                ops,
                sum(map(_bytes, kernel.inputs)),
                sum(map(_bytes, kernel.outputs)),
                seconds,
                hit,
                note,
            )
        )
    return tuple(infos)


def _bytes(operand: Operand) -> int:
    return operand.dtype.itemsize * operand.numel


class _Stopwatch:
    def __init__(self, observer: Observer | None) -> None:
        self.observer, self.start = observer, time.perf_counter()

    def lap(self, stage: str, detail: str) -> float:
        now = time.perf_counter()
        seconds, self.start = now - self.start, now
        if self.observer is not None:
            self.observer(stage, detail, seconds)
        return seconds


@backend("auto")
def auto(
    gm: GraphModule, example_inputs: Sequence[Any], options: Options, observer: Observer | None = None
) -> CompiledGraph:
    """The best there is for these inputs."""
    return native(gm, example_inputs, options, observer)
