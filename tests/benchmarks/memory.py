"""Peak memory of a call beyond what it was given: eager, torch.compile's default and dynajit's native backend.

    python memory.py [--only NAME ...] [--size 1e6] [--no-torch]

Every allocation of torch's CPU allocator is counted, in a fresh process for each case and compiler, from before the
first call on: what a compiler keeps from one call for the next counts as well. Three calls follow the first; the
largest of their peaks is shown, in MB. The results of a call are let go before the next. "kept" is what is
held between calls.
Budget: never above eager's.
"""

from __future__ import annotations

import argparse

from timing import fresh_process
from workloads import MAKERS

TRACE = """
import sys, torch
from torch.profiler import ProfilerActivity, profile, record_function
sys.path.insert(0, {folder!r})
import workloads
torch.set_num_threads(1)
compiler, name, n = {compiler!r}, {name!r}, {n}
if compiler == "dynajit":
    import dynajit
compilers = {{"eager": lambda f: f, "torch": torch.compile}}
if compiler == "dynajit":
    compilers[compiler] = lambda f: dynajit.compile(f, backend="native", build="sync")
work = workloads.make(name, n)
if work.training:  # what autograd makes once, and keeps: the gradients are counted, this is not
    torch.ones(2, requires_grad=True).sum().backward()
call = work.compiled(compilers[compiler])
leaves = work.function.parameters() if isinstance(work.function, torch.nn.Module) else ()
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as made:
    for turn in range(4):
        with record_function(f"turn {{turn}}"):
            call()
        for x in (*leaves, *work.args):
            x.grad = None
events = made.profiler.kineto_results.events()
turns = {{e.name(): (e.start_ns(), e.start_ns() + e.duration_ns()) for e in events if e.name().startswith("turn ")}}
memory = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
memory += [(time, 0) for span in turns.values() for time in span]
level, peaks, kept = 0, dict.fromkeys(turns, 0), 0
for at, size in sorted(memory):
    level += size
    for turn, (start, end) in turns.items():
        if start <= at <= end:
            peaks[turn] = max(peaks[turn], level)
    if at <= turns["turn 1"][0]:
        kept = level
print(max(peaks[f"turn {{k}}"] for k in (1, 2, 3)), kept)
"""


def peak(compiler: str, name: str, n: int) -> tuple[float, float]:
    """MB at the highest point of a warm call, and MB kept between calls."""
    folder = __file__.rpartition("/")[0]
    highest, kept = fresh_process(TRACE.format(folder=folder, compiler=compiler, name=name, n=n), {})
    return highest / 1e6, kept / 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--size", type=float, default=1e6)
    parser.add_argument("--no-torch", action="store_true")
    options = parser.parse_args()
    compilers = ["eager", "dynajit"] if options.no_torch else ["eager", "torch", "dynajit"]
    print(f"{'peak MB':<26}" + "".join(f"{name:>10}" for name in compilers) + f"{'kept':>8}{'to eager':>10}")
    for name in [form for base in MAKERS for form in (base, f"{base} training")]:
        if options.only and name not in options.only:
            continue
        found = {compiler: peak(compiler, name, int(options.size)) for compiler in compilers}
        ratio = found["dynajit"][0] / max(found["eager"][0], 1e-9)
        cells = "".join(f"{found[compiler][0]:>10.2f}" for compiler in compilers)
        print(f"{name:<26}{cells}{found['dynajit'][1]:>8.2f}{ratio:>10.2f}{' <' if ratio > 1.001 else ''}", flush=True)


if __name__ == "__main__":
    main()
