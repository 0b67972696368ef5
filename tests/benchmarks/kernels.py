"""Kernels launched and bytes moved by a call: torch.compile's Inductor and dynajit's native backend.

    python kernels.py [--only NAME ...] [--size 1e6]

kernels: generated kernels of one warm call. calls: operations of PyTorch that compute or copy and run as they stand,
counted by the profiler for both. MB: what the generated kernels read and write by each compiler's own schedule
(Inductor: `get_read_write_buffers_sizes` of what is not external; dynajit: the report). Budget: kernels and calls
together, and MB, at most Inductor's. At the end what we call oftener, by name: an operation that is alone in its kernel
is left to PyTorch's own, which is as good.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch._inductor.config
from torch._inductor.graph import GraphLowering
from torch._inductor.scheduler import ExternKernelSchedulerNode
from torch.profiler import ProfilerActivity, profile
from workloads import MAKERS, make

import dynajit

# Operations that compute nothing: views, new memory, and what autograd does on its own behalf.
FREE = set(
    "view _unsafe_view reshape _reshape_alias permute transpose t expand unsqueeze squeeze detach alias slice select"
    " unbind split split_with_sizes as_strided empty empty_strided empty_like lift_fresh result_type to set_ chunk"
    " data is_leaf broadcast_to expand_as view_as unflatten flatten narrow requires_grad_ resize_".split()
)


def operations(call: Callable[[], Any]) -> Counter[str]:
    """The outermost operations of a call that compute or copy, by name."""
    with profile(activities=[ProfilerActivity.CPU]) as made:
        call()
    found = Counter[str]()
    for event in made.events():
        above = event.cpu_parent
        while above is not None and not above.name.startswith("aten::"):
            above = above.cpu_parent
        if event.name.startswith("aten::") and above is None:
            name = event.name.removeprefix("aten::")
            if name == "reshape" and any(child.name in ("aten::clone", "aten::copy_") for child in event.cpu_children):
                name = "clone"
            name = {"linear": "addmm", "scaled_dot_product_attention": "attention"}.get(name, name)
            name = "attention" if name.startswith("_scaled_dot_product") and "backward" not in name else name
            if name not in FREE:
                found[name] += 1
    return found


class Inductor:
    """Counts what torch.compile generates: calls of kernels in its output code (`generated_kernel_count` counts
    every variant that was tried), and their bytes."""

    def __init__(self) -> None:
        self.bytes = self.kernels = 0
        codegen = GraphLowering.codegen

        def counted(graph: GraphLowering) -> Any:
            result = codegen(graph)
            nodes = [n for n in graph.scheduler.nodes if not isinstance(n, ExternKernelSchedulerNode)]
            self.bytes += sum(node.get_read_write_buffers_sizes() for node in nodes)
            return result

        def read(code: str) -> None:
            self.kernels += len(re.findall(r"^ +(?:async_compile\.)?cpp_fused_?\w*\(", code, re.MULTILINE))

        GraphLowering.codegen = counted  # type: ignore[method-assign]
        GraphLowering.save_output_code = staticmethod(read)  # type: ignore[assignment]

    def reset(self) -> None:
        torch._dynamo.reset()
        self.bytes = self.kernels = 0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--size", type=float, default=1e6)
    options = parser.parse_args()
    torch._inductor.config.force_disable_caches = True
    warnings.simplefilter("ignore")
    peer = Inductor()
    print(f"{'':<24}{'kernels':>16}{'calls':>16}{'MB':>20}\n{'':<24}" + "  dynajit torch" * 2 + "    dynajit  torch")
    for name in [form for base in MAKERS for form in (base, f"{base} training")]:
        if options.only and name not in options.only:
            continue
        peer.reset()
        theirs = make(name, int(options.size)).compiled(torch.compile)
        theirs(), theirs()
        their_kernels, their_bytes, their_calls = peer.kernels, peer.bytes, operations(theirs)
        made: list[Any] = []

        def compiler(function: Any, made: list[Any] = made) -> Any:
            made.append(dynajit.compile(function, backend="native", build="sync"))
            return made[-1]

        ours = make(name, int(options.size)).compiled(compiler)
        ours(), ours()
        calls = operations(ours)
        launched = [kernel for kernel in dynajit.report(made[0]).kernels if kernel.launched]
        moved = sum(kernel.reads + kernel.writes for kernel in launched)
        more = calls - their_calls
        pairs = (len(launched), their_kernels), (calls.total(), their_calls.total())
        mark = " <" if sum(a - b for a, b in pairs) > 0 or moved > their_bytes * 1.001 else ""
        dynajit.reset()
        counts = "".join(f"{a:>9}{b:>6}" for a, b in pairs)
        print(f"{name:<24}{counts}{moved / 1e6:>11.2f}{their_bytes / 1e6:>7.2f}{mark}  {dict(more) or ''}", flush=True)


if __name__ == "__main__":
    main()
