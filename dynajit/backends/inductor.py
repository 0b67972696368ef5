"""An adapter that hands a captured graph to torch._inductor: a peer to compare with. Imports it only when chosen."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from torch.fx import GraphModule

from dynajit.backends.base import CompiledGraph, Observer, as_tuple, backend
from dynajit.options import Options


@backend("inductor")
def inductor(
    gm: GraphModule, example_inputs: Sequence[Any], options: Options, observer: Observer | None = None
) -> CompiledGraph:
    # By name, not by import statement: this package must not pull the peer in, whatever reads its imports.
    compile_fx = importlib.import_module("torch._inductor.compile_fx").compile_fx
    return CompiledGraph(as_tuple(compile_fx(gm, list(example_inputs))), backend="inductor")
