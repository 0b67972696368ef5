"""Fewer calls, the same results: views of views, equal calls, products as eager calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from against_eager import every_kernel
from torch.fx import Graph, GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

import dynajit
from dynajit.lower.common import without_repeats
from dynajit.lower.joint import joint
from dynajit.lower.tidy import tidy
from dynajit.schedule.cut import halve

aten: Any = torch.ops.aten


def tidied(function: Callable[..., Any], *args: torch.Tensor) -> GraphModule:
    gm = make_fx(function)(*args)
    for node in gm.graph.nodes:
        if isinstance(node.meta.get("val"), torch.Tensor):
            node.meta["val"] = node.meta["val"].to("meta")
    tidy(gm.graph)
    gm.recompile()
    mine, wanted = gm(*args), function(*args)
    for a, b in zip(mine, wanted, strict=True):
        assert torch.equal(a, b)
        assert a.stride() == b.stride()
    return gm


def calls(gm: GraphModule) -> list[Any]:
    return [node.target for node in gm.graph.nodes if node.op == "call_function"]


def test_a_view_of_a_view_is_one_view() -> None:
    gm = tidied(lambda x: (x.view(6, 4).view(2, 12).view(4, 6) * 2,), torch.randn(24))
    assert calls(gm) == [aten.view.default, aten.mul.Tensor]


def test_equal_calls_are_made_once() -> None:
    gm = tidied(lambda x: (torch.tanh(x) * 2 + torch.tanh(x) * 3, torch.tanh(x) + 1), torch.randn(5))
    assert calls(gm).count(aten.tanh.default) == 1


def test_numbers_of_different_types_are_different_calls() -> None:
    gm = tidied(lambda x: (torch.pow(x, 2) + torch.pow(x, 2.0) + torch.pow(x, True),), torch.arange(4))
    assert calls(gm).count(aten.pow.Tensor_Scalar) == 3


def test_results_do_not_come_to_share_memory() -> None:
    gm = tidied(lambda x: (torch.tanh(x), torch.tanh(x), torch.exp(x), torch.exp(x).view(-1)), torch.randn(5))
    assert calls(gm).count(aten.tanh.default) == 2
    assert calls(gm).count(aten.exp.default) == 2


def test_random_numbers_are_drawn_as_often() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(4, device="meta")
    drawn = [graph.call_function(aten.rand_like.default, (x,)) for _ in range(3)]
    for node in drawn:
        node.meta["val"] = x.meta["val"]
    graph.output((graph.call_function(aten.add.Tensor, (drawn[0], drawn[1])),))
    tidy(graph)
    assert sum(node.target is aten.rand_like.default for node in graph.nodes) == 3


def test_writes_keep_everything_where_it_is() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    first = graph.call_function(aten.tanh.default, (x,))
    graph.call_function(aten.add_.Tensor, (x, 1))
    graph.output((graph.call_function(aten.add.Tensor, (first, graph.call_function(aten.tanh.default, (x,)))),))
    tidy(graph)
    assert sum(node.target is aten.tanh.default for node in graph.nodes) == 2


@pytest.mark.parametrize("shape", [(3, 5, 8), (15, 8), (2, 3, 4, 8)])
def test_linear_is_one_call_again(shape: tuple[int, ...]) -> None:
    x, w, b = torch.randn(shape), torch.randn(6, 8, requires_grad=True), torch.randn(6, requires_grad=True)
    gm = torch.fx.symbolic_trace(lambda x, w, b: (torch.tanh(F.linear(torch.sin(x), w, b)),))
    made = joint(gm, [x, w, b])
    halves = halve(made, made.results)
    assert halves is not None
    assert F.linear in calls(halves.forward)
    assert aten.addmm.default not in calls(halves.forward)
    result, *saved = halves.forward(x, w, b)
    assert torch.equal(result, gm(x, w, b)[0])
    tangent = torch.randn_like(result)
    gradients = halves.backward(*saved, tangent)
    wanted = torch.autograd.grad(gm(x, w, b)[0], [w, b], tangent)
    assert all(torch.equal(a, b) for a, b in zip(gradients, wanted, strict=True))


def test_a_function_of_what_all_rows_share_reads_it_where_it_is() -> None:
    x, y = torch.rand(40, 30).add(0.5).requires_grad_(), torch.rand(30).add(0.5)
    gm = torch.fx.symbolic_trace(lambda x, y: (torch.pow(x, y - 1) * (y - 1), torch.pow(x, y - 1).sum(0)))
    graph = every_kernel(gm, [x.detach(), y])
    for a, b in zip(graph.fn(x.detach(), y), gm(x.detach(), y), strict=True):
        torch.testing.assert_close(a, b)


def test_statistics_are_updated_as_often() -> None:
    def function(x: Any, w: Any, mean: Any, var: Any) -> Any:
        return (F.batch_norm(x, mean, var, w, training=True) + F.batch_norm(x, mean, var, w, training=True),)

    x, w = torch.randn(6, 3), torch.ones(3, requires_grad=True)
    found = []
    for call in (every_kernel(torch.fx.symbolic_trace(function), [x, w, torch.zeros(3), torch.ones(3)]).fn, function):
        mean, var = torch.zeros(3), torch.ones(3)
        found.append((*call(x, w, mean, var), mean, var))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)


def test_heads_share_their_norm() -> None:
    norm, heads = torch.nn.LayerNorm(8), torch.nn.ModuleList(torch.nn.Linear(8, 4) for _ in range(4))

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([head(norm(x)) for head in heads], -1)

    x = torch.randn(5, 8)
    for grad in (True, False):
        kept: list[Any] = []

        def backend(gm: GraphModule, inputs: Any, kept: list[Any] = kept) -> Any:
            kept.append(every_kernel(gm, inputs))
            return kept[-1].fn

        with torch.set_grad_enabled(grad):
            torch.testing.assert_close(dynajit.compile(function, backend=backend)(x), function(x))
        assert "native_layer_norm_default_3" not in kept[0].wrapper
        forward = [kernel for kernel in kept[0].kernels if kernel.launched and not kernel.name.startswith("backward")]
        assert sum("layer_norm" in " ".join(kernel.ops) for kernel in forward) == 1


def repeated(function: Callable[..., Any], *args: Any) -> int:
    """How many calls fewer the graph has, with the same results."""
    graph = torch.fx.symbolic_trace(function).graph
    once = without_repeats(graph)
    assert len(without_repeats(once).nodes) == len(once.nodes)
    given = [arg.clone() for arg in args]
    results = GraphModule({}, once)(*given)
    for a, b in zip(results, function(*args), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(given, args, strict=True):
        assert torch.equal(a, b)
    return len(graph.nodes) - len(once.nodes)


@pytest.mark.parametrize(
    ("function", "fewer"),
    [
        (lambda x: (x.exp() * 2 + x.exp() * 3,), 1),
        (lambda x: (F.layer_norm(x, (4,)) + 1, F.layer_norm(x, (4,)) * 2), 1),
        (lambda x: (torch.pow(x, 2) + torch.pow(x, 2.0),), 0),
        (lambda x: (x.exp(), x.exp()), 0),
        (lambda x: (x.exp().view(-1), x.exp() + 1), 0),
        (lambda x: ((x.exp() + 1).view(-1), x.exp() + 1, x.exp() * 2), 2),
        (lambda x: (F.relu(x, inplace=True) + x.exp() * x.exp(),), 0),
        (lambda x: (x.exp() + x.add_(1) + x.exp(),), 0),
        (lambda x: (torch.rand_like(x) * 0 + torch.rand_like(x) * 0,), 0),
        (lambda x: (x[0:1].exp() + x[0:1].exp() + x[:1].exp(),), 0),
        (lambda x: (-x.sum(0) + -x.sum(0) + -x.sum(0),), 4),
    ],
)
def test_repeats(function: Callable[..., Any], fewer: int) -> None:
    assert repeated(function, torch.randn(3, 4)) == fewer
