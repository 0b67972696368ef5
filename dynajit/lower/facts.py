"""What is known of calls by their targets: which of eager's kernels are slow, and what arguments say of sizes."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Node

from dynajit.lower.aten import Call
from dynajit.lower.program import leaves

# Where eager passes several times over memory, or starts slowly.
SLOW = frozenset(
    (
        torch.ops.aten.native_layer_norm.default,
        torch.ops.aten.native_group_norm.default,
        torch.ops.aten.logsumexp.default,
        torch.ops.aten.nll_loss_forward.default,
        torch.ops.aten.nll_loss_backward.default,
        *(torch.ops.aten.argmax.default, torch.ops.aten.argmin.default),
        *(torch.ops.aten.max.dim, torch.ops.aten.min.dim, torch.ops.aten.tril.default, torch.ops.aten.triu.default),
        *(getattr(torch.ops.aten, name).default for name in ("cumsum", "cumprod", "cummax", "cummin")),
    )
)
# Whose result has the sizes that are given, behind the tensor ...
SIZED = frozenset((torch.reshape, *(getattr(torch.ops.aten, name).default for name in (
    "view", "_unsafe_view", "reshape", "expand", "new_zeros", "new_ones", "new_full", "new_empty"))))  # fmt: skip
SIZED_METHODS = frozenset(("view", "reshape", "expand"))
# ... or first of all.
FILLED = frozenset((*(getattr(torch.ops.aten, name).default for name in ("zeros", "ones", "full")),
                    *(torch.zeros, torch.ones, torch.full)))  # fmt: skip
TENSOR_OPTIONS = frozenset(("dtype", "layout", "device", "pin_memory", "memory_format"))
# In float32, eager asks oneDNN, which takes 6 us to begin with.
BY_ONEDNN = frozenset((torch.ops.aten.gelu.default, torch.ops.aten.gelu_backward.default))
FEW = 65536  # elements
# What is said of sizes here, the program says: it is not calculated from the sizes of an example.
SAID = frozenset(
    (
        *(
            operator.getitem,
            torch.narrow,
            torch.select,
            torch.roll,
            torch.nn.functional.pad,
            "narrow",
            "select",
            "roll",
        ),
        *(torch.slice_scatter, torch.select_scatter, "slice_scatter", "select_scatter"),
    )
)
# Operations whose arguments say nothing of sizes.
SIZELESS = frozenset(
    getattr(torch.ops.aten, name).default for name in ("cat", "stack", "flip", "tril", "triu", "embedding", "gather")
) | {torch.ops.aten.index.Tensor, torch.ops.aten.index_select.default}


def is_slow(call: Call) -> bool:
    """Whether a kernel of its own is faster than eager's."""
    if call.op not in BY_ONEDNN:
        return call.op in SLOW
    words = [arg for arg in (*call.args, *call.kwargs.values()) if isinstance(arg, str)]
    x: torch.Tensor = call.args[0]
    return x.dtype == torch.float32 and x.numel() <= FEW and "tanh" not in words


def extents_of(node: Node, result: Any) -> dict[int, int | Node]:
    """By dimension of the result, the sizes that a call gives it, where some of them are numbers of the graph."""
    target: Any = node.target
    if node.kwargs.keys() - TENSOR_OPTIONS or not isinstance(result, torch.Tensor):
        return {}
    if not (target in SIZED or target in FILLED or (node.op == "call_method" and target in SIZED_METHODS)):
        return {}
    given = node.args[1:] if node.op == "call_method" or target in SIZED else node.args
    with_value = target is torch.full or isinstance(target, torch._ops.OpOverload)
    sizes, values = list(leaves(given[:1] if with_value else given)), given[1:] if with_value else ()
    if any(isinstance(value, Node) for value in leaves((values, dict(node.kwargs)))):
        return {}  # a number of the graph fills the tensor
    if len(sizes) != result.dim() or not any(isinstance(size, Node) for size in sizes):
        return {}
    return {d: size for d, size in enumerate(sizes) if isinstance(size, Node) or (type(size) is int and size > 1)}
