"""PyTorch's gradient-mode contexts: entered and left inside the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dynajit.source import Attr, Source
from dynajit.values.base import Emitter, Handle, Tracer, Value
from dynajit.values.constant import Constant, plain
from dynajit.values.klass import ClassValue
from dynajit.values.wrap import kind

GRAD_CONTEXTS = (torch.no_grad, torch.enable_grad, torch.set_grad_enabled)


@dataclass(frozen=True, eq=False)
class GradContext(Handle):
    """`torch.no_grad()`, `torch.enable_grad()` or `torch.set_grad_enabled(mode)`. Contents: the mode to go back to."""

    cls: type
    mode: bool

    kind = "context"

    def python_type(self) -> type:
        return self.cls

    def getattr(self, m: Tracer, name: str) -> Value:
        if name in ("__enter__", "__exit__", "clone", "__call__"):
            return ContextMethod(self, name)
        if name in ("prev", "mode"):
            return Constant(m.heap[self.key] if name == "prev" else self.mode)
        self.missing(f"attribute {name!r}")

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        self.missing("use as a decorator inside the function")

    def enter(self, m: Tracer) -> Value:
        if self.cls is not torch.set_grad_enabled:  # which remembers the mode before when it is made
            m.heap.put(self.key, m.grad_mode)
        m.set_grad_mode(self.mode)
        return Constant(None)

    def exit(self, m: Tracer) -> Value:
        m.set_grad_mode(m.heap[self.key])
        return Constant(None)

    def reload(self, emit: Emitter) -> None:
        emit.call(_rebuild, ClassValue(self.cls), Constant(self.mode), Constant(emit.heap[self.key]))


def _rebuild(cls: type, mode: bool, prev: bool) -> Any:
    """The context object as it is after `__init__` (and `__enter__`), without touching the mode."""
    context: Any = object.__new__(cls)
    context.prev = prev
    if cls is torch.set_grad_enabled:
        context.mode = mode
    return context


@dataclass(frozen=True, eq=False)
class ContextMethod(Value):
    owner: GradContext
    name: str

    kind = "method"

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        if self.name == "__enter__":
            return self.owner.enter(m)
        if self.name == "__exit__":
            return self.owner.exit(m)
        if self.name == "clone":
            return make_grad_context(m, self.owner.cls, self.owner.mode)
        self.missing("use as a decorator inside the function")

    def reload(self, emit: Emitter) -> None:
        emit.load(self.owner)
        emit.instruction("LOAD_ATTR", self.name)


def make_grad_context(m: Tracer, cls: type, mode: bool) -> GradContext:
    key = m.new_key()
    m.heap.new(key, m.grad_mode, existing=False)
    made = GradContext(key, cls, mode)
    if cls is torch.set_grad_enabled:  # takes effect when it is made (torch/autograd/grad_mode.py)
        m.set_grad_mode(mode)
    return made


def construct(m: Tracer, cls: type, args: Sequence[Value]) -> GradContext:
    mode = bool(plain(m, args[0])) if args else cls is torch.enable_grad
    return make_grad_context(m, cls, mode)


@kind(*GRAD_CONTEXTS)
def wrap_grad_context(m: Tracer, obj: Any, source: Source) -> Value:
    known = m.known_handle(obj, source)
    if known is not None:
        return known
    m.guard(source, "TYPE_IS", type(obj))
    prev = getattr(obj, "prev", False)
    m.guard(Attr(source, "prev"), "EQUALS", prev)
    mode = type(obj) is torch.enable_grad
    if type(obj) is torch.set_grad_enabled:
        mode = obj.mode
        m.guard(Attr(source, "mode"), "EQUALS", mode)
    key = m.new_key()
    m.heap.new(key, prev, existing=True)
    value = GradContext(key, type(obj), mode, source=source)
    m.remember_handle(obj, value)
    return value
