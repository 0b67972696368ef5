"""Timing for the benchmarks: interleaved bursts, best of many, always as ratios within one run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping


def interleaved(functions: Mapping[str, Callable[[], object]], number: int, rounds: int) -> dict[str, float]:
    """Seconds a call: the best burst of `number` calls of each function, the functions taking turns."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            started = time.perf_counter()
            for _ in range(number):
                function()
            best[name] = min(best[name], (time.perf_counter() - started) / number)
    return best


def fresh_process(code: str, env: Mapping[str, str]) -> list[float]:
    """Run Python code in a process of its own; the numbers of its last line."""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return [float(word) for word in done.stdout.strip().splitlines()[-1].split()]


def row(name: str, **numbers: float) -> None:
    print(f"{name:<44}" + "  ".join(f"{key} {value:.3f}" for key, value in numbers.items()), flush=True)
