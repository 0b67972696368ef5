"""Our own kernels: C on the CPU, Triton on CUDA devices."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import GraphModule

from dynajit.backends.base import CompiledGraph, KernelInfo, Observer, backend
from dynajit.backends.eager import eager
from dynajit.backends.forms import MISS, Form, Forms
from dynajit.caching.key import key
from dynajit.caching.store import Store
from dynajit.codegen.c import print_kernel
from dynajit.codegen.c_file import CFile, print_file
from dynajit.codegen.kernel import Kernel, Operand
from dynajit.codegen.plan import Plan, plan
from dynajit.codegen.text import NoSpelling
from dynajit.codegen.triton import print_triton
from dynajit.errors import ToolchainError
from dynajit.lower.from_fx import NotLowerable, device_of
from dynajit.lower.ir import Origin
from dynajit.options import Options
from dynajit.runtime import gpu
from dynajit.runtime.fast_launch import launcher
from dynajit.runtime.launch import Binary, Launch
from dynajit.runtime.load import load
from dynajit.runtime.mathlib import function
from dynajit.runtime.toolchain import toolchain


@backend("native")
def native(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    observer: Observer | None = None,
    *,
    lone: bool = False,
) -> CompiledGraph:
    """lone: make a kernel of a single operation, too, where eager's own would do (for tests)."""
    whole = replace(eager(gm, example_inputs, options, observer), backend="native")
    try:
        device = device_of(example_inputs)
        why = _reason_against(gm, example_inputs, device)
        if why:
            return replace(whole, notes=(why,))
        made: list[CompiledGraph] = []

        def make(inputs: Sequence[Any], missed: list[str]) -> Form:
            made.append(_compile(gm, inputs, device, whole.fn, missed, observer, lone, options.numerics == "fast"))
            return made[-1].fn

        forms = Forms(whole.fn, make)
        forms.add(example_inputs)
    except NotLowerable as reason:
        return replace(whole, notes=(str(reason),))
    except ToolchainError as error:
        return replace(whole, notes=(f"the kernels could not be built, so eager's run: {error}",))
    if not made[0].kernels:
        return replace(whole, schedule=made[0].schedule, notes=("there is nothing in the graph to make a kernel of",))
    return replace(made[0], fn=forms.call)


@backend("auto")
def auto(
    gm: GraphModule, example_inputs: Sequence[Any], options: Options, observer: Observer | None = None
) -> CompiledGraph:
    """The best there is for these inputs: native, which itself runs the graph as it stands where it must."""
    return native(gm, example_inputs, options, observer)


def _reason_against(gm: GraphModule, example_inputs: Sequence[Any], device: str) -> str:
    """Why a graph must not be lowered; empty if it may."""
    if device == "cpu" and toolchain() is None:
        return "no C compiler was found (gcc, clang, or what DYNAJIT_CC names): the graph runs with eager's kernels"
    if device == "cuda" and not gpu.available():
        return "Triton is not installed: the graph runs with eager's kernels"
    if device not in ("cpu", "cuda"):
        return f"there is no printer for {device} devices: the graph runs with eager's kernels"
    if torch.is_autocast_enabled(device):
        return "autocast is on: the graph runs as it stands"
    grads = any(isinstance(x, torch.Tensor) and x.requires_grad for x in example_inputs)
    if grads and (torch.is_grad_enabled() or any(n.target is torch._C._set_grad_enabled for n in gm.graph.nodes)):
        return "inputs require gradients: the graph runs under eager autograd"
    return ""


def _compile(
    gm: GraphModule,
    inputs: Sequence[Any],
    device: str,
    whole: Form,
    missed: list[str],
    observer: Observer | None,
    lone: bool,
    fast: bool,
) -> CompiledGraph:
    """One form of the graph. Its fn returns MISS for arguments that its kernels do not fit."""
    watch = _Stopwatch(observer)
    if device == "cpu":
        planned = plan(gm, inputs, lambda kernel: print_kernel(kernel, kernel.name, function, fast), lone)
    else:
        planned = plan(gm, inputs, lambda kernel: print_triton(kernel, kernel.name), lone)
    watch.lap("lowering", f"{len(planned.kernels)} kernels")
    built = _build_c(planned, watch, fast) if device == "cpu" else _build_triton(planned, device)
    wrapper = planned.wrapper()
    scope = {**wrapper.constants, **built.launches, "eager": whole, "MISS": MISS, "missed": missed}
    exec(compile(wrapper.source, "<dynajit wrapper>", "exec"), scope)
    report = tuple(planned.schedule.report)
    identity = key(built.source, wrapper.source)
    return CompiledGraph(scope["call"], built.infos, "native", (), identity, report, wrapper.source)


@dataclass(frozen=True)
class _Built:
    source: str
    launches: dict[str, Launch]
    infos: tuple[KernelInfo, ...]


def _build_c(planned: Plan, watch: _Stopwatch, fast: bool) -> _Built:
    kernels = [kernel for _, kernel in planned.launched]
    file = print_file(kernels, function, fast)
    if not kernels:
        return _Built("", {}, ())
    chain = toolchain()
    assert chain is not None
    path, hit = chain.build(file.source, Store(), fast)
    addresses = load(path, file.entries, file.symbols)
    seconds = watch.lap("building", "from the cache" if hit else f"{len(file.source)} characters of C")
    launches = {
        name: launcher(Binary(kernel, address))
        for (name, kernel), address in zip(planned.launched, addresses, strict=True)
    }
    infos = [_c_info(kernel, file, entry, seconds, hit) for kernel, entry in zip(kernels, file.entries, strict=True)]
    shown = [_triton_info(kernel, launched=False) for kernel in kernels]
    return _Built(file.source, launches, tuple(info for pair in zip(infos, shown, strict=True) for info in pair))


def _build_triton(planned: Plan, device: str) -> _Built:
    """Triton compiles each kernel when it is first launched."""
    store = Store()
    launches = {name: gpu.triton_launch(kernel, store, device) for name, kernel in planned.launched}
    infos = tuple(_triton_info(kernel, launched=True) for _, kernel in planned.launched)
    return _Built("\n".join(info.source for info in infos), launches, infos)


def _c_info(kernel: Kernel, file: CFile, entry: str, seconds: float, hit: bool) -> KernelInfo:
    printed = file.kernels[entry]
    note = "" if entry == kernel.name else f"the same code as {entry}"
    return _info(kernel, "c", printed.text, printed.origins, True, seconds, hit, note)


def _triton_info(kernel: Kernel, launched: bool) -> KernelInfo:
    try:
        printed = print_triton(kernel, kernel.name)
    except NoSpelling as reason:
        return _info(kernel, "triton", "", (), False, 0.0, False, str(reason))
    note = "" if launched else "what a GPU would run"
    return _info(kernel, "triton", printed.text, printed.origins, launched, 0.0, False, note)


def _info(
    kernel: Kernel,
    language: str,
    text: str,
    origins: Sequence[Origin | None],
    launched: bool,
    seconds: float,
    hit: bool,
    note: str,
) -> KernelInfo:
    lines = tuple((n, o.position) for n, o in enumerate(origins, 1) if o is not None and o.position is not None)
    ops = tuple(dict.fromkeys(stmt.origin.text for stmt in kernel.body if stmt.origin is not None))
    reads, writes = (sum(map(_bytes, operands)) for operands in (kernel.inputs, kernel.outputs))
    return KernelInfo(kernel.name, language, text, launched, lines, ops, reads, writes, seconds, hit, note)


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
