"""Run in a process of its own with TRITON_INTERPRET=1: every case through printed Triton kernels, against eager.

Prints one line of JSON per case: its name and what is wrong with it ("" for nothing).
"""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import interpreter_repairs
import torch
from triton_rows import CASES, Case, planned

from dynajit.caching.store import Store
from dynajit.runtime.gpu import triton_launch


def run(case: Case, store: Store) -> str:
    made = planned(case)
    if not made.kernels:
        return "nothing was lowered"
    wrapper = made.wrapper()
    launches = {name: triton_launch(kernel, store, "cpu", {}) for name, kernel in made.launched}
    miss = object()
    scope: dict[str, Any] = {**wrapper.constants, **launches, "MISS": miss, "eager": None, "missed": []}
    exec(wrapper.source, scope)
    results = scope["call"](*case.args)
    if results is miss:
        return "a launch refused its arguments"
    for result, wanted in zip(results, case.function(*case.args), strict=True):
        if result.dtype != wanted.dtype or result.shape != wanted.shape or result.stride() != wanted.stride():
            return f"{result.dtype}{list(result.shape)}{result.stride()}"
        a, b = result.double(), wanted.double()
        if not torch.equal(a.isnan(), b.isnan()):
            return "NaN at other places"
        a, b = a.nan_to_num(1.5), b.nan_to_num(1.5)
        if case.exact and not torch.equal(a, b):
            return f"{int((a != b).sum())} of {a.numel()} elements differ"
        scale = {torch.bfloat16: 1.6e-2, torch.float16: 2e-3}.get(wanted.dtype, 1e-5)
        worst = ((a - b).abs() / b.abs().clamp_min(0.1 * max(b.abs().max().item(), 1e-30))).max().item()
        if worst > scale:
            return f"relative error {worst:.3g}"
    return ""


def main() -> None:
    interpreter_repairs.install()
    wanted = set(sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        for case in CASES:
            if wanted and case.name not in wanted:
                continue
            try:
                why = run(case, store)
            except Exception:
                why = traceback.format_exc()
            print(json.dumps({"name": case.name, "why": why}), flush=True)


if __name__ == "__main__":
    main()
