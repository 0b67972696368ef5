"""From the graph of a trace to a callable: the backend, and what must hold when the graph fails."""

from __future__ import annotations

import linecache
import os
import traceback
import weakref
from collections.abc import Sequence
from dataclasses import replace
from types import CodeType
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.fx import graph_module

from dynajit import events, frame
from dynajit.backends import FROM_CACHE, CompiledGraph, compile_graph
from dynajit.graph import meta as metas
from dynajit.graph.demands import demand
from dynajit.options import Options
from dynajit.records import GraphRecord
from dynajit.report import Stage
from dynajit.rewrite import body
from dynajit.symbol import TEXTS
from dynajit.trace import Trace
from dynajit.values import ambient

_EAGER = Options(backend="eager")
_GRAPH_OWNERS: dict[int, weakref.ref[CodeType]] = {}
# Files of PyTorch whose functions have no effect but on what they return.
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_PLAIN = ("nn/", "masked/", "backends/", "_refs/", "_prims_common/", "functional.py", "_tensor.py", "_ops.py",
          "_jit_internal.py", "_VF.py", "_linalg_utils.py", "_lowrank.py", "_utils.py")  # fmt: skip
_OPERATIONS = tuple(_TORCH + name.replace("/", os.sep) for name in _PLAIN)
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep  # of which only such functions are captured
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


class BackendFailedError(Exception):
    """A backend that the user passed raised `error`: it is the user's to see."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Watch:
    """Hears the stages of one compilation: events for observers, and `stages` for the report.

    Kernels that are built beside the program end after the others.
    """

    def __init__(self, root: CodeType) -> None:
        self.root = root
        self.stages: list[Stage] = []

    def __call__(self, stage: str, detail: str, seconds: float | None) -> None:
        if seconds is None:
            events.emit(events.StageStarted(self.root, stage, detail))
            return
        self.stages.append(Stage(stage, detail, seconds, detail == FROM_CACHE))
        events.emit(events.StageEnded(self.root, stage, seconds, detail))


def build_graph(trace: Trace, made: body.Draft, options: Options, root: CodeType, observe: Watch) -> GraphRecord | None:
    """Hand the captured graph to the backend."""
    graph: fx.Graph = trace.graph
    for node in reversed(graph.nodes):  # arithmetic of numbers that only guards depend on
        if _is_number(node) and not node.users and node not in made.outputs:
            graph.erase_node(node)
    operations = [node for node in graph.nodes if node.op != "placeholder"]
    if not operations:
        return None
    before, after = _graph_modes(trace, operations)
    if before != after:
        graph.call_function(torch._C._set_grad_enabled, (before,))
    graph.output(tuple(made.outputs))
    examples = []
    for node, example in zip(trace.placeholders, trace.examples, strict=True):
        if node.users:
            examples.append(example)
        else:
            graph.erase_node(node)
    module = fx.GraphModule(torch.nn.Module(), graph)
    frame.hide(module.forward.__func__.__code__)  # type: ignore[attr-defined]

    with ambient.random_kept():
        compiled = _backend(module, examples, options, observe, root)
    switches = any(node.target in ambient.SWITCHES for node in operations)
    seeds = any(node.target in ambient.SEEDS or node.target is demand for node in operations)
    fn = _restoring_modes(compiled.fn, seeds) if switches or seeds else compiled.fn
    call = frame.GraphCall(fn, _is_pure(operations, seeds), root.co_qualname)
    _GRAPH_OWNERS[id(call)] = weakref.ref(root)
    record = GraphRecord(_describe_nodes(operations), module.code, compiled, call)
    weakref.finalize(record, _GRAPH_OWNERS.pop, id(call), None).atexit = False
    weakref.finalize(module, _forget_source, module.forward.__func__.__code__.co_filename).atexit = False  # type: ignore[attr-defined]
    return record


def _forget_source(filename: str) -> None:
    """torch.fx keeps the text of every graph module for tracebacks, and never lets go of it."""
    linecache.cache.pop(filename, None)
    graph_module._loader.eval_cache.pop(filename, None)


def _backend(
    module: fx.GraphModule, examples: Sequence[Any], options: Options, observe: Any, root: CodeType
) -> CompiledGraph:
    """What the backend makes of the graph. A fault of one of ours leaves the graph to eager kernels, and says so."""
    try:
        return compile_graph(module, examples, options, observe)
    except Exception as error:
        if not isinstance(options.backend, str):
            raise BackendFailedError(error) from error
        if os.environ.get("DYNAJIT_STRICT"):
            raise
        text = f"{type(error).__name__}: {error}"
        events.emit(events.StageEnded(root, "fallback", 0.0, text))
        note = f"the backend {options.backend!r} failed, eager kernels run this graph: {text}"
        return replace(compile_graph(module, examples, _EAGER, observe), notes=(note,))


def _is_number(node: fx.Node) -> bool:
    """Whether it computes a number from sizes and numbers, which may be left out where nobody asks."""
    pure = node.target in TEXTS or (node.op == "call_method" and node.target == "size")
    return pure and isinstance(node.meta.get("val"), (int, float))


def _graph_modes(trace: Trace, operations: Sequence[fx.Node]) -> tuple[bool, bool]:
    """Grad mode before the graph, and after its last operation."""
    mode = trace.grad_mode[0]
    for node in operations:
        if node.target is torch._C._set_grad_enabled:
            mode = node.args[0]  # type: ignore[assignment]
    return trace.grad_mode[0], mode


def _restoring_modes(fn: Any, random: bool) -> Any:
    """A graph that switches modes must not leave them switched when it fails half way. random: nor the random state."""

    def run(*args: Any) -> Any:
        modes = ambient.modes(random)
        try:
            return fn(*args)
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)  # what they hold may be a mode, too
            ambient.restore(modes)
            raise

    frame.hide(run.__code__)
    return run


def _is_pure(operations: Sequence[fx.Node], random_kept: bool) -> bool:
    """Whether the graph can be run again from the start when it fails: it writes to nothing and draws no numbers, or
    the random state is put back."""
    for node in operations:
        if node.meta.get("writes") or "out" in node.kwargs:
            return False
        if (node.meta.get("random") or metas.name_of(node.target) in metas.RANDOM) and not random_kept:
            return False
        draws = metas.name_of(node.target) in metas.RANDOM
        if (node.kwargs.get("training") is True and not draws) or metas.name_of(node.target) == "batch_norm":
            return False
    return True


def _describe_nodes(operations: Sequence[fx.Node]) -> tuple[Any, ...]:
    rows = []
    for node in operations:
        val = node.meta.get("val")
        shape = f"{str(val.dtype).removeprefix('torch.')}{list(val.shape)}" if isinstance(val, torch.Tensor) else ""
        target = node.target if isinstance(node.target, str) else metas.name_of(node.target)
        rows.append((node.name, node.op, target, tuple(n.name for n in node.all_input_nodes),
                     node.meta.get("position"), shape))  # fmt: skip
    return tuple(rows)


# ---- when it is compiled again ----
def observe_frames(what: str, subject: Any, detail: Any) -> bool | None:
    """The frame hook tells of what it does on its own, and asks whether a graph that raised may run again."""
    if what == "graph raised":
        return not _ran_other_code(detail)
    if what == "graph failed" and isinstance(subject, frame.GraphCall):
        code = _GRAPH_OWNERS.get(id(subject), lambda: None)()
        if code is not None:
            events.emit(events.GraphFailed(code, f"{type(detail).__name__}: {detail}"))
    return None


def _ran_other_code(error: BaseException) -> bool:
    """Whether Python code that may do anything was running: hooks on saved tensors, a user's Function or operator."""
    for entry, _ in traceback.walk_tb(error.__traceback__):
        filename = entry.f_code.co_filename
        if not filename.startswith(("<eval_with_key>", _OWN, _NUMPY, *_OPERATIONS)):
            return True
    return False
