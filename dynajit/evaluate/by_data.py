"""Tensors whose size the data decides, as values with a made-up size, for graphs that must not break."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dynajit.graph import meta as metas
from dynajit.symbol import Symbol, unbacked
from dynajit.values.tensor import TensorValue


def result(node: Any, name: str, args: Sequence[Any], device: torch.device) -> TensorValue | None:
    """What `nonzero`, a mask and their like return; None for operations that are not known here."""
    first = args[0] if args and isinstance(args[0], torch.Tensor) else None
    if first is None:
        return None
    if name in ("nonzero", "argwhere"):
        return _tensor(node, (first.dim(),), torch.int64, device, first)
    if name in ("masked_select", "unique", "unique_consecutive") and len(args) <= 2:
        return _tensor(node, (), first.dtype, device, first)
    if name == "getitem" and isinstance(args[1], torch.Tensor) and args[1].dtype is torch.bool:
        return _tensor(node, tuple(first.shape[args[1].dim() :]), first.dtype, device, first)
    return None


def _tensor(
    node: Any, rest: tuple[int, ...], dtype: torch.dtype, device: torch.device, like: torch.Tensor
) -> TensorValue:
    symbol: Symbol = unbacked(node, int)
    grad = like.requires_grad and dtype.is_floating_point and torch.is_grad_enabled()
    meta, other = (_meta((size, *rest), dtype, grad) for size in (symbol.example, symbol.other))
    node.meta["val"], node.meta["device"] = meta, device
    return TensorValue(node, meta, device, torch.Tensor, True, other, (symbol, *rest))


def _meta(shape: tuple[int, ...], dtype: torch.dtype, grad: bool) -> torch.Tensor:
    made = torch.empty(shape, dtype=dtype, device=metas.META)
    return made.requires_grad_().clone() if grad else made
