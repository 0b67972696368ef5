"""Compile the kernels of named cases for a GPU target; one line of JSON per case with what the binaries look like."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import triton
from triton_rows import CASES, Case, kernels_of

from dynajit.caching.store import Store
from dynajit.runtime.ahead import compiled_for, looked_at

# What eager does not do: approximate division and root, flushed denormals. (CUDA's own expf has ex2.approx.ftz.)
APPROXIMATE = re.compile(r"div\.(full|approx)|\bsqrt\.approx|(rsqrt\.approx|add|sub|mul|fma|max|min)[.\w]*\.ftz")
WITH_FMA = ("exp", "tanh", "sin", "log", "log1p", "div", "rsqrt", "reciprocal", "fma")


def look_at(case: Case, target: str, folder: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"registers": 0, "spills": 0, "approximate": False, "fused": False}
    for kernel in kernels_of(case):
        own = not any(stmt.op in WITH_FMA for stmt in kernel.body)
        for compiled in compiled_for(kernel, target, Store(folder)):
            seen = looked_at(compiled, target, folder)
            row["registers"], row["spills"] = max(row["registers"], seen.registers), row["spills"] + seen.spills
            ptx = compiled.asm.get("ptx", "")
            row["approximate"] = row["approximate"] or bool(APPROXIMATE.search(ptx))
            row["fused"] = row["fused"] or (own and "fma." in ptx)
    return row


def main() -> None:
    target = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        triton.knobs.cache.dir = folder
        for case in CASES:
            if case.name in sys.argv[2:]:
                try:
                    row = {"name": case.name, "error": "", **look_at(case, target, Path(folder))}
                except Exception:
                    row = {"name": case.name, "error": traceback.format_exc()[-1500:]}
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
