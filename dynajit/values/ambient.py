"""State of PyTorch that contexts change for a while: autocast, inference mode, and contexts that only others notice.

Entering and leaving are operations of the graph. Where the graph ends inside, it leaves the contexts that are open, and
the replacement makes and enters real ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.autograd import grad_mode

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.source import Attr, Source
from dynajit.values.base import Emitter, Handle, Tracer, Value
from dynajit.values.constant import Constant
from dynajit.values.wrap import kind

KEY = 0  # of the heap: no handle has it


@dataclass(frozen=True)
class Ambient:
    """autocast: (enabled, dtype) of each kind of device. cache: whether casts of weights are kept.

    nesting: whether each autocast region that was entered here is one in the graph, too. left: how many were left that
    were entered before. flags: settings that were changed, by what reads them. grad: the grad mode outside of
    inference mode. open: contexts entered, outermost first. muted: whether PyTorch asks no class how it handles its
    functions. modes: the modes that are asked instead, innermost last.
    """

    autocast: Mapping[str, tuple[bool, torch.dtype]]
    cache: bool
    inference: bool
    grad: bool
    nesting: tuple[bool, ...] = ()
    left: int = 0
    flags: Mapping[Any, Any] = field(default_factory=dict)
    gradients: Mapping[Any, Value] = field(default_factory=dict)
    open: tuple[TorchContext, ...] = ()
    muted: bool = False
    modes: tuple[Value, ...] = ()

    @property
    def casts(self) -> bool:
        """Whether autocast is on; then Python functions of operations are evaluated, not recorded."""
        return any(enabled for enabled, _ in self.autocast.values())

    def casts_to(self, device: str) -> torch.dtype | None:
        enabled, dtype = self.autocast.get(device, (False, None))
        return dtype if enabled else None


DEVICES = ("cpu", "cuda")


def current_autocast() -> tuple[Any, ...]:
    """What a guard of a region under autocast compares."""
    modes = tuple((torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in DEVICES)
    return (*modes, torch.is_autocast_cache_enabled())


def nesting() -> int:
    """How many autocast regions this thread is in."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


# Settings of attention kernels: what reads each, and what changes it.
_KERNELS = ("flash", "mem_efficient", "math", "cudnn", "overrideable")
FLAGS: dict[Any, Any] = {
    getattr(torch._C, f"_get_{name}_sdp_enabled"): getattr(torch._C, f"_set_sdp_use_{name}") for name in _KERNELS
}
FLAGS[torch._C._get_sdp_priority_order] = torch._C._set_sdp_priority_order

# What changes a mode of this thread.
SWITCHES = frozenset({
    *FLAGS.values(),
    torch._C._set_grad_enabled, torch.set_autocast_enabled, torch.set_autocast_dtype, torch.set_autocast_cache_enabled,
    torch.autocast_increment_nesting, grad_mode._enter_inference_mode,
})  # fmt: skip


# What sets the state that random numbers are made from.
SEEDS = frozenset({torch.manual_seed, torch.seed, torch.set_rng_state})


def modes(random: bool) -> tuple[Any, ...]:
    """What `restore` needs. random: with the random state."""
    flags = tuple(read() for read in FLAGS)
    return flags, _random_state() if random else None, torch.is_grad_enabled(), nesting(), *current_autocast()


_cuda: Any = torch.cuda


def _random_state() -> tuple[Any, ...]:
    return torch.get_rng_state(), torch.cuda.get_rng_state_all() if _cuda.is_initialized() else None


@contextlib.contextmanager
def random_kept() -> Iterator[None]:
    """What happens inside may draw random numbers, and the program shall draw those that it draws without it."""
    before = torch.get_rng_state()
    try:
        yield
    finally:
        if not torch.equal(before, torch.get_rng_state()):
            torch.set_rng_state(before)


def restore(kept: tuple[Any, ...]) -> None:
    flags, random, grad, depth, *devices, cache = kept
    for change, value in zip(FLAGS.values(), flags, strict=True):
        change(value)
    if random is not None:
        torch.set_rng_state(random[0])
        if random[1] is not None:
            torch.cuda.set_rng_state_all(random[1])
    torch._C._set_grad_enabled(grad)
    for name, (enabled, dtype) in zip(DEVICES, devices, strict=True):
        torch.set_autocast_enabled(name, enabled)
        torch.set_autocast_dtype(name, dtype)
    torch.set_autocast_cache_enabled(cache)
    while nesting() > depth:
        torch.autocast_decrement_nesting()
    if depth == 0:
        torch.clear_autocast_cache()


def current() -> Ambient:
    """The state of this thread."""
    *modes, cache = current_autocast()
    return Ambient(
        dict(zip(DEVICES, modes, strict=True)), cache, torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    )


def state(m: Tracer) -> Ambient:
    found: Ambient = m.heap[KEY]
    return found


@dataclass(frozen=True, eq=False)
class TorchContext(Handle):
    """make: what makes a real one, with these arguments. Contents: while it is entered, the state to go back to."""

    make: Any
    args: tuple[Any, ...]

    kind = "context"

    def python_type(self) -> type:
        return self.make if isinstance(self.make, type) else object

    def getattr(self, m: Tracer, name: str) -> Value:
        if name in ("__enter__", "__exit__"):
            return TorchContextMethod(self, name)
        if name == "mode" and self.make is grad_mode.inference_mode:
            return Constant(self.args[0])
        if name == "clone" and self.make is grad_mode.inference_mode:
            return TorchContextMethod(self, name)
        self.missing(f"attribute {name!r}")

    def enter(self, m: Tracer) -> Value:
        if m.heap[self.key] is not None:
            self.missing("entering again")
        if state(m).modes:
            self.missing("entering in a mode of your own")
        before = state(m)
        before = replace(before, grad=m.grad_mode)
        after, node = ENTER[self.make](m, before, *self.args)
        m.heap.put(self.key, (before, node))
        m.heap.put(KEY, replace(after, open=(*before.open, self)))
        return Constant(None) if self.make in _RETURN_NOTHING else self

    def exit(self, m: Tracer) -> Value:
        if m.heap[self.key] is None or state(m).open[-1:] != (self,):
            self.missing("leaving in another order")
        if state(m).modes:
            self.missing("leaving in a mode of your own")
        before, node = m.heap[self.key]
        self.leave(m, node)
        m.heap.put(self.key, None)
        m.heap.put(KEY, replace(state(m), inference=before.inference, open=before.open, muted=before.muted))
        if self.make is grad_mode.inference_mode:
            torch._C._set_grad_enabled(before.grad)
        return Constant(None)

    def leave(self, m: Tracer, node: Any) -> None:
        leave = LEAVE.get(self.make)
        if leave is not None and node is not None:
            m.record_effect(leave, (node,))

    def reload(self, emit: Emitter) -> None:
        make = _entered if emit.heap[self.key] is not None else _fresh
        emit.call(make, Constant(self.make), *(Constant(arg) for arg in self.args))

    def reenter(self, emit: Emitter) -> None:
        """For a context that is open where the graph ends: make or take the real one, and enter it."""
        emit.load(self)
        if self.source is not None:
            emit.instruction("LOAD_METHOD", "__enter__")
            emit.instruction("CALL", (0, ()))
        emit.instruction("POP_TOP")


def _fresh(make: Any, *args: Any) -> Any:
    return make(*args)


def _entered(make: Any, *args: Any) -> Any:
    context = make(*args)
    context.__enter__()
    return context


@dataclass(frozen=True, eq=False)
class TorchContextMethod(Value):
    owner: TorchContext
    name: str

    kind = "method"

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        if self.name == "clone":
            return make_context(m, self.owner.make, *self.owner.args)
        return self.owner.enter(m) if self.name == "__enter__" else self.owner.exit(m)

    def reload(self, emit: Emitter) -> None:
        emit.load(self.owner)
        emit.instruction("LOAD_ATTR", self.name)


def close(m: Tracer) -> None:
    """At the end of the graph: leave what is still open. The real contexts are entered by the replacement.

    Regions of autocast stay open; those that the graph did not count are counted now, for they will be left.
    """
    for counted in state(m).nesting:
        if not counted:
            m.record_effect(torch.autocast_increment_nesting, ())
    for context in reversed(state(m).open):
        context.leave(m, m.heap[context.key][1])


# ---- what entering does: (state, arguments) -> (new state, the node of what was entered) ---------------
Enter = Callable[..., tuple[Ambient, Any]]


def _inference(m: Tracer, before: Ambient, mode: bool) -> tuple[Ambient, Any]:
    """Both ways it decides about gradients, too: off in the mode, on out of it (c10/core/InferenceMode.h)."""
    if mode == before.inference and m.grad_mode is not mode:
        return before, None
    node = m.record_effect(grad_mode._enter_inference_mode, (mode,))
    torch._C._set_grad_enabled(not mode)
    return replace(before, inference=mode), node


def _muted(m: Tracer, before: Ambient) -> tuple[Ambient, Any]:
    """Operations on such classes carry it with them in the graph."""
    return replace(before, muted=True), None


def _nothing(m: Tracer, before: Ambient, *args: Any) -> tuple[Ambient, Any]:
    return before, None


def _device(m: Tracer, before: Ambient, device: str) -> tuple[Ambient, Any]:
    """Tensors are made on the CPU anyway: no frame is compiled under another default."""
    if device != "cpu":
        raise GraphBreak(reasons.USER_CONTEXT, f"torch.device({device!r})")
    return before, None


def _record_function(m: Tracer, before: Ambient, name: str, args: str | None) -> tuple[Ambient, Any]:
    return before, m.record_effect(torch.ops.profiler._record_function_enter_new.default, (name, args))


# They switch off what no compiled frame runs under.
SILENT: tuple[Any, ...] = (torch._C._DisableTorchDispatch, torch._C._DisableFuncTorch)
_RETURN_NOTHING: tuple[Any, ...] = (*SILENT, torch._C.DisableTorchFunctionSubclass, grad_mode.inference_mode)
ENTER: dict[Any, Enter] = {
    grad_mode.inference_mode: _inference,
    torch.profiler.record_function: _record_function,
    torch.device: _device,
    **dict.fromkeys(SILENT, _nothing),
    torch._C.DisableTorchFunctionSubclass: _muted,
}
LEAVE: dict[Any, Any] = {
    grad_mode.inference_mode: grad_mode._exit_inference_mode,
    torch.profiler.record_function: torch.ops.profiler._record_function_exit._RecordFunction,
}


def make_context(m: Tracer, make: Any, *args: Any) -> TorchContext:
    key = m.new_key()
    m.heap.new(key, None, existing=False)
    return TorchContext(key, make, args)


@kind(grad_mode.inference_mode)
def wrap_inference_mode(m: Tracer, obj: Any, source: Source) -> Value:
    return _existing(m, obj, source, "mode")


@kind(torch.profiler.record_function)
def wrap_record_function(m: Tracer, obj: Any, source: Source) -> Value:
    return _existing(m, obj, source, "name", "args")


def _existing(m: Tracer, obj: Any, source: Source, *names: str) -> Value:
    known = m.known_handle(obj, source)
    if known is not None:
        return known
    m.guard(source, "TYPE_IS", type(obj))
    for name in names:
        m.guard(Attr(source, name), "EQUALS", getattr(obj, name))
    key = m.new_key()
    m.heap.new(key, None, existing=True)
    value = TorchContext(key, type(obj), tuple(getattr(obj, name) for name in names), source=source)
    m.remember_handle(obj, value)
    return value
