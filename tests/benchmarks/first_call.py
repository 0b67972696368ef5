"""First call with the native backend and a synchronous build, each in a fresh process: with an empty disk cache, and
with the one that the first left. Forward, and forward and backward.

    python first_call.py [--only NAME ...] [--rounds 3] [--torch]

`import torch` and `import dynajit` come first, then, as "imports", what the extension loads beside the notebook's first
cell: the backend, and sympy for PyTorch's shape rules. Seconds, the least of some processes; cpu: own and the
compiler's CPU seconds, which depend less on what else the machine does. Budget: a function 0.3 s cold and 0.1 s warm,
an encoder of four layers 1 s and 0.3 s, and 1/10 of torch.compile's.
"""

from __future__ import annotations

import argparse
import tempfile

from timing import fresh_process, row

SETUP = """
import os, sys, time
sys.path.insert(0, {folder!r})
import torch, workloads
torch.set_num_threads(1)
def cpu():
    return sum(os.times()[:4])
work = workloads.make({name!r}, {n})
"""
OURS = """
import dynajit
started = time.perf_counter()
import importlib
importlib.import_module("dynajit.backends.native"), importlib.import_module("sympy")
imports = time.perf_counter() - started
call = work.compiled(lambda f: dynajit.compile(f, backend="native", build="sync"))
"""
THEIRS = """
started = time.perf_counter()
import torch._dynamo, torch._inductor.compile_fx
imports = time.perf_counter() - started
call = work.compiled(torch.compile)
"""
CALL = """
wall, used = time.perf_counter(), cpu()
call()
print(time.perf_counter() - wall, cpu() - used, imports)
"""
CASES = {
    "chain": 1000,
    "layer norm": 1000,
    "chain training": 100_000,
    "RMS norm training": 100_000,
    "encoder": 10_000,
    "encoder training": 100_000,
}


def least(code: str, rounds: int, folder: str, keep: bool) -> list[float]:
    """The least wall time and CPU time of some processes. keep: all with the cache in that folder."""
    found = []
    for turn in range(rounds):
        place = folder if keep else f"{folder}/{turn}"
        env = {"DYNAJIT_CACHE_DIR": place, "TORCHINDUCTOR_CACHE_DIR": place, "DYNAJIT_STRICT": "1"}
        found.append(fresh_process(code, env))
    return [min(column) for column in zip(*found, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--torch", action="store_true")
    options = parser.parse_args()
    here = __file__.rpartition("/")[0]
    for name, n in CASES.items():
        if options.only and name not in options.only:
            continue
        setup = SETUP.format(folder=here, name=name, n=n)
        for who, code in {"dynajit": OURS, **({"torch": THEIRS} if options.torch else {})}.items():
            rounds = options.rounds if who == "dynajit" else 1
            with tempfile.TemporaryDirectory() as folder:
                cold = least(setup + code + CALL, rounds, folder, keep=False)
                warm = least(setup + code + CALL, rounds, f"{folder}/0", keep=True)
            row(f"{name}, {who}", cold_s=cold[0], cold_cpu=cold[1], warm_s=warm[0], warm_cpu=warm[1], imports_s=cold[2])


if __name__ == "__main__":
    main()
