"""What is in memory and when: no more than eager has, in the forward and the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from against_eager import every_kernel, t
from test_training import both, compiled, g
from torch import nn
from torch.fx import symbolic_trace
from torch.profiler import ProfilerActivity, profile

import dynajit
from dynajit.backends import CompiledGraph
from dynajit.backends.native import native
from dynajit.codegen.memory import Event, kept
from dynajit.options import Options

MB = 1 << 20
aten: Any = torch.ops.aten


def kernels(graph: CompiledGraph, which: str = "") -> list[Any]:
    return [kernel for kernel in graph.kernels if kernel.launched and kernel.name.startswith(which)]


def peak(call: Callable[[], object]) -> int:
    """Bytes at the highest point of a call, beyond what was there before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as made:
        call()
    assert made.profiler is not None
    events = made.profiler.kineto_results.events()
    level = most = 0
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        level += event.nbytes()
        most = max(most, level)
    return most


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(256) for _ in range(5))
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(5))

    def forward(self, x: Any) -> Any:
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + F.gelu(layer(norm(x)))
        return x


def _step(module: Any, x: torch.Tensor) -> Callable[[], None]:
    def step() -> None:
        module(x).sum().backward()
        for weight in module.parameters():
            weight.grad = None

    return step


@pytest.mark.parametrize("keep", [False, True], ids=["let go", "kept graph"])
def test_training_needs_no_more_than_eager(keep: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2048, 256)
    ours, eager = dynajit.compile(Deep(), backend="native", build="sync"), Deep()
    eager.load_state_dict(ours.state_dict())
    if keep:  # twice through the same graph: nothing of it may be gone
        grads = []
        for module in (ours, eager):
            out = module(x).square().mean()
            out.backward(retain_graph=True)
            out.backward()
            grads.append([weight.grad for weight in module.parameters()])
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                out.backward()
        for mine, theirs in zip(*grads, strict=True):
            torch.testing.assert_close(mine, theirs)
        return
    steps = _step(ours, x), _step(eager, x)
    for _ in range(2):
        for step in steps:
            step()
    assert [kernel for kernel in dynajit.report(ours).kernels if kernel.name.startswith("backward")]
    assert peak(steps[0]) <= 1.02 * peak(steps[1])


def test_a_call_that_takes_a_list_lets_go() -> None:
    def function(x: Any, y: Any, w: Any) -> Any:
        a = torch.mm(torch.exp(x) + y, w)
        return (torch.mm(torch.tanh(a) * 2, w) + 1,)

    args = [t(600, 200), t(600, 200, seed=1), t(200, 200, seed=2)]
    graph = native(symbolic_trace(function), args, Options(build="sync"), owned=True)
    wanted = function(*args)
    given = [arg.clone() for arg in args]
    assert torch.allclose(graph.fn(given)[0], wanted[0], rtol=1e-4)
    assert given == []
    odd = [arg.double() for arg in args]  # no kernel fits: the arguments are still there
    assert graph.fn(list(odd))[0].dtype == torch.float64
    assert torch.allclose(graph.fn(list(odd))[0], function(*odd)[0])

    def mine() -> None:
        given = [arg.clone() for arg in args]
        graph.fn(given)

    def theirs() -> None:
        function(*[arg.clone() for arg in args])

    assert peak(mine) < peak(theirs)


def test_what_a_kernel_cannot_do_after_memory_was_let_go() -> None:
    def function(x: Any, w: Any, table: Any, index: Any) -> Any:
        a = torch.mm(torch.exp(x) * 2, w)
        return (aten.embedding.default(table, index) * 2 + 1, torch.tanh(a) * 3)

    good = [t(8, 8), t(8, 8, seed=1), t(5, 8, seed=2), torch.tensor([1, 0, 4])]
    bad = [*good[:3], torch.tensor([1, 0, 7])]
    graph = native(symbolic_trace(function), good, Options(build="sync"), owned=True)
    for mine, wanted in zip(graph.fn(list(good)), function(*good), strict=True):
        torch.testing.assert_close(mine, wanted)
    with pytest.raises(IndexError):
        graph.fn(list(bad))


def test_what_waits_fits_beside_the_rest() -> None:
    """Eager: 8, then 2; ours needs 6 at once, so what waits for the next call may have 2, not 4."""
    eager = [Event((("a", 4 * MB), ("b", 4 * MB)), ("a", "b")), Event((("c", 2 * MB),), ())]
    ours = [Event((("big", 6 * MB),), ("big",)), Event((("p", 4 * MB),), ("p",)), Event((("q", 2 * MB),), ())]
    assert kept(eager, ours, {"p": 4 * MB, "q": 2 * MB}) == {"q"}
    ours[0] = Event((("big", 2 * MB),), ("big",))
    assert kept(eager, ours, {"p": 4 * MB, "q": 2 * MB}) == {"p", "q"}


def test_norms_and_sums_share_kernels_in_the_backward_pass() -> None:
    """x + a is read by the norm and by the next sum: it is kept, not computed again, and its gradient needs one kernel
    for the rows (with the gradient that comes past the norm) and one for the weights."""

    def function(x: Any, a: Any, w: Any, b: Any, m: Any) -> Any:
        h = x + a
        return h + torch.mm(F.layer_norm(h, (32,), w, b), m)

    args = [g(40, 32), g(40, 32, seed=1), g(32, seed=2), g(32, seed=3), g(32, 32, seed=4)]
    graph = both(function, args, exact=False)
    assert len(kernels(graph, "backward")) == 2
    assert not any("native_layer_norm_backward" in note for note in graph.schedule if "runs as it stands" in note)


def test_the_gradient_of_gelu_is_one_kernel_behind_a_product() -> None:
    def function(x: Any, w: Any, v: Any) -> Any:
        return torch.mm(F.gelu(torch.mm(F.gelu(torch.mm(x, w)), v)), w)

    graph = both(function, [g(30, 16), g(16, 16, seed=1), g(16, 16, seed=2)], exact=False)
    assert len([k for k in kernels(graph, "backward") if "gelu_backward.default" in k.ops]) == 2


def test_small_results_are_made_early() -> None:
    """A sum of what is large runs before what needs the memory next."""

    def function(x: Any, w: Any) -> Any:
        a = torch.mm(x, w)
        b = torch.mm(a, w)
        return torch.mm(b, w), (a * a).sum(0), (b * 2).sum(0)

    wrapper = every_kernel(symbolic_trace(function), [t(300, 200), t(200, 200, seed=1)]).wrapper
    order = [line.strip().split(" = ")[0] for line in wrapper.splitlines() if " = " in line and "None" not in line]
    assert order.index("sum_1") < order.index("mm_1")
    assert order.index("sum_2") < order.index("mm_2")


def test_wide_columns_are_right() -> None:
    """Two tiles of columns, the second not whole; with blocks for a function between."""

    def function(x: Any) -> Any:
        return torch.exp(x).sum(0), x.double().sum(0)

    assert kernels(compiled(function, t(37, 1500)))
    both(lambda x: (torch.exp(x) * 2).sum(0), [g(37, 1500)])


def test_a_block_that_a_function_takes_in_every_row() -> None:
    """A value of the columns, kept before the rows begin, goes into a function of each row; with a sum beside it."""

    def function(x: Any, y: Any, z: Any) -> Any:
        power = torch.pow(x, y - 1)
        return power * z, (x * z).sum(0)

    args = [t(30, 700).abs() + 0.5, t(700, seed=1), t(30, 700, seed=2)]
    graph = every_kernel(symbolic_trace(function), args)
    for mine, wanted in zip(graph.fn(*args), function(*args), strict=True):
        torch.testing.assert_close(mine, wanted)


def test_no_kernel_makes_nothing() -> None:
    """What was computed for one reader is computed again by another, and then nobody reads it from memory."""
    graph = compiled(lambda x, y: torch.pow(x, y), g(5, 10, 5), g(10, 5, seed=1))
    assert all(kernel.writes for kernel in kernels(graph))


def test_both_passes_are_built_before_the_first_call_returns() -> None:
    def function(x: Any, w: Any) -> Any:
        return torch.tanh(x * w + 3.25) * torch.sigmoid(x) + torch.exp(-x.abs()) * 1.75

    made = native(symbolic_trace(lambda x, w: (function(x, w),)), [g(50, 70), g(70, seed=1)], Options(build="sync"))
    launched = kernels(made)
    assert {kernel.name.startswith("backward") for kernel in launched} == {False, True}
    assert made.fn.__self__.first.forward.fn.__self__.forms  # type: ignore[attr-defined]
    (half,) = made.fn.__self__.first.backwards.values()  # type: ignore[attr-defined]
    assert half.fn.__self__.forms
