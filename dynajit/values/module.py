"""`nn.Module` instances: attributes found in `_parameters`, `_buffers` and `_modules`, and calls without hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as nn_module

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.source import InstanceAttr, Item, Known, Source
from dynajit.values.base import Emitter, Tracer, Value
from dynajit.values.constant import Constant
from dynajit.values.function import FunctionValue
from dynajit.values.instance import DELETED, InstanceValue, raw_attr
from dynajit.values.klass import lookup
from dynajit.values.mapping import DictValue
from dynajit.values.sequence import TupleValue
from dynajit.values.tensor import TensorValue
from dynajit.values.wrap import rule

REGISTRIES = ("_parameters", "_buffers", "_modules")
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
GLOBAL_HOOKS = ("_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks",
                "_global_backward_pre_hooks")  # fmt: skip


@dataclass(frozen=True, eq=False)
class ModuleValue(InstanceValue):
    """An existing module."""

    kind = "module"

    def getattr(self, m: Tracer, name: str) -> Value:
        found = self._found(m, name)
        if found is None:
            found = self._registered(m, name)
        if found is not None:
            return found
        own = raw_attr(self.cls, "__getattr__")
        if own is not nn.Module.__dict__["__getattr__"]:
            lookup(m, self.cls, "__getattr__")
            return super().getattr(m, name)
        m.throw(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")

    def _registered(self, m: Tracer, name: str) -> Value | None:
        assert self.source is not None
        for registry in REGISTRIES:
            entries = self.obj.__dict__.get(registry)
            if entries is None:
                continue
            where = InstanceAttr(self.source, registry)
            handle = m.known_handle(entries, where)
            if isinstance(handle, DictValue):
                found = handle.items_now(m).get(name)
                if found is not None:
                    return found[1]
            elif name in entries:
                return m.wrap(entries[name], Item(where, name))
            elif entries:
                m.guard(where, "ITEM_ABSENT", None, name)
            else:
                m.guard(where, "LENGTH", 0)
        return None

    def setattr(self, m: Tracer, name: str, value: Value) -> None:
        own = raw_attr(self.cls, "__setattr__")
        if own is not nn.Module.__dict__["__setattr__"]:
            return super().setattr(m, name, value)
        return self.assign(m, name, value)

    def assign(self, m: Tracer, name: str, value: Value) -> None:
        """`nn.Module.__setattr__` for what needs no registering; a buffer's entry is replaced in `_buffers`."""
        assert self.source is not None
        value = m.realize(value)
        namespace = self.obj.__dict__
        if name in namespace.get("_buffers", ()) and (isinstance(value, TensorValue) or _is_none(value)):
            buffers = m.realize(m.wrap(namespace["_buffers"], InstanceAttr(self.source, "_buffers")))
            return buffers.setitem(m, m.constant(name), value)
        registers = isinstance(value, (ModuleValue,)) or issubclass(_type(value), nn.Parameter)
        if registers or name in namespace.get("_parameters", ()) or name in namespace.get("_modules", ()):
            raise GraphBreak(reasons.NO_OPERATION, f"registering {name!r} on {self.describe()}")
        for registry in REGISTRIES:
            if namespace.get(registry):
                m.guard(InstanceAttr(self.source, registry), "ITEM_ABSENT", None, name)
        return self.store(m, name, value)

    def delattr(self, m: Tracer, name: str) -> None:
        raise GraphBreak(reasons.NO_OPERATION, f"deleting {name!r} of {self.describe()}")

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        call = raw_attr(self.cls, "__call__")
        # A GraphModule's own __call__ only shortens tracebacks (torch/fx/graph_module.py).
        of_graph = isinstance(self.obj, torch.fx.GraphModule) and call.__module__ == "torch.fx.graph_module"
        if call is not nn.Module.__dict__["__call__"] and not of_graph:
            return super().call(m, args, kwargs)
        lookup(m, self.cls, "__call__")
        if self._has_hooks(m):
            return m.inline(_CALL_IMPL, [self, *args], kwargs)
        return m.call(self.getattr(m, "forward"), args, kwargs)

    def getitem(self, m: Tracer, key: Value) -> Value:
        key = m.specialise(m.realize(key))
        slices = raw_attr(self.cls, "__getitem__") is nn.ModuleList.__dict__["__getitem__"]
        if slices and isinstance(key, Constant) and isinstance(key.value, slice):
            lookup(m, self.cls, "__getitem__")
            children = m.unpack(m.call_method(m.getattr(self, "_modules"), "values"))
            return ModuleSlice(self, key, children[key.value])
        return super().getitem(m, key)

    def _has_hooks(self, m: Tracer) -> bool:
        """`Module._call_impl` calls forward straight away when no hook is registered (torch/nn/modules/module.py)."""
        assert self.source is not None
        found = False
        for name in HOOKS:
            hooks = m.known_handle(self.obj.__dict__.get(name), InstanceAttr(self.source, name))
            if isinstance(hooks, DictValue):
                found = found or bool(hooks.items_now(m))
            elif self.obj.__dict__.get(name):
                found = True
            else:
                m.guard(self.source, "EMPTY", None, name)
        for name in GLOBAL_HOOKS:
            if getattr(nn_module, name):
                raise GraphBreak(reasons.OPAQUE_CALL, "global module hooks")
            m.guard(Item(Known(nn_module.__dict__), name), "LENGTH", 0)
        if self.obj._compiled_call_impl is not None:
            raise GraphBreak(reasons.OPAQUE_CALL, f"{self.describe()} was compiled by torch")
        if found and any(self.obj.__dict__.get(name) for name in ("_backward_hooks", "_backward_pre_hooks")):
            raise GraphBreak(reasons.AUTOGRAD, f"{self.describe()} has backward hooks")
        return found


_call_impl: Any = nn.Module._call_impl
_CALL_IMPL = FunctionValue(_call_impl, source=Known(_call_impl))


@dataclass(frozen=True, eq=False)
class ModuleSlice(Value):
    """A part of a ModuleList: a new list of the same modules."""

    owner: ModuleValue
    part: Constant
    items: tuple[Value, ...]

    kind = "module list"

    def python_type(self) -> type:
        return self.owner.cls

    def length(self, m: Tracer) -> int:
        return len(self.items)

    def iterate(self, m: Tracer) -> Value:
        return m.iterate(TupleValue(self.items))

    def getitem(self, m: Tracer, key: Value) -> Value:
        return TupleValue(self.items).getitem(m, key)

    def reload(self, emit: Emitter) -> None:
        emit.load(self.owner)
        emit.load(self.part)
        emit.instruction("BINARY_SUBSCR")


def _type(value: Value) -> type:
    try:
        return value.python_type()
    except GraphBreak:
        return object


def _is_none(value: Value) -> bool:
    return getattr(value, "value", DELETED) is None


@rule(40, lambda obj: isinstance(obj, nn.Module))
def wrap_nn_module(m: Tracer, obj: nn.Module, source: Source) -> Value:
    known = m.known_handle(obj, source)
    if known is not None:
        return known
    m.guard(source, "TYPE_IS", type(obj))
    if isinstance(obj, torch.jit.ScriptModule):
        raise GraphBreak(reasons.OPAQUE_CALL, f"{source.text}, a {type(obj).__name__}")
    key = m.new_key()
    m.heap.new(key, {}, existing=True)
    value = ModuleValue(key, type(obj), obj, source=source)
    m.remember_handle(obj, value)
    return value
