"""A test is a program: it runs eagerly and compiled, and nothing observable may differ.

The strongest claims are the default: one graph, no break, one compile for two calls. A program that claims less says
so; the weaker claims can be listed.
"""

from __future__ import annotations

import contextlib
import copy
import io
import random
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import dynajit
from dynajit import events, frame
from dynajit.errors import InternalError


def T(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0, grad: bool = False) -> torch.Tensor:
    """A random tensor, the same in each run."""
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return made.requires_grad_() if grad else made


@dataclass(frozen=True)
class Program:
    """graphs: how many are captured. breaks: codes of the reasons, in order. Where Pythons differ: all that may be;
    None: any, for tables of programs that are about behaviour only.

    make: called before each run to give fresh arguments, for programs whose arguments cannot be copied.
    """

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    graphs: int | tuple[int, ...] | None = 1
    breaks: str | None = ""
    make: Callable[[], tuple[Any, ...]] | None = None
    backend: str = "eager"

    def arguments(self) -> tuple[Any, ...]:
        return self.make() if self.make is not None else copy.deepcopy(self.args)

    def check(self) -> None:
        expected = [observe(self.fn, self.arguments(), self.kwargs) for _ in range(2)]
        seen: list[events.Event] = []
        with captured(self.fn, seen, self.backend) as compiled:
            first = observe(compiled, self.arguments(), self.kwargs)
            assert_same(first, expected[0], "first call")
            before = len([e for e in seen if isinstance(e, events.EntryAdded)])
            second = observe(compiled, self.arguments(), self.kwargs)
            assert_same(second, expected[1], "second call")
            after = len([e for e in seen if isinstance(e, events.EntryAdded)])
            failed = [e.words for e in seen if isinstance(e, events.GuardFailed)]
            report = dynajit.report(compiled)
        skipped = [e for e in seen if isinstance(e, events.FrameSkipped) and e.reason_code == "DJ-S006"]
        assert not skipped, skipped[0].detail
        assert report.status != "eager" or self.graphs in (0, None), report.reason
        graphs = sum(1 for e in seen if isinstance(e, events.EntryAdded) and e.record.graph is not None)
        codes = [
            e.record.end.reason.code for e in seen if isinstance(e, events.EntryAdded) and e.record.end is not None
        ]
        told = [f"{e.record.end.reason.title} ({e.record.end.detail})" for e in seen
                if isinstance(e, events.EntryAdded) and e.record.end is not None]  # fmt: skip
        assert after == before, f"compiled again at the second call: {failed}"
        if self.graphs is not None:
            allowed = self.graphs if isinstance(self.graphs, tuple) else (self.graphs,)
            assert graphs in allowed, f"{graphs} graphs, expected {self.graphs}; breaks: {told}"
        if self.breaks is not None:
            assert codes in [choice.split() for choice in self.breaks.split("|")], f"breaks {codes}: {told}"


@contextlib.contextmanager
def captured(fn: Callable[..., Any], seen: list[events.Event], backend: str) -> Iterator[Callable[..., Any]]:
    """`fn` compiled from nothing, its events collected; everything is forgotten afterwards."""
    with events.subscribed(seen.append):
        try:
            yield dynajit.compile(fn, backend=backend)
        finally:
            dynajit.reset()
            assert not frame.evaluator_installed()


@dataclass
class Observation:
    outcome: tuple[Any, ...]
    args: tuple[Any, ...]
    printed: str
    globals: dict[str, Any]
    rng: torch.Tensor
    random: Any
    modes: tuple[Any, ...]


def observe(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Observation:
    """Run and note all that a caller could see. Globals that the program changed are put back."""
    plain = fn.__wrapped__ if isinstance(fn, frame.Dispatcher) else fn
    namespace = plain.__globals__
    before = {name: value for name, value in namespace.items() if not name.startswith("__")}
    kept = {name: copy.deepcopy(value) for name, value in before.items() if type(value) in (list, dict, set)}
    torch.manual_seed(7)
    random.seed(7)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            outcome: tuple[Any, ...] = ("returned", fn(*args, **kwargs))
        except InternalError:
            raise
        except Exception as error:
            outcome = ("raised", type(error), str(error))
    names = sorted(name for name in {*before, *namespace} if not name.startswith("__"))
    changed = {name: copy.deepcopy(namespace.get(name)) for name in names
               if namespace.get(name) is not before.get(name) or name in kept}  # fmt: skip
    for name in [name for name in names if name not in before]:
        del namespace[name]
    namespace.update(before)
    for name, value in kept.items():
        _put_back(namespace[name], value)
    modes = _modes()
    torch.set_grad_enabled(True)
    return Observation(outcome, args, out.getvalue(), changed, torch.get_rng_state(), random.getstate(), modes)


def _modes() -> tuple[Any, ...]:
    """What of PyTorch's own state a program might leave switched."""
    return (
        torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype(),
        torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled(),
        torch.are_deterministic_algorithms_enabled(), torch.get_num_threads(), torch.is_anomaly_enabled(),
        torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack(),
        torch.backends.mkldnn.enabled, torch._C._get_flash_sdp_enabled(), torch._C._get_math_sdp_enabled(),
    )  # fmt: skip


def _put_back(target: Any, value: Any) -> None:
    target.clear()
    if isinstance(target, list):
        target.extend(value)
    else:
        target.update(value)


def assert_same(got: Observation, want: Observation, when: str) -> None:
    assert got.outcome[0] == want.outcome[0], f"{when}: {got.outcome} but eager {want.outcome}"
    compare(got.outcome[1:], want.outcome[1:], f"{when}: result")
    compare(got.args, want.args, f"{when}: arguments afterwards")
    compare(got.globals, want.globals, f"{when}: globals afterwards")
    assert got.printed == want.printed, f"{when}: printed {got.printed!r}, eager {want.printed!r}"
    assert torch.equal(got.rng, want.rng), f"{when}: the random state differs"
    assert got.random == want.random, f"{when}: the state of `random` differs"
    assert got.modes == want.modes, f"{when}: modes of PyTorch {got.modes}, eager {want.modes}"


def compare(got: Any, want: Any, where: str) -> None:
    """Same types all the way down, same values, same bits of tensors."""
    assert type(got) is type(want), f"{where}: {type(got)} but eager {type(want)}"
    if isinstance(want, (np.ndarray, np.generic)):
        _compare_arrays(got, want, where)
    elif isinstance(want, torch.Tensor):
        _compare_tensors(got, want, where)
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want), f"{where}: {len(got)} items, eager {len(want)}"
        for i, (a, b) in enumerate(zip(got, want, strict=True)):
            compare(a, b, f"{where}[{i}]")
    elif isinstance(want, dict):
        assert list(got) == list(want), f"{where}: keys {list(got)}, eager {list(want)}"
        for key in want:
            compare(got[key], want[key], f"{where}[{key!r}]")
    elif isinstance(want, float):
        assert repr(got) == repr(want), f"{where}: {got!r}, eager {want!r}"
    elif isinstance(want, (types.FunctionType, types.MethodType, types.GeneratorType)):
        assert got.__qualname__ == want.__qualname__, where
    elif isinstance(want, torch.nn.Module):
        compare(dict(want.state_dict()), dict(got.state_dict()), where)
    elif hasattr(want, "__dict__") and type(want).__eq__ is object.__eq__:
        compare(vars(got), vars(want), f"{where}.__dict__")
    elif type(want).__eq__ is not object.__eq__:
        assert got == want, f"{where}: {got!r}, eager {want!r}"


def _compare_tensors(got: torch.Tensor, want: torch.Tensor, where: str) -> None:
    facts = ("dtype", "device", "shape", "requires_grad", "is_leaf")
    for fact in facts:
        assert getattr(got, fact) == getattr(want, fact), (
            f"{where}.{fact}: {getattr(got, fact)}, eager {getattr(want, fact)}"
        )
    assert got.stride() == want.stride(), f"{where}: strides {got.stride()}, eager {want.stride()}"
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True, msg=lambda m: f"{where}: {m}")
    if want.is_leaf and (want.grad is not None or got.grad is not None):
        assert got.grad is not None, f"{where}: no gradient"
        assert want.grad is not None, f"{where}: a gradient that eager does not have"
        compare(got.grad, want.grad, f"{where}.grad")


def _compare_arrays(got: Any, want: Any, where: str) -> None:
    for fact in ("dtype", "shape", "strides"):
        assert getattr(got, fact) == getattr(want, fact), (
            f"{where}.{fact}: {getattr(got, fact)}, eager {getattr(want, fact)}"
        )
    if isinstance(want, np.ndarray):
        writeable = [array.flags.num & 0x400 for array in (got, want)]  # to ask for it by name may warn
        assert writeable[0] == writeable[1], f"{where}: writeable {writeable[0]}"
    assert got.tobytes() == want.tobytes(), f"{where}: {got!r}, eager {want!r}"


def program(*args: Any, **expect: Any) -> Callable[[Callable[..., Any]], Program]:
    """Make a test of the function below. Positional arguments are the program's own."""
    return lambda fn: Program(fn, args, **expect)
