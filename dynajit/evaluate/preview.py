"""What a node of the graph would be in this call, computed while capturing: for results that are taken for constant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from dynajit.evaluate.overrides import ENABLED

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine


def preview(m: Machine, wanted: fx.Node) -> Any:
    """Run the graph up to `wanted` on copies of its inputs; random states stay as they are."""
    values: dict[fx.Node, Any] = {}

    def of(argument: Any) -> Any:
        return fx.node.map_arg(argument, lambda node: values[node])

    grad_mode = torch.is_grad_enabled()
    with torch.random.fork_rng(), ENABLED():
        try:
            for node in m.recorder.nodes:
                if node.op == "placeholder":
                    values[node] = _copy(m.input_sources[node][1])
                elif node.op == "call_method":
                    owner, *rest = of(node.args)
                    values[node] = getattr(owner, node.target)(*rest, **of(node.kwargs))  # type: ignore[arg-type]
                else:
                    values[node] = node.target(*of(node.args), **of(node.kwargs))  # type: ignore[operator]
                if node is wanted:
                    return values[node]
        finally:
            torch._C._set_grad_enabled(grad_mode)
    raise KeyError(wanted)


def _copy(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone(memory_format=torch.preserve_format).requires_grad_(value.requires_grad)
