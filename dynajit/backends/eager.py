"""The captured graph as it stands, run by eager kernels: the reference for every other backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.fx import GraphModule

from dynajit.backends.base import CompiledGraph, Observer, backend
from dynajit.options import Options


@backend("eager")
def eager(
    gm: GraphModule, example_inputs: Sequence[Any], options: Options, observer: Observer | None = None
) -> CompiledGraph:
    """`gm.forward` is the generated function; calling `gm` itself would pass through nn.Module's hooks."""
    return CompiledGraph(gm.forward, backend="eager", wrapper=gm.code)
