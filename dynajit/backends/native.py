"""Our own kernels: C on the CPU, Triton on CUDA devices."""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from dynajit.backends.base import FROM_CACHE, CompiledGraph, KernelInfo, Observer, backend
from dynajit.backends.eager import eager
from dynajit.backends.forms import MISS, Form, Forms, kind_of
from dynajit.backends.prologue import split
from dynajit.backends.training import Trained, TrainedForms, trained_in_any_size
from dynajit.caching.key import key
from dynajit.caching.store import Store
from dynajit.codegen.c import CKernel, print_kernel
from dynajit.codegen.c_file import CFile, print_file
from dynajit.codegen.kernel import Kernel, Operand
from dynajit.codegen.plan import Plan, passes, plan
from dynajit.codegen.text import NoSpelling
from dynajit.codegen.triton import TritonKernel, print_triton
from dynajit.codegen.wrapper import Wrapper
from dynajit.errors import ToolchainError
from dynajit.lower.from_fx import NotLowerable, device_of, makes_gradients
from dynajit.lower.tidy import VIEWS
from dynajit.options import Options
from dynajit.runtime import gpu
from dynajit.runtime.ahead import Ahead, compile_ahead
from dynajit.runtime.fast_launch import launcher
from dynajit.runtime.launch import Binary
from dynajit.runtime.load import load
from dynajit.runtime.mathlib import function
from dynajit.runtime.toolchain import toolchain

# Microseconds of a CPU, fitted to training steps from one norm to an encoder: what autograd adds to an operation and to
# a view; an operation itself, and what it costs to call it and to view from Python; a launch; a function of autograd.
NODE_US, VIEW_NODE_US, OPERATION_US, PYTHON_US, VIEW_US, LAUNCH_US, FUNCTION_US = 4, 2, 2, 0.5, 0.8, 4, 30
BYTES_A_US = 200000  # of what kernels move: a tenth of the time that a pass over memory takes


@backend("native")
def native(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    observer: Observer | None = None,
    *,
    lone: bool = False,
    owned: bool = False,
    builds: list[threading.Thread] | None = None,
) -> CompiledGraph:
    """lone: make a kernel of a single operation, too, where eager's own would do (for tests). owned: `fn` takes its
    arguments in a list and empties it, so that memory which nobody else holds is free after its last use. builds:
    where the thread goes that builds the kernels meanwhile, for a caller that will wait for it.
    """
    parts = split(gm) if not owned else None
    if parts is not None:
        compile_rest: Any = native  # as a backend, it shows no `lone`
        made: CompiledGraph = compile_rest(parts.rest, example_inputs, options, observer, lone=lone)
        return replace(made, fn=parts.call(made.fn))
    whole = replace(eager(gm, example_inputs, options, observer), backend="native")
    run = whole.fn
    if owned:
        whole = replace(whole, fn=lambda arguments: run(*arguments))
    try:
        device = device_of(example_inputs)
        why = _reason_against(gm.graph, example_inputs, device)
        if why:
            return replace(whole, notes=(why,))
        if _wants_gradients(gm, example_inputs):
            return _with_gradients(gm, example_inputs, whole, options, observer, lone)
        if makes_gradients(gm.graph):
            return replace(whole, notes=("what is made in the graph requires gradients: it runs under eager autograd",))
        make = _Maker(gm, device, run, options.numerics == "fast", lone, owned, _Stopwatch(observer))
        printed = make.printed(example_inputs)
        result = replace(make.described(printed), notes=printed.notes)
        if not printed.kernels:
            return replace(result, fn=whole.fn)
        forms = Forms(run, make.form, owned)
        if (options.build == "async" or builds is not None) and not make.is_built(printed):
            # Until the kernels are built, eager's compute the same; a wait at exit, so that no compiler is left alone.
            work = partial(_adopt, forms, kind_of(example_inputs), make, printed)
            thread = threading.Thread(target=work, name="dynajit build", daemon=False)
            thread.start()
            if builds is not None:
                builds.append(thread)
        else:
            built, hit, seconds = make.built(printed, forms.missed)
            forms.adopt(kind_of(example_inputs), built)
            result = replace(result, kernels=tuple(replace(k, cache_hit=hit, seconds=seconds) for k in result.kernels))
    except NotLowerable as reason:
        return replace(whole, notes=(str(reason),))
    except ToolchainError as error:
        return replace(whole, notes=(f"the kernels could not be built, so eager's run: {error}",))
    sample = partial(forms.sample, {name: kernel.name for name, kernel in printed.plan.launched})
    edit = partial(make.edit, printed, forms) if printed.file is not None else None
    kernels = {kernel.name: kernel for kernel in printed.kernels}
    call = forms.call_owned if owned else forms.call
    return replace(result, fn=call, sample=sample, edit=edit, ahead=partial(_ahead, kernels))


def _ahead(kernels: Mapping[str, Kernel], name: str, target: str) -> tuple[Ahead, ...]:
    return compile_ahead(kernels[name], target)


def _adopt(forms: Forms, kind: Any, make: _Maker, printed: _Printed) -> None:
    """In a thread of its own: build, then let the next call use it. A failure leaves eager's kernels in place."""
    try:
        forms.adopt(kind, make.built(printed, forms.missed)[0])
    except ToolchainError as error:
        make.watch.lap("building", f"failed, eager's kernels stay: {error}")


@backend("auto")
def auto(
    gm: GraphModule, example_inputs: Sequence[Any], options: Options, observer: Observer | None = None
) -> CompiledGraph:
    """The best there is for these inputs: native, which itself runs the graph as it stands where it must."""
    return native(gm, example_inputs, options, observer)


def _reason_against(graph: Graph, example_inputs: Sequence[Any], device: str) -> str:
    """Why a graph must not be lowered; empty if it may."""
    if device == "cpu" and toolchain() is None:
        return "no C compiler was found (gcc, clang, or what DYNAJIT_CC names): the graph runs with eager's kernels"
    if device == "cuda" and not gpu.available():
        return "Triton is not installed: the graph runs with eager's kernels"
    if device not in ("cpu", "cuda"):
        return f"there is no printer for {device} devices: the graph runs with eager's kernels"
    if any(isinstance(x, torch.Tensor) and type(x) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
           for x in example_inputs) or any("class" in node.meta for node in graph.nodes):  # fmt: skip
        return "there are tensors of a class of your own: the graph runs with eager's kernels"
    if torch.is_autocast_enabled(device):
        return "autocast is on: the graph runs as it stands"
    return ""


def _wants_gradients(gm: GraphModule, example_inputs: Sequence[Any]) -> bool:
    grads = any(isinstance(x, torch.Tensor) and x.requires_grad for x in example_inputs)
    return grads and (torch.is_grad_enabled() or any(n.target is torch._C._set_grad_enabled for n in gm.graph.nodes))


def _pays(form: Trained, kernels: Sequence[KernelInfo]) -> bool:
    """Is what is saved, calls of operations and passes over memory, more than what autograd's call of us costs?"""
    launched = [kernel for kernel in kernels if kernel.launched]
    if not any(kernel.name.startswith("backward") for kernel in launched):
        return False
    recorded = [node for node in form.made.graph.nodes if node not in form.made.numbers]
    calls, views = _calls_and_views(recorded, frozenset())
    left = 0.0
    for half, backward in ((form.halves.forward, False), (form.halves.backward, True)):
        own = [kernel for kernel in launched if kernel.name.startswith("backward") == backward]
        some, seen = _calls_and_views(half.graph.nodes, frozenset(name for kernel in own for name in kernel.nodes))
        left += some * (OPERATION_US + PYTHON_US) + seen * VIEW_US
    eagers = calls * (NODE_US + OPERATION_US) + views * VIEW_NODE_US
    passes = sum(kernel.reads + kernel.writes for kernel in launched) / BYTES_A_US
    ours = FUNCTION_US + left + LAUNCH_US * len(launched) + len(form.halves.saved) + len(form.made.inputs) / 2
    return eagers + passes > ours


def _calls_and_views(nodes: Iterable[Node], without: frozenset[str]) -> tuple[int, int]:
    """How many operations there are, and how many views, but for those of these names."""
    targets = [n.target for n in nodes if n.op == "call_function" and n.name not in without]
    views = sum(target in VIEWS for target in targets)
    return len(targets) - views, views - targets.count(operator.getitem)


def _with_gradients(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    whole: CompiledGraph,
    options: Options,
    observer: Observer | None,
    lone: bool,
) -> CompiledGraph:
    """Both passes by our kernels, as one autograd function."""
    if any("array" in node.meta for node in gm.graph.nodes):
        return replace(whole, notes=("with gradients, graphs with functions of NumPy run under eager autograd",))
    if device_of(example_inputs) != "cpu":
        return replace(whole, notes=("with gradients, graphs on a GPU run under eager autograd",))

    compile_it: Any = native  # as a backend, it shows no `lone`

    builds: list[threading.Thread] | None = [] if options.build == "sync" else None  # of both passes side by side

    def compile_half(half: GraphModule, inputs: Sequence[Any], owned: bool = False) -> CompiledGraph:
        made: CompiledGraph = compile_it(half, inputs, options, observer, lone=lone, owned=owned, builds=builds)
        return made

    try:
        form = trained_in_any_size(gm, example_inputs, whole.fn, compile_half)
    except NotLowerable as reason:
        return replace(whole, notes=(f"the graph runs under eager autograd: {reason}",))
    finally:
        for thread in builds or ():
            thread.join()
        builds = None  # a half that is made later is built at once
    halves = (form.forward, *(half for half in form.backwards.values() if half is not None))
    kernels = tuple(
        replace(kernel, name=f"backward {kernel.name}" if k else kernel.name)
        for k, half in enumerate(halves)
        for kernel in half.kernels
    )
    if not kernels:
        return replace(whole, notes=("there is nothing in the graph to make a kernel of",))
    if not lone and not _pays(form, kernels):
        note = "with gradients, eager's kernels are as fast here: a function of our own costs autograd 30 us"
        return replace(whole, notes=(note,))
    return CompiledGraph(
        TrainedForms(form, example_inputs).call,
        kernels,
        "native",
        tuple(dict.fromkeys(note for half in halves for note in half.notes)),
        key(*(half.key for half in halves)),
        tuple(line for half in halves for line in half.schedule),
        "\n\n".join(half.wrapper for half in halves),
    )


@dataclass(frozen=True)
class _Printed:
    """A graph as text: the kernels, the file they are in (C only), and the wrapper."""

    plan: Plan
    kernels: tuple[Kernel, ...]
    file: CFile | None
    wrapper: Wrapper

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self.kernels else ("there is nothing in the graph to make a kernel of",)


@dataclass(frozen=True)
class _Maker:
    """Makes forms of one graph: text first, then machine code."""

    gm: GraphModule
    device: str
    whole: Form
    fast: bool
    lone: bool
    owned: bool
    watch: _Stopwatch

    def printed(self, inputs: Sequence[Any]) -> _Printed:
        self.watch.start("lowering")
        made = plan(self.gm, inputs, self._print, self.lone)
        kernels = tuple(kernel for _, kernel in made.launched)
        file = print_file(kernels, function, self.fast) if self.device == "cpu" else None
        wrapper = made.wrapper(self.owned)
        self.watch.lap("lowering", _count(len(kernels)))
        return _Printed(made, kernels, file, wrapper)

    def _print(self, kernel: Kernel) -> object:
        if self.device == "cpu":
            return print_kernel(kernel, kernel.name, function, self.fast)
        return print_triton(kernel, kernel.name)

    def is_built(self, printed: _Printed) -> bool:
        chain = toolchain()
        return printed.file is None or (chain is not None and chain.cached(printed.file.source, Store(), self.fast))

    def built(self, printed: _Printed, missed: list[str]) -> tuple[Form, bool, float]:
        """The form, whether its machine code was in the cache, and how long that took."""
        launched, hit = printed.plan.launched, False
        self.watch.start("building", ", ".join(kernel.name for kernel in printed.kernels))
        if printed.file is None:  # Triton compiles each kernel when it is first launched
            store = Store()
            launches = {name: gpu.triton_launch(kernel, store, self.device) for name, kernel in launched}
        else:
            chain = toolchain()
            assert chain is not None
            path, hit = chain.build(printed.file.source, Store(), self.fast)
            addresses = load(path, printed.file.entries, printed.file.symbols)
            launches = {
                name: launcher(Binary(kernel, at, printed.wrapper.keeps[name]))
                for (name, kernel), at in zip(launched, addresses, strict=True)
            }
        seconds = self.watch.lap("building", FROM_CACHE if hit else _count(len(launches)))
        scope = {**printed.wrapper.constants, **launches, "eager": self.whole, "MISS": MISS, "missed": missed}
        exec(compile(printed.wrapper.source, "<dynajit wrapper>", "exec"), scope)
        return scope["call"], hit, seconds

    def edit(self, printed: _Printed, forms: Forms, name: str, text: str) -> None:
        """Run a kernel of the first form by another C text from now on."""
        chain, file = toolchain(), printed.file
        assert chain is not None
        assert file is not None
        names = [kernel.name for kernel in printed.kernels]
        entry = file.entries[names.index(name)]
        source = file.source.replace(file.kernels[entry].bare, text)
        path, _ = chain.build(source, Store(), self.fast)
        addresses = load(path, file.entries, file.symbols)
        scope = forms.forms[0].__globals__
        for (launch, kernel), own, at in zip(printed.plan.launched, file.entries, addresses, strict=True):
            if own == entry:
                scope[launch] = launcher(Binary(kernel, at, printed.wrapper.keeps[launch]))

    def form(self, inputs: Sequence[Any], missed: list[str]) -> Form:
        """A further form, when a call fits none of those there are."""
        return self.built(self.printed(inputs), missed)[0]

    def described(self, printed: _Printed) -> CompiledGraph:
        infos: list[KernelInfo] = []
        file = printed.file
        for k, kernel in enumerate(printed.kernels):
            if file is not None:
                infos.append(_c_info(kernel, file, file.entries[k]))
            infos.append(_triton_info(kernel, launched=file is None))
        source = file.source if file is not None else "\n".join(info.source for info in infos)
        identity = key(source, printed.wrapper.source)
        report = tuple(printed.plan.schedule.report)
        return CompiledGraph(
            self.whole, tuple(infos), "native", (), identity, report, printed.wrapper.source, passes(printed.plan)
        )


def _count(kernels: int) -> str:
    return f"{kernels} kernel{'s' * (kernels != 1)}"


def _c_info(kernel: Kernel, file: CFile, entry: str) -> KernelInfo:
    printed = file.kernels[entry]
    return _info(kernel, "c", printed, True, "" if entry == kernel.name else f"the same code as {entry}")


def _triton_info(kernel: Kernel, launched: bool) -> KernelInfo:
    try:
        return _info(
            kernel, "triton", print_triton(kernel, kernel.name), launched, "" if launched else "what a GPU would run"
        )
    except NoSpelling as reason:
        return KernelInfo(kernel.name, "triton", "", False, note=str(reason))


def _info(kernel: Kernel, language: str, printed: CKernel | TritonKernel, launched: bool, note: str) -> KernelInfo:
    lines = tuple(
        (number, origin.position)
        for number, origin in enumerate(printed.origins, 1)
        if origin is not None and origin.position is not None
    )
    ops = tuple(dict.fromkeys(stmt.origin.text for stmt in kernel.body if stmt.origin is not None))
    reads, writes = (sum(map(_bytes, operands)) for operands in (kernel.inputs, kernel.outputs))
    places = tuple((number, origin.name) for number, origin in enumerate(printed.origins, 1) if origin is not None)
    nodes = tuple(dict.fromkeys(stmt.origin.name for stmt in kernel.body if stmt.origin is not None))
    return KernelInfo(kernel.name, language, printed.text, launched, lines, ops, reads, writes, note=note,
                      places=places, nodes=nodes)  # fmt: skip


def _bytes(operand: Operand) -> int:
    return operand.dtype.itemsize * operand.numel


class _Stopwatch:
    def __init__(self, observer: Observer | None) -> None:
        self.observer, self.since = observer, time.perf_counter()

    def start(self, stage: str, detail: str = "") -> None:
        self.since = time.perf_counter()
        if self.observer is not None:
            self.observer(stage, detail, None)

    def lap(self, stage: str, detail: str) -> float:
        seconds = time.perf_counter() - self.since
        if self.observer is not None:
            self.observer(stage, detail, seconds)
        return seconds
