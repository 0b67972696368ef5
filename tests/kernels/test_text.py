"""The text of kernels: golden for a few, and what gcc says of their inner loops.

Write the golden files anew with DYNAJIT_UPDATE_GOLDEN=1.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.fx import GraphModule, symbolic_trace
from triton_rows import rms_norm, t

from dynajit.backends import compile_graph
from dynajit.backends.native import native
from dynajit.codegen.c import print_kernel
from dynajit.codegen.c_file import print_file
from dynajit.codegen.plan import plan
from dynajit.options import Options
from dynajit.runtime.mathlib import function
from dynajit.runtime.toolchain import toolchain

GOLDEN = Path(__file__).parent / "golden"


def bias_gelu(x: Any, b: Any) -> Any:
    return (F.gelu(x + b, approximate="tanh") * 0.5,)


def softmax(x: Any) -> Any:
    return (torch.softmax(x * 0.5, -1),)


def column_sum(x: Any) -> Any:
    return ((x * 2).sum(0),)


def whole_sum(x: Any) -> Any:
    return ((x * x).sum(),)


def halves(x: Any, y: Any) -> Any:
    return (torch.relu(x * y + 1),)


SHOWN: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "bias_gelu": (bias_gelu, (t(40, 300), t(300))),
    "softmax": (softmax, (t(40, 300),)),
    "rms_norm": (rms_norm, (t(40, 300), t(40, 300), t(300))),
    "column_sum": (column_sum, (t(40, 300),)),
    "whole_sum": (whole_sum, (t(40, 300),)),
    "halves": (halves, (t(40, 300, dtype=torch.bfloat16), t(300, dtype=torch.bfloat16))),
}


def with_positions(gm: GraphModule) -> GraphModule:
    for line, node in enumerate(gm.graph.nodes, 1):
        node.meta["position"] = SimpleNamespace(line=line, text=f"{node.name} = ...", filename="cell")
    return gm


@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() != "AVX512", reason="written on a machine with AVX-512")
@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("language", ["c", "triton"])
def test_golden(name: str, language: str) -> None:
    program, args = SHOWN[name]
    graph = native(with_positions(symbolic_trace(program)), args, Options())
    text = "\n\n".join(kernel.source for kernel in graph.kernels if kernel.language == language) + "\n"
    path = GOLDEN / f"{name}.{'c' if language == 'c' else 'py.txt'}"
    if os.environ.get("DYNAJIT_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"differs from {path.name}; DYNAJIT_UPDATE_GOLDEN=1 writes it anew"


def test_lines_point_into_the_source() -> None:
    gm = with_positions(symbolic_trace(bias_gelu))
    for kernel in native(gm, SHOWN["bias_gelu"][1], Options()).kernels:
        lines = kernel.source.split("\n")
        assert {position.line for _, position in kernel.lines} == {3, 4, 5}
        for number, position in kernel.lines:
            assert 0 < number <= len(lines)
            if "line " in lines[number - 1]:
                assert f"line {position.line}:" in lines[number - 1]


@pytest.mark.parametrize("name", SHOWN)
def test_inner_loops_are_vectorised(name: str, tmp_path: Path) -> None:
    """gcc must not give up on a loop that is marked `omp simd`."""
    chain = toolchain()
    if chain is None or "gcc" not in Path(chain.command).name:
        pytest.skip("reads gcc's report")
    program, args = SHOWN[name]
    made = plan(symbolic_trace(program), args, lambda kernel: print_kernel(kernel, kernel.name, function))
    source = print_file([kernel for _, kernel in made.launched], function).source
    path = tmp_path / "kernels.c"
    path.write_text(source)
    # A loop that only copies becomes a call of memcpy, which is no loss, but no loop either.
    flags = [flag for flag in chain.flags if flag != "-shared"] + ["-fno-tree-loop-distribute-patterns"]
    command = [chain.command, *flags, "-fopt-info-vec-optimized", "-c", str(path), "-o", str(tmp_path / "kernels.o")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    done = {int(line.split(":")[1]) for line in said.splitlines() if "loop vectorized" in line}
    lines = source.split("\n")
    marked = [n for n, line in enumerate(lines, 1) if line.startswith("#pragma omp simd")]
    missed = [lines[n] for n in marked if not done & {n + 1, n + 2, n + 3, n}]
    # Prelude functions that are inlined are reported at their own lines.
    assert marked
    assert not missed, "\n".join(missed)


def test_equal_kernels_are_compiled_once() -> None:
    def program(x: Any, w: Any) -> Any:
        for _ in range(3):
            x = F.linear(F.relu(x * 2 + 1), w)
        return (x,)

    graph = compile_graph(symbolic_trace(program), (t(8, 8), t(8, 8)), Options(backend="native"))
    shown = [kernel for kernel in graph.kernels if kernel.language == "c"]
    assert len(shown) == 3
    assert [kernel.note[:13] for kernel in shown] == ["", "the same code", "the same code"]


def test_moved_lines_do_not_build_again() -> None:
    first = native(with_positions(symbolic_trace(bias_gelu)), SHOWN["bias_gelu"][1], Options())
    gm = with_positions(symbolic_trace(bias_gelu))
    for node in gm.graph.nodes:
        node.meta["position"].line += 100
    second = native(gm, SHOWN["bias_gelu"][1], Options())
    assert first.kernels[0].source != second.kernels[0].source
    assert second.kernels[0].cache_hit
