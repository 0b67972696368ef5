"""Queries and contexts of PyTorch whose answer is known while tracing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch._jit_internal
import torch.fx._symbolic_trace
import torch.onnx
import torch.overrides

from dynajit import markers, reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate import overrides
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.graph.demands import demand
from dynajit.source import Known
from dynajit.symbol import unbacked
from dynajit.values import ambient, context
from dynajit.values.base import Value
from dynajit.values.constant import Constant, SymbolicNumber, fold, plain
from dynajit.values.instance import InstanceValue
from dynajit.values.klass import ClassValue, lookup
from dynajit.values.sequence import structure
from dynajit.values.tensor import TensorValue
from dynajit.values.unknown import UnknownValue


def _answer(value: Any, *functions: Any) -> None:
    for function in functions:
        builtin(function)(lambda m, *args, **kwargs: Constant(value))


_answer(
    False,
    torch._jit_internal.is_scripting,
    getattr(torch.jit, "is_tracing"),  # noqa: B009 (not exported, for mypy)
    torch._C._is_tracing,
    torch.compiler.is_exporting,
    torch.onnx.is_in_onnx_export,
    torch.fx._symbolic_trace.is_fx_tracing,
    torch._C._are_functorch_transforms_active,
)
_answer(None, torch._C._get_tracing_state, torch._C._log_api_usage_once)


@builtin(torch.overrides.has_torch_function)
def has_torch_function(m: Machine, values: Value) -> Value:
    return Constant(any(_overrides(m, value) for value in m.unpack(values)))


@builtin(torch.overrides.has_torch_function_unary, torch.overrides.has_torch_function_variadic)
def has_torch_function_variadic(m: Machine, *values: Value) -> Value:
    return Constant(any(_overrides(m, value) for value in values))


@builtin(overrides.OF_TENSOR[0])
def tensor_torch_function(
    m: Machine, cls: Value, func: Value, types: Value, args: Value | None = None, kwargs: Value | None = None
) -> Value:
    classes = [m.realize(item) for item in m.unpack(types)]
    if not isinstance(cls, ClassValue) or not all(isinstance(item, ClassValue) for item in classes):
        raise GraphBreak(reasons.TENSOR_KIND, "Tensor.__torch_function__ with these arguments")
    if not all(issubclass(cls.cls, item.cls) for item in classes if isinstance(item, ClassValue)):
        return Constant(NotImplemented)
    given = () if args is None else m.unpack(args)
    return overrides.of_tensor(m, cls, func, given, overrides.named_arguments(m, kwargs))


@builtin(torch._C._is_torch_function_mode_enabled)
def is_mode_enabled(m: Machine) -> Value:
    return Constant(bool(ambient.state(m).modes))


@builtin(torch._C._len_torch_function_stack)
def count_modes(m: Machine) -> Value:
    return Constant(len(ambient.state(m).modes))


@builtin(torch._C._push_on_torch_function_stack)
def push_mode(m: Machine, mode: Value) -> Value:
    """While it is pushed only what the evaluator is sure of is captured; see `calls`."""
    if not isinstance(mode, InstanceValue) or ambient.state(m).muted:
        raise GraphBreak(reasons.USER_CONTEXT, mode.describe())
    overrides.set_modes(m, (*ambient.state(m).modes, mode))
    return Constant(None)


@builtin(torch._C._pop_torch_function_stack)
def pop_mode(m: Machine) -> Value:
    modes = ambient.state(m).modes
    if not modes:
        raise GraphBreak(reasons.USER_CONTEXT, "a mode that was entered before")
    overrides.set_modes(m, modes[:-1])
    return modes[-1]


def _overrides(m: Machine, value: Value) -> bool:
    """Whether its class handles functions of PyTorch (torch/csrc/utils/disable_torch_function.cpp)."""
    if ambient.state(m).modes:
        return True
    if ambient.state(m).muted:
        return False
    cls = m.realize(value).python_type()
    if not hasattr(cls, "__torch_function__") or cls in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return False
    lookup(m, cls, "__torch_function__")
    return cls.__torch_function__ is not torch._C._disabled_torch_function_impl


@builtin(torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling)
def is_compiling_for_torch(m: Machine) -> Value:
    """What compile.py has decided. PyTorch's own code always goes eager's way."""
    home = m.frame.callee.globals.get("__name__")
    if isinstance(home, str) and home.partition(".")[0] == "torch":
        return Constant(False)
    m.asked_whether_compiling = True
    return Constant(m.says_compiling)


@builtin(torch.is_grad_enabled)
def is_grad_enabled(m: Machine) -> Value:
    return Constant(m.grad_mode)


@builtin(torch._C._set_grad_enabled)
def set_grad_enabled(m: Machine, mode: Value) -> None:
    m.set_grad_mode(m.is_true(mode))


@builtin(torch.get_default_dtype)
def get_default_dtype(m: Machine) -> Value:
    return m.constant(torch.get_default_dtype())  # part of the ambient state that every entry guards


@builtin(torch.is_tensor)
def is_tensor(m: Machine, value: Value) -> Value:
    return Constant(isinstance(value, TensorValue))


for _cls in context.GRAD_CONTEXTS:
    builtin(_cls)(lambda m, *args, cls=_cls: context.construct(m, cls, args))


@builtin(torch.cuda.is_current_stream_capturing, torch.xpu.is_current_stream_capturing)
def is_capturing_stream(m: Machine) -> Value:
    if torch.cuda.is_available() or torch.xpu.is_available():
        raise GraphBreak(reasons.GLOBAL_STATE, "is_current_stream_capturing()")
    return Constant(False)


def _folded(function: Any) -> None:
    builtin(function)(lambda m, *args, **kwargs: fold(m, function, args, kwargs))


for _function in (torch.device, torch.finfo, torch.iinfo, torch.promote_types, torch.can_cast,
                  torch.cuda.is_available, torch.broadcast_shapes, torch._C._is_autocast_available,
                  torch._C._get_privateuse1_backend_name, torch.cuda.is_bf16_supported, torch.accelerator.is_available,
                  torch.accelerator.current_accelerator):  # fmt: skip
    _folded(_function)


@builtin(torch.get_device_module)
def get_device_module(m: Machine, device: Value | None = None) -> Value:
    found = torch.get_device_module(None if device is None else plain(m, device))
    return m.realize(m.wrap(found, Known(found)))


@builtin(markers.graph_break)
def graph_break(m: Machine) -> Value:
    raise GraphBreak(reasons.REQUESTED, "")


@builtin(markers.is_compiling)
def is_compiling(m: Machine) -> Value:
    return Constant(True)


# ---- inference mode, profiling ----
@builtin(torch.is_inference_mode_enabled)
def is_inference_mode_enabled(m: Machine) -> Value:
    return Constant(ambient.state(m).inference)


@builtin(torch.inference_mode)
def inference_mode(m: Machine, mode: Value | None = None) -> Value:
    return ambient.make_context(m, torch.inference_mode, True if mode is None else bool(plain(m, mode)))


@builtin(torch.profiler.record_function)
def record_function(m: Machine, name: Value, args: Value | None = None) -> Value:
    note = None if args is None else plain(m, args)
    return ambient.make_context(m, torch.profiler.record_function, plain(m, name), note)


for _context in (*ambient.SILENT, torch._C.DisableTorchFunctionSubclass):
    builtin(_context)(lambda m, make=_context: ambient.make_context(m, make))


# ---- autocast: its class is evaluated like any other, these are what it stands on ----
def _change(m: Machine, **fields: Any) -> None:
    m.heap.put(ambient.KEY, replace(ambient.state(m), **fields))


def _mode(m: Machine, device: Value | None) -> tuple[str, bool, torch.dtype]:
    name = "cuda" if device is None else str(plain(m, device))
    found = ambient.state(m).autocast.get(name)
    if found is None:
        raise GraphBreak(reasons.GLOBAL_STATE, f"autocast on {name}")
    return name, *found


@builtin(torch.is_autocast_enabled)
def is_autocast_enabled(m: Machine, device: Value | None = None) -> Value:
    return Constant(_mode(m, device)[1])


@builtin(torch.is_autocast_cpu_enabled)
def is_autocast_cpu_enabled(m: Machine) -> Value:
    return Constant(ambient.state(m).autocast["cpu"][0])


@builtin(torch.get_autocast_dtype)
def get_autocast_dtype(m: Machine, device: Value) -> Value:
    return Constant(_mode(m, device)[2])


@builtin(torch.is_autocast_cache_enabled)
def is_autocast_cache_enabled(m: Machine) -> Value:
    return Constant(ambient.state(m).cache)


@builtin(torch.set_autocast_enabled)
def set_autocast_enabled(m: Machine, device: Value, enabled: Value) -> None:
    name, before, dtype = _mode(m, device)
    now = bool(plain(m, enabled))
    if now != before:
        m.record_effect(torch.set_autocast_enabled, (name, now))
        _change(m, autocast={**ambient.state(m).autocast, name: (now, dtype)})


@builtin(torch.set_autocast_dtype)
def set_autocast_dtype(m: Machine, device: Value, dtype: Value) -> None:
    name, enabled, before = _mode(m, device)
    now = plain(m, dtype)
    if now is not before:
        m.record_effect(torch.set_autocast_dtype, (name, now))
        _change(m, autocast={**ambient.state(m).autocast, name: (enabled, now)})


@builtin(torch.set_autocast_cache_enabled)
def set_autocast_cache_enabled(m: Machine, enabled: Value) -> None:
    now = bool(plain(m, enabled))
    if now != ambient.state(m).cache:
        m.record_effect(torch.set_autocast_cache_enabled, (now,))
        _change(m, cache=now)


@builtin(torch.autocast_increment_nesting)
def autocast_increment_nesting(m: Machine) -> Value:
    """Only what keeps casts is counted in the graph: a region that switches autocast off where it is off does not."""
    state = ambient.state(m)
    if state.casts:
        m.record_effect(torch.autocast_increment_nesting, ())
    _change(m, nesting=(*state.nesting, state.casts))
    return Constant(_depth(m))


@builtin(torch.autocast_decrement_nesting)
def autocast_decrement_nesting(m: Machine) -> Value:
    state = ambient.state(m)
    *outer, counted = state.nesting or (True,)
    if counted:
        m.record_effect(torch.autocast_decrement_nesting, ())
    _change(m, nesting=tuple(outer), left=state.left + (not state.nesting))
    return Constant(_depth(m) + (not counted))  # nothing to clear


def _depth(m: Machine) -> int:
    outside = ambient.nesting()
    m.guard(Known(ambient.nesting), "STATE", ((ambient.nesting, outside),))
    return outside + len(ambient.state(m).nesting) - ambient.state(m).left


@builtin(torch.clear_autocast_cache)
def clear_autocast_cache(m: Machine) -> None:
    m.record_effect(torch.clear_autocast_cache, ())


_no_amp: Any = torch.cuda.amp.common.amp_definitely_not_available


@builtin(_no_amp)
def amp_definitely_not_available(m: Machine) -> Value:
    return Constant(bool(_no_amp()))


# ---- random numbers: the state is that of the moment when the graph runs ----
@builtin(torch.manual_seed)
def manual_seed(m: Machine, seed: Value) -> Value:
    node = m.record_effect(torch.manual_seed, (seed,))
    return UnknownValue(node, torch.Generator, reasons.GLOBAL_STATE, "torch.manual_seed")


@builtin(torch.seed)
def seed(m: Machine) -> Value:
    return _number(m.record_effect(torch.seed, ()))


@builtin(torch.initial_seed)
def initial_seed(m: Machine) -> Value:
    return _number(m.record_effect(torch.initial_seed, ()))


def _number(node: Any) -> Value:
    """An int that is known when the graph runs."""
    return SymbolicNumber(node, unbacked(node, int))


@builtin(torch.get_rng_state)
def get_rng_state(m: Machine) -> Value:
    node = m.record_effect(torch.get_rng_state, ())
    meta = torch.empty_like(torch.get_rng_state(), device="meta")
    node.meta["val"], node.meta["device"] = meta, torch.device("cpu")
    return TensorValue(node, meta, torch.device("cpu"))


@builtin(torch.set_rng_state)
def set_rng_state(m: Machine, state: Value) -> None:
    m.record_effect(torch.set_rng_state, (state,))


@builtin(torch.jit.annotate)
def annotate(m: Machine, kind: Value, value: Value) -> Value:
    return value


# ---- settings ----
def _flag(read: Any, change: Any) -> None:
    def get(m: Machine) -> Value:
        flags = ambient.state(m).flags
        if read in flags:
            return m.constant(flags[read])
        now = read()
        m.guard(Known(read), "STATE", ((read, now),))
        return m.constant(now)

    def put(m: Machine, value: Value) -> None:
        new = structure(m, value)
        m.record_effect(change, (new,))
        _change(m, flags={**ambient.state(m).flags, read: new})

    builtin(read)(get)
    builtin(change)(put)


for _read, _setter in ambient.FLAGS.items():
    _flag(_read, _setter)


# ---- the process group ----
def _group_fact(function: Any) -> None:
    def run(m: Machine, group: Value | None = None) -> Value:
        if group is not None and not (isinstance(group, Constant) and group.value is None):
            raise GraphBreak(reasons.GLOBAL_STATE, f"torch.distributed.{function.__name__} of a group")
        found = function()
        m.guard(Known(function), "STATE", ((function, found),))
        return Constant(found)

    builtin(function)(run)


if torch.distributed.is_available():
    for _fact in (torch.distributed.get_rank, torch.distributed.get_world_size):
        _group_fact(_fact)
    builtin(torch.distributed.is_initialized)(lambda m: _initialised(m))


def _initialised(m: Machine) -> Value:
    found = torch.distributed.is_initialized()
    m.guard(Known(torch.distributed), "STATE", ((torch.distributed.is_initialized, found),))
    return Constant(found)


@builtin(torch._is_all_true)
def is_all_true(m: Machine, valid: Value) -> Value:
    """What distributions ask of their parameters holds, or the graph fails and is run again by Python."""
    home = m.frame.callee.globals.get("__name__")
    asked = isinstance(home, str) and home.startswith("torch.distributions.")
    writes = any(node.meta.get("writes") for node in m.recorder.nodes)
    if not asked or writes or m.is_protected() or not isinstance(valid, TensorValue):
        return m.record("call_function", torch._is_all_true, (valid,), {})
    m.record_effect(demand, (valid,))
    return Constant(True)
