"""The examples in PyTorch's own documentation, each as a function: compiled beside eager.

python tests/measures/doc_examples.py [--backend eager] [--every 1] [--only NAME]

A docstring's example becomes a function that returns its variables; statements from the first on that eager refuses are
left out. Compared are the variables, printed text, PyTorch's modes and the state of its random numbers, of two calls.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import doctest
import io
import linecache
import math
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.func
import torch.masked
import torch.nn.utils.rnn
import torch.optim.swa_utils
import torch.signal.windows
from torch import nn

import dynajit
from dynajit import events

# Other machines, other processes, files, other compilers, and state that outlives the example.
_LEFT_OUT = ("cuda", "distributed", "multiprocessing", "open(", "save(", "input(", "download", "hub", "while True",
             "DataLoader", "dataset", "sleep", "exit(", "torch.compile", "onnx", "jit.", "num_threads", "_dynamo",
             "profiler", "skip_init", "set_default", "flush_denormal")  # fmt: skip
_MODULES = re.compile(
    r"torch($|\.(nn|functional|linalg|fft|special|masked|func|autograd|optim|distributions|signal|random|sparse|overrides"
    r"|nested|amp|utils\.checkpoint|_tensor)($|\.))"
)


def docstrings() -> Iterator[tuple[str, str]]:
    """(name, text) of all that has examples, each text once."""
    seen = set()

    def fresh(obj: Any) -> bool:
        text = getattr(obj, "__doc__", None)
        new = isinstance(text, str) and ">>>" in text and text not in seen
        if new:
            seen.add(text)
        return new

    for name, module in sorted(sys.modules.items()):
        if not _MODULES.match(name) or not isinstance(module, types.ModuleType):
            continue
        for key, obj in sorted(vars(module).items()):
            if fresh(obj) and not isinstance(obj, types.ModuleType):
                yield f"{name}.{key}", obj.__doc__
            if isinstance(obj, type) and obj.__module__.startswith("torch"):
                for part, member in sorted(vars(obj).items()):
                    found = getattr(member, "__func__", getattr(member, "fget", member))
                    if fresh(found):
                        yield f"{name}.{key}.{part}", found.__doc__
    for key in dir(torch.Tensor):
        obj = getattr(torch.Tensor, key, None)
        if fresh(obj):
            yield f"Tensor.{key}", obj.__doc__


def is_written(name: str) -> bool:
    """Quantised layers, too, begin with whatever is in the memory that they get."""
    return not any(word in name for word in ("empty", "quantized"))


def statements(text: str) -> list[ast.stmt]:
    """The example's statements; values that only the prompt would show get a name."""
    found: list[ast.stmt] = []
    try:
        examples = doctest.DocTestParser().get_examples(text)
    except ValueError:
        return []
    if any(word in "".join(example.source for example in examples) for word in _LEFT_OUT):
        return []
    for example in examples:
        with contextlib.suppress(SyntaxError):
            for statement in ast.parse(example.source).body:
                shown = isinstance(statement, ast.Expr) and "print(" not in example.source
                name = ast.Name(f"shown{len(found)}", ast.Store())
                found.append(ast.Assign([name], statement.value) if shown else statement)  # type: ignore[attr-defined]
    return found


def function_of(body: list[ast.stmt], name: str) -> Callable[[], dict[str, Any]]:
    """The statements as the body of a function without arguments; imports and classes stand outside."""
    outside = [s for s in body if isinstance(s, (ast.Import, ast.ImportFrom, ast.ClassDef))]
    inside = [s for s in body if s not in outside]
    variables = dict.fromkeys(
        node.id
        for statement in inside
        if not isinstance(statement, ast.FunctionDef)
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    result = ast.Dict([ast.Constant(v) for v in variables], [ast.Name(v, ast.Load()) for v in variables])
    nothing = ast.arguments([], [], None, [], [], None, [])
    module = ast.Module([*outside, ast.FunctionDef("example", nothing, [*inside, ast.Return(result)], [], None)], [])
    source = ast.unparse(ast.fix_missing_locations(module))
    filename = f"<example of {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace: dict[str, Any] = {
        "torch": torch, "nn": nn, "F": nn.functional, "np": np, "math": math, "autograd": torch.autograd,
        "optim": torch.optim, "__name__": "example",
    }  # fmt: skip
    exec(compile(source, filename, "exec"), namespace)
    made: Callable[[], dict[str, Any]] = namespace["example"]
    return made


@dataclass
class Outcome:
    result: Any
    printed: str
    modes: tuple[Any, ...]
    random: torch.Tensor


def run(function: Callable[[], Any]) -> Outcome:
    torch.manual_seed(5)
    np.random.seed(5)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = function()
        except Exception as error:
            result = error
    modes = (
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.is_autocast_enabled("cpu"),
        torch.is_anomaly_enabled(),
    )
    torch.set_grad_enabled(True)
    return Outcome(result, re.sub("0x[0-9a-f]+", "0x", printed.getvalue()), modes, torch.get_rng_state())


def same(got: Any, want: Any, close: bool, depth: int = 0) -> bool:
    """Same types and values all the way down; of kinds that cannot be compared, the type. close: not to the bit."""
    if type(got) is not type(want):
        return type(want).__module__ == "example" and type(got).__qualname__ == type(want).__qualname__
    if isinstance(want, torch.Tensor):
        return same_tensor(got, want, close)
    if isinstance(want, Exception):
        return True
    if isinstance(want, (list, tuple)):
        return len(got) == len(want) and all(same(a, b, close, depth + 1) for a, b in zip(got, want, strict=True))
    if isinstance(want, dict):
        return list(got) == list(want) and all(same(got[key], want[key], close, depth + 1) for key in want)
    if isinstance(want, nn.Module):
        return same(dict(got.state_dict()), dict(want.state_dict()), close, depth + 1)
    if isinstance(want, np.ndarray):
        return np.array_equal(got, want, equal_nan=want.dtype.kind in "fc")
    plain = isinstance(want, (int, float, complex, str, bool, torch.dtype, torch.device))
    return not plain or repr(got) == repr(want)


def same_tensor(got: torch.Tensor, want: torch.Tensor, close: bool) -> bool:
    if want.is_nested or type(want) not in (torch.Tensor, nn.Parameter) or want.device.type == "meta":
        return True
    facts = ("layout", "dtype", "shape", "requires_grad", "is_leaf", "is_quantized")
    if any(getattr(got, fact) != getattr(want, fact) for fact in facts):
        return False
    if want.layout is torch.strided and not want.is_quantized and got.stride() != want.stride():
        return False
    if want.is_leaf and want.layout is torch.strided and (got.grad is None) != (want.grad is None):
        return False
    left, right = (
        tensor.dequantize() if tensor.is_quantized else tensor.detach().to_dense().resolve_conj()
        for tensor in (got, want)
    )
    tolerance = (1e-4, 1e-5) if close else (0, 0)
    return torch.equal(left, right) or torch.allclose(left, right, *tolerance, equal_nan=True)


def usable(text: str, name: str) -> tuple[Callable[[], Any], Outcome] | None:
    """The longest beginning of an example that eager runs, if it does the same twice."""
    body = statements(text) if is_written(name) else []
    while body:
        try:
            function = function_of(body, name)
            want = run(function)
        except Exception:
            return None
        if not isinstance(want.result, Exception):
            again = run(function)
            twice = same(again.result, want.result, False) and again.printed == want.printed
            return (function, want) if twice else None
        body = body[:-1]
    return None


def check(function: Callable[[], Any], want: Outcome, backend: str) -> tuple[str, list[str]]:
    """("" or what differs, what broke each graph that is not the last)."""
    seen: list[events.Event] = []
    differs = ""
    with events.subscribed(seen.append):
        compiled = dynajit.compile(function, backend=backend)
        for _ in range(2):
            got = run(compiled)
            if not same(got.result, want.result, backend != "eager"):
                differs = differs or f"result {got.result!r}"[:300]
            if (got.printed, got.modes) != (want.printed, want.modes) or not torch.equal(got.random, want.random):
                differs = differs or "printed text, a mode, or the random state"
    dynajit.reset(compiled)
    ends = [event.record.end for event in seen if isinstance(event, events.EntryAdded)]
    return differs, [f"{end.reason.code} {end.detail}" for end in ends if end is not None]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: collections.Counter[str] = collections.Counter()
    for name, text in list(docstrings())[:: options.every]:
        found = usable(text, name) if options.only in name else None
        if found is None:
            continue
        differs, breaks = check(*found, options.backend)
        counts["examples"] += 1
        counts["in one graph"] += not breaks
        counts["wrong"] += bool(differs)
        if differs or options.only:
            print(f"{name}: {differs or 'right'}; {breaks}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
