"""Our own kernels. (Placeholder until the lowering lands: runs the graph as it stands.)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch.fx import GraphModule

from dynajit.backends.base import CompiledGraph, Observer, backend
from dynajit.backends.eager import eager
from dynajit.options import Options


@backend("native")
@backend("auto")
def native(
    gm: GraphModule, example_inputs: Sequence[Any], options: Options, observer: Observer | None = None
) -> CompiledGraph:
    return replace(eager(gm, example_inputs, options, observer), backend="native")
