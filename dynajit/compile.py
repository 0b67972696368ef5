"""The page where everything meets: from a call that no entry fits to a cache entry, one named step per line."""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.autograd import forward_ad
from torch.fx import graph_module

from dynajit import content, events, frame, reasons
from dynajit.backends import FROM_CACHE, CompiledGraph, compile_graph
from dynajit.bytecode import NOWHERE, Position
from dynajit.bytecode.flow import reachable, successors
from dynajit.errors import CompileError, InternalError, Skip
from dynajit.evaluate import Machine
from dynajit.evaluate.plan import Plan, Replan
from dynajit.evaluate.program import Program, program_of
from dynajit.evaluate.skip import is_library
from dynajit.graph import meta as metas
from dynajit.guards.build import build
from dynajit.guards.explain import current, failing, found_words, words
from dynajit.guards.guard import Guard, changed_dims
from dynajit.marks import function_mark
from dynajit.options import Options
from dynajit.records import Break, CacheEntry, GraphRecord, Record, record_of
from dynajit.report import Stage
from dynajit.rewrite import body
from dynajit.rewrite.reload import NotRebuildable
from dynajit.source import Call, Known, Size
from dynajit.stance import CURRENT
from dynajit.symbol import TEXTS, is_number
from dynajit.trace import Broke, Trace
from dynajit.values import ambient

_COMPILING = threading.RLock()  # tracing switches process-wide settings (the warning filters)
MAX_RETRIES = 8
SAMPLES = 12


class BackendFailedError(Exception):
    """A backend that the user passed raised `error`: it is the user's to see."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def on_miss(func: FunctionType, args: tuple[Any, ...], options: Options) -> frame.Entry | None:
    """No entry of `func` fits this call. Returns one that does, or None: the frame runs as it is."""
    code = func.__code__
    program = program_of(code)
    root = program.resumed.program.original if program.resumed is not None else code
    record = record_of(root)
    if id(code) in record.full or _is_ambient() or not _may_compile(func, args, options):
        return None
    if not record.explicit and program.resumed is None:
        if is_library(code):
            frame.skip(code)
            return None
        if _is_importing():
            return None
    try:
        with _COMPILING, _unhooked():
            return _made_meanwhile(func, args, options) or _compile(func, args, options, program, record)
    except Skip as error:
        _skip(code, record, error.reason.title, error.detail)
        events.emit(events.FrameSkipped(root, error.reason.code, error.detail))
    except (CompileError, KeyboardInterrupt) as error:
        raise error.with_traceback(None) from None  # the way through the compiler tells the user nothing
    except BackendFailedError as failed:
        raise failed.error from None
    except Exception as error:
        _internal(code, root, record, error)
    return None


frame.hide(on_miss.__code__)


def _may_compile(func: FunctionType, args: tuple[Any, ...], options: Options) -> bool:
    """Whether the stance allows it. Raises `CompileError` where it asks for that."""
    stance = CURRENT.name
    if stance == "default":
        return True
    mine = [entry for entry in frame.entries(func.__code__) if entry.options is options]
    if stance == "cached_only" or (stance == "eager_on_recompile" and mine):
        return False
    if stance == "fail_on_recompile" and mine:
        found = failing(mine[0].owner.built, func, args)
        text = (
            f"{words(found[0])}; now {found_words(*found)}" if found is not None and found[0] is not None else "a guard"
        )
        where = f"{func.__code__.co_filename}:{func.__code__.co_firstlineno}"
        what = f"{func.__qualname__} would be compiled again: {text}"
        raise CompileError(
            "capture", where, what, 'set_stance("default") compiles it; mark_dynamic makes a size symbolic'
        )
    return True


@contextlib.contextmanager
def _unhooked() -> Iterator[None]:
    """Hooks on saved tensors (those of checkpointing, too) must not hear of meta tensors."""
    before = torch._C._autograd._saved_tensors_hooks_set_tracing(True)
    try:
        yield
    finally:
        torch._C._autograd._saved_tensors_hooks_set_tracing(before)


def _is_importing() -> bool:
    """Whether a module is being imported on this thread: what runs then runs once."""
    here: Any = sys._getframe(1)
    while here is not None:
        if here.f_code.co_filename.startswith("<frozen importlib"):
            return True
        here = here.f_back
    return False


def _made_meanwhile(func: FunctionType, args: tuple[Any, ...], options: Options) -> frame.Entry | None:
    """The entry that another thread made while this one waited."""
    for entry in frame.entries(func.__code__):
        if entry.options is options and entry.check.run(func, args) is not None:
            return entry
    return None


def _skip(code: CodeType, record: Record, title: str, detail: str) -> None:
    frame.skip(code)
    record.status, record.reason = "eager", f"{title}: {detail}" if detail else title


def _internal(code: CodeType, root: CodeType, record: Record, error: Exception) -> None:
    """A fault of ours must not become the user's: the frame runs eagerly, and says so."""
    text = "".join(traceback.format_exception(error))
    record.error = text
    if os.environ.get("DYNAJIT_STRICT"):
        where = f"{root.co_filename}:{root.co_firstlineno}"
        raise InternalError("capture", where, f"{type(error).__name__}: {error}", "report this") from error
    _skip(code, record, reasons.INTERNAL.title, f"{type(error).__name__}: {error}")
    events.emit(events.FrameSkipped(root, reasons.INTERNAL.code, text))


# Which level of forward-mode derivatives this thread is at; -1 for none.
_forward_level = functools.partial(getattr, forward_ad, "_current_level")


def _is_ambient() -> bool:
    """Modes that change what every operation does are not captured."""
    return bool(
        _forward_level() >= 0
        or torch._C._len_torch_function_stack()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._get_tracing_state() is not None
    )


def _compile(
    func: FunctionType, args: tuple[Any, ...], options: Options, program: Program, record: Record
) -> frame.Entry | None:
    code = func.__code__
    mine = [e for e in frame.entries(code) if e.options is options]
    if not mine:
        kept = content.restore(func, args, options, record)
        if kept is not None:
            return kept
    cause = _explain_miss(func, args, mine, record, options)
    if len([e for e in frame.entries(code) if e.options is options]) >= options.limit:
        _give_up(code, record, options)
        return None
    root = record.code()
    assert root is not None
    events.emit(events.CaptureStarted(root))
    watch = _Watch(root)
    watch("capture", "", None)
    started = time.perf_counter()
    trace, made = _capture(func, args, options, program, record)
    watch("capture", f"{len(trace.visited)} lines", time.perf_counter() - started)
    if options.fullgraph and isinstance(trace.end, Broke):
        if trace.end.reason is reasons.UNCAUGHT:
            return None  # the user's own error: Python raises it
        raise _broke_error(func, trace.end)
    graph = _compile_graph(trace, made, options, root, watch)
    compiled = time.perf_counter()
    watch("guards", "", None)
    replacement, inputs = body.assemble(made, graph.call if graph is not None else None, _first_position(trace))
    built = build(_ordered([*trace.guards, _ambient_guard(trace)]), inputs)
    watch("guards", f"{len(trace.guards)} guards", time.perf_counter() - compiled)
    kept_entry = _record_entry(program, trace, graph, built, watch.stages, replacement)
    kept_entry.cause, kept_entry.check_seconds = cause, _check_seconds(built.check, func, args)
    entry = frame.Entry(built.check, replacement, options, isinstance(trace.end, Broke), kept_entry)
    kept_entry.entry = entry
    record.entries.append(kept_entry)
    if code is not root:
        record.extra.append(weakref.ref(code))
    frame.add(code, entry)
    content.keep(func, options, entry, record)
    if graph is not None and events.are_heard():
        graph.sample(SAMPLES)  # somebody watches: the first runs are timed
    events.emit(events.EntryAdded(root, len(record.entries), kept_entry))
    return entry


def _capture(
    func: FunctionType, args: tuple[Any, ...], options: Options, program: Program, record: Record
) -> tuple[Trace, body.Draft]:
    """Evaluate the frame. A value that cannot be made again moves the break to where it was made."""
    force: set[int] = set()
    chains = True
    plan = _plan(func, options, program, record)
    for _ in range(MAX_RETRIES):
        trace = _evaluate(func, args, plan, frozenset(force), options, chains)
        try:
            return trace, body.draft(func, program, trace)
        except NotRebuildable as error:
            if isinstance(trace.end, Broke) and trace.end.chain:
                chains = False  # what the inlined functions hold cannot be rebuilt: break before the call
                continue
            at = trace.born.get(error.key) if error.key is not None else None
            if at is None or at in force:
                raise Skip(reasons.NO_OPERATION, f"rebuilding {error.detail}") from None
            force.add(at)
    raise Skip(reasons.NO_OPERATION, "values that cannot be rebuilt")


def _plan(func: FunctionType, options: Options, program: Program, record: Record) -> Plan:
    """What is symbolic: what differed between calls, and what the options say."""
    if options.dynamic is False:
        return Plan()
    return Plan(
        record.numbers.get(id(func.__code__), ()), record.sizes.get(id(func.__code__)),
        every_number=options.dynamic is True or _goes_round(program), every_size=options.dynamic is True,
    )  # fmt: skip


def _evaluate(
    func: FunctionType, args: tuple[Any, ...], plan: Plan, force_break: frozenset[int], options: Options, chains: bool
) -> Trace:
    """One evaluation with which the plan agrees.

    A program that asks whether it is compiled goes eager's way, so that its results are eager's, unless the other way
    needs fewer breaks.
    """
    while True:
        try:
            machine, trace = _run(func, args, plan, force_break, options, chains, says_compiling=False)
            if not machine.asked_whether_compiling or not isinstance(trace.end, Broke):
                return trace
            _, other = _run(func, args, plan, force_break, options, chains, says_compiling=True)
            further = not isinstance(other.end, Broke) or _operations(other) > _operations(trace)
            return other if further else trace
        except Replan:
            continue


def _run(
    func: FunctionType, args: tuple[Any, ...], plan: Plan, force_break: frozenset[int], options: Options, chains: bool,
    says_compiling: bool,
) -> tuple[Machine, Trace]:  # fmt: skip
    machine = Machine(func, args, force_break=force_break, mark_of=function_mark, plan=plan,
                      unbacked_sizes=options.fullgraph, chains=chains, says_compiling=says_compiling)  # fmt: skip
    return machine, machine.run()


def _operations(trace: Trace) -> int:
    return sum(node.op != "placeholder" for node in trace.graph.nodes)


def _goes_round(program: Program) -> bool:
    """Whether a resume function starts inside a loop: numbers that it is handed change from turn to turn."""
    if program.resumed is None:
        return False
    root, at = program.resumed.program, program.resumed.at
    follow = successors(root.code)
    return at in reachable(root.code, follow[at])


class _Watch:
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


def _check_seconds(check: Any, func: FunctionType, args: tuple[Any, ...]) -> float:
    """What looking at the guards costs each call: the best of a few."""
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        check.run(func, args)
        best = min(best, time.perf_counter() - started)
    return best


def _compile_graph(
    trace: Trace, made: body.Draft, options: Options, root: CodeType, observe: _Watch
) -> GraphRecord | None:
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

    compiled = _backend(module, examples, options, observe, root)
    switches = any(node.target in ambient.SWITCHES for node in operations)
    seeds = any(node.target in ambient.SEEDS for node in operations)
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


_EAGER = Options(backend="eager")


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
        if node.kwargs.get("training") is True or metas.name_of(node.target) == "batch_norm":
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


def _first_position(trace: Trace) -> Position:
    for node in trace.graph.nodes:
        origin = node.meta.get("position")
        if node.op != "placeholder" and origin is not None and not origin.callers:
            return origin.position  # type: ignore[no-any-return]
    return NOWHERE


def _ambient_guard(trace: Trace) -> Guard:
    state = (
        (torch.is_grad_enabled, trace.grad_mode[0]),
        (torch.is_inference_mode_enabled, torch.is_inference_mode_enabled()),
        *_autocast_state(),
        (torch._C._len_torch_function_stack, 0),
        (_forward_level, -1),
        (torch._C._len_torch_dispatch_stack, 0),
        (torch.get_default_dtype, torch.get_default_dtype()),
    )
    return Guard(Known(None), "STATE", state)


def _autocast_state() -> tuple[tuple[Any, Any], ...]:
    if not torch._C._is_any_autocast_enabled():
        return ((torch._C._is_any_autocast_enabled, False),)
    return ((ambient.current_autocast, ambient.current_autocast()),)


def _ordered(guards: Sequence[Guard]) -> list[Guard]:
    """The ambient state is looked at first: it costs least and decides most."""
    return sorted(guards, key=lambda guard: guard.kind != "STATE")


def _record_entry(
    program: Program, trace: Trace, graph: GraphRecord | None, built: Any, stages: list[Stage], code: CodeType
) -> CacheEntry:
    end = trace.end
    stop = Break(end.position.line, end.reason, end.detail, end.where) if isinstance(end, Broke) else None
    return CacheEntry(_start_line(program), stop, tuple(trace.guards), built, graph, trace.visited, stages, code)


def _start_line(program: Program) -> int | None:
    """The line where a resume function takes over; None for the function itself."""
    if program.resumed is None:
        return None
    rest = program.resumed.program.body[program.resumed.at :]
    lines = (getattr(item, "position", NOWHERE).line for item in rest)
    return next((line for line in lines if line is not None), None)


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


_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_PLAIN = ("nn/", "masked/", "backends/", "_refs/", "_prims_common/", "functional.py", "_tensor.py", "_ops.py",
          "_jit_internal.py", "_VF.py", "_linalg_utils.py", "_lowrank.py", "_utils.py")  # fmt: skip
_OPERATIONS = tuple(_TORCH + name.replace("/", os.sep) for name in _PLAIN)
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _ran_other_code(error: BaseException) -> bool:
    """Whether Python code that may do anything was running: hooks on saved tensors, a user's Function or operator."""
    for entry, _ in traceback.walk_tb(error.__traceback__):
        filename = entry.f_code.co_filename
        if not filename.startswith(("<eval_with_key>", _OWN, *_OPERATIONS)):
            return True
    return False


_GRAPH_OWNERS: dict[int, weakref.ref[CodeType]] = {}


def _explain_miss(
    func: FunctionType, args: tuple[Any, ...], mine: Sequence[frame.Entry], record: Record, options: Options
) -> str:
    """Why no entry fits; numbers that differ become symbolic, entries of replaced functions are freed."""
    code, cause = func.__code__, ""
    for entry in mine:
        kept = entry.owner
        assert isinstance(kept, CacheEntry)
        found = failing(kept.built, func, args)
        if found is None or found[0] is None:
            continue
        guard, value = found
        assert guard is not None
        text = f"{words(guard)}; now {found_words(guard, value)}"
        count, _ = record.failed.get(words(guard), (0, ""))
        record.failed[words(guard)] = (count + 1, found_words(guard, value))
        record.failed_at[words(guard)] = time.time()
        if entry is mine[0]:
            cause = text
            record.recompiles.append(text)
            events.emit(events.GuardFailed(code, text))
        if guard.kind in ("EQUALS", "TENSOR"):
            _note_changes(kept.guards, func, args, record)
        if guard.kind in ("CODE", "CLASS_ATTR") or (guard.kind == "IS" and isinstance(guard.expected, type)):
            frame.remove(code, entry)  # what it inlined was replaced
            if kept in record.entries:
                record.entries.remove(kept)
    return cause


def _note_changes(guards: Sequence[Guard], func: FunctionType, args: tuple[Any, ...], record: Record) -> None:
    """Every number and every size that is not what an entry expects: they are likely to change together."""
    numbers = record.numbers.setdefault(id(func.__code__), set())
    sizes = record.sizes.setdefault(id(func.__code__), {})
    for guard in guards:
        if guard.kind == "EQUALS" and is_number(guard.expected):
            value = current(guard.source, func, args)
            if type(value) is type(guard.expected) and value != guard.expected:
                if isinstance(guard.source, Size):  # it was symbolic; the program depends on its value
                    continue
                numbers.add(guard.source)
        elif isinstance(guard.source, Call) and guard.source.function is np.generic.tobytes:
            value = current(guard.source.base, func, args)
            if is_number(value) and value.tobytes() != guard.expected:
                numbers.add(guard.source.base)
        elif guard.kind == "TENSOR":
            changed = changed_dims(guard.expected, current(guard.source, func, args))
            if changed:
                sizes[guard.source] = sizes.get(guard.source, frozenset()) | changed


def _give_up(code: CodeType, record: Record, options: Options) -> None:
    record.full.add(id(code))
    worst = max(record.failed.items(), key=lambda item: item[1][0], default=("", (0, "")))[0]
    record.status, record.reason = "eager", f"{reasons.LIMIT.title} ({options.limit} entries); failing guard: {worst}"
    events.emit(events.LimitReached(code, options.limit, worst))


def _broke_error(func: FunctionType, end: Broke) -> CompileError:
    filename, line = end.where or (func.__code__.co_filename, end.position.line or 0)
    detail = f" ({end.detail})" if end.detail else ""
    what = (
        f"fullgraph=True, but {end.reason.title}{detail} breaks the graph [{end.reason.code}]. {end.reason.explanation}"
    )
    return CompileError("capture", f"{filename}:{line}", what, end.reason.hint)
