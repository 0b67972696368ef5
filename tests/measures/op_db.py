"""Every operator's sample inputs through a compiled function: results beside eager's, and graphs.

python tests/measures/op_db.py [--backend eager] [--samples 3] [--every 1]
"""

from __future__ import annotations

import argparse
import collections
import copy
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations as database

import dynajit
from dynajit import events


def same(got: Any, want: Any, exact: bool) -> bool:
    """Same types, dtypes, sizes and strides, and the same values: bits, or close."""
    if type(got) is not type(want):
        return False
    if isinstance(want, (list, tuple)):
        return len(got) == len(want) and all(same(a, b, exact) for a, b in zip(got, want, strict=True))
    if not isinstance(want, torch.Tensor):
        return bool(got == want) or (got != got and want != want)
    if want.layout is not torch.strided or want.is_nested:
        return repr(got) == repr(want)
    facts = got.dtype == want.dtype and got.shape == want.shape and got.stride() == want.stride()
    tolerance = {"rtol": 0.0, "atol": 0.0} if exact else {"rtol": 1e-5, "atol": 1e-6}
    return facts and torch.allclose(got, want, equal_nan=True, **tolerance)


def cases(samples: int, every: int = 1) -> Iterator[tuple[str, Any, Any]]:
    """(name, function, sample). every: take each so-many-th operator."""
    for op in database.op_db[::every]:
        dtypes = [d for d in (torch.float32, torch.int64) if d in op.supported_dtypes("cpu")]
        if not dtypes:
            continue
        for i, sample in enumerate(op.sample_inputs("cpu", dtypes[0], requires_grad=False)):
            if i < samples:
                yield op.name, op.op, sample


def check(name: str, function: Any, sample: Any, backend: str) -> tuple[str, list[str]]:
    """("right", "wrong", or "raises" where eager does, too), and what broke each graph that is not the last."""

    def arguments() -> Any:
        return copy.deepcopy((sample.input, sample.args, sample.kwargs))

    def f(first: Any, args: Any, kwargs: Any) -> Any:
        return function(first, *args, **kwargs)

    want, error = None, None
    torch.manual_seed(1)
    try:
        want = f(*arguments())
    except Exception as raised:
        error = type(raised)
    seen: list[events.Event] = []
    outcome = "right"
    with events.subscribed(seen.append):
        compiled = dynajit.compile(f, backend=backend)
        for _ in range(2):
            torch.manual_seed(1)
            try:
                got = compiled(*arguments())
                if error is not None or not ("empty" in name or same(got, want, backend == "eager")):
                    outcome = "wrong"
            except Exception as raised:
                outcome = "raises" if type(raised) is error and outcome != "wrong" else "wrong"
    added = [event.record for event in seen if isinstance(event, events.EntryAdded)]
    breaks = [f"{r.end.reason.code} {r.end.detail}" if r.end else "" for r in added]
    breaks += [f"skipped: {event.detail[-200:]}" for event in seen if isinstance(event, events.FrameSkipped)]
    dynajit.reset(compiled)
    return outcome, breaks


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: collections.Counter[str] = collections.Counter()
    for name, function, sample in cases(options.samples, options.every):
        outcome, breaks = check(name, function, sample, options.backend)
        counts[outcome] += 1
        if outcome == "right":
            counts["in one graph"] += breaks == [""]
        if outcome == "wrong" or breaks != [""]:
            print(f"{name}: {outcome}: {'; '.join(breaks)[:200]}", flush=True)
    share = counts["in one graph"] / counts["right"]
    print(f"{dict(counts)}; of those that are right {share:.1%} in one graph")


if __name__ == "__main__":
    main()
