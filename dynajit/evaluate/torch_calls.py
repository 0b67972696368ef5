"""Which torch functions are recorded as they stand, and which ones Python must call."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.masked
import torch.nn.functional
import torch.special

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate import arrays
from dynajit.graph import meta as metas
from dynajit.graph.arrays import CONVERSIONS
from dynajit.values.base import Value

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine

# Functions of PyTorch that change its state or look at data; Python calls them.
_REFUSED = frozenset(
    """
    manual_seed seed initial_seed get_rng_state set_rng_state set_default_dtype set_default_tensor_type
    set_default_device set_num_threads set_num_interop_threads set_flush_denormal use_deterministic_algorithms
    set_deterministic_debug_mode set_printoptions set_float32_matmul_precision set_warn_always save load compile
    from_numpy frombuffer from_file asarray import_ir_module parse_ir get_device_module set_anomaly_enabled
    is_storage typename quantized_lstm
    """.split()
)


_FOREIGN = frozenset(
    {"from_numpy", "frombuffer", "from_file", "asarray", "load", "save"}
)  # of another library's memory


def _collect() -> dict[Any, str]:
    found: dict[Any, str] = {}
    names = ("_VariableFunctions", "_nn", "_special", "_linalg", "_fft")
    spaces = [getattr(torch._C, name) for name in names]
    for space in spaces:
        for name in dir(space):
            obj = getattr(space, name)
            if isinstance(obj, (types.BuiltinFunctionType, types.BuiltinMethodType)) and not name.startswith("__"):
                found[obj] = name
    for module in (torch, torch.nn.functional, torch.functional, torch.special, torch.linalg, torch.fft, torch.masked):
        for name, obj in vars(module).items():
            home = getattr(obj, "__module__", None)
            is_python = isinstance(obj, types.FunctionType) and home in (
                "torch.nn.functional",
                "torch.functional",
                "torch.masked._ops",
            )
            is_c = isinstance(obj, types.BuiltinFunctionType) and module is not torch
            if (is_python or is_c) and not name.startswith("_"):
                found[obj] = name
    return {obj: name for obj, name in found.items() if name not in _NOT_OPERATIONS}


# Queries about arguments: they are evaluated (or answered by a row of the builtins table), not recorded.
_NOT_OPERATIONS = frozenset({"handle_torch_function", "has_torch_function", "has_torch_function_unary",
                             "has_torch_function_variadic", "boolean_dispatch", "is_grad_enabled",
                             "is_inference_mode_enabled", "get_default_dtype", "is_tensor", "is_storage",
                             "promote_types", "result_type", "can_cast", "is_autocast_enabled",
                             "is_autocast_cpu_enabled", "is_anomaly_enabled", "get_num_threads", "finfo",
                             "assert_int_or_pair"})  # fmt: skip
RECORDED = _collect()


_COLLECTIVES = frozenset({"all_reduce", "all_gather_tensor", "reduce_scatter_tensor", "broadcast", "wait_tensor",
                          "all_to_all_single", "all_gather_single", "reduce_scatter_single"})  # fmt: skip


def is_collective(target: Any) -> bool:
    """A functional collective. Its module is not imported for this."""
    home = getattr(target, "__module__", None)
    return home == "torch.distributed._functional_collectives" and target.__name__ in _COLLECTIVES


def _only_computes(function: Any) -> bool:
    """Whether a scripted function may be asked for its result on meta tensors: it neither prints nor calls Python."""
    text = str(function.inlined_graph)
    return not any(word in text for word in ("prim::Print", "PythonOp", "aten::save", "aten::warn", "prim::SetAttr"))


def is_recorded(target: Any) -> bool:
    try:
        return (
            is_collective(target)
            or target in RECORDED
            or type(target).__module__ == "torch._ops"
            or (isinstance(target, torch.jit.ScriptFunction) and _only_computes(target))
        )
    except TypeError:  # not hashable
        return False


def is_method_descriptor(target: Any) -> bool:
    """`torch.Tensor.add` and its like, called as functions."""
    if isinstance(target, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return issubclass(torch.Tensor, target.__objclass__) and target.__objclass__ is not object
    return isinstance(target, types.FunctionType) and target.__module__ == "torch._tensor"


def record_function(m: Machine, target: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    name = RECORDED.get(target) or metas.name_of(target)
    if target in CONVERSIONS and any(arrays.holds_numpy(m, arg) for arg in [*args[:1], *kwargs.values()]):
        return arrays.converted(m, target, args, kwargs)
    if name in _REFUSED:
        raise GraphBreak(reasons.OPAQUE_CALL if name in _FOREIGN else reasons.GLOBAL_STATE, f"torch.{name}")
    return m.record("call_function", target, tuple(args), dict(kwargs))
