"""Both passes by native kernels: results, gradients, random numbers and running statistics are eager's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from against_eager import difference, every_kernel, t
from torch import nn
from torch.fx import symbolic_trace

from dynajit.backends import CompiledGraph


def g(*shape: int, seed: int = 0, **more: Any) -> torch.Tensor:
    return t(*shape, seed=seed, **more).requires_grad_()


def compiled(function: Callable[..., Any], *args: Any) -> CompiledGraph:
    """As captured graphs are: with a tuple of results."""
    gm = symbolic_trace(function)
    (output,) = gm.graph.find_nodes(op="output")
    if not isinstance(output.args[0], tuple):
        output.args = ((output.args[0],),)
        gm.recompile()
    return every_kernel(gm, args)


def both(
    function: Callable[..., Any],
    args: Sequence[Any],
    graph: CompiledGraph | None = None,
    exact: bool = True,
    use: Callable[[Sequence[Any]], Any] | None = None,
) -> CompiledGraph:
    """Results and gradients of the compiled function against eager's. use: results -> what is differentiated."""
    graph = graph or compiled(function, *args)
    assert graph.kernels, graph.notes
    found = []
    for call in (lambda *a: graph.fn(*a), lambda *a: function(*a)):
        given = [copy.deepcopy(arg) for arg in args]
        torch.manual_seed(3)
        results = call(*given)
        results = results if isinstance(results, tuple) else (results,)
        state = torch.get_rng_state()
        outs = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
        leaves = [x for x in given if isinstance(x, torch.Tensor) and x.requires_grad]
        if use is not None:
            grads = torch.autograd.grad(use(results), leaves, allow_unused=True)
        else:
            tangents = [t(*out.shape, seed=9).to(out.dtype) for out in outs]
            grads = torch.autograd.grad(outs, leaves, tangents, allow_unused=True)
        found.append((results, given, grads, state))
    (mine, after, grads, state), (wanted, given, expected, wanted_state) = found
    assert torch.equal(state, wanted_state)
    for a, b in [*zip(mine, wanted, strict=True), *zip(after, given, strict=True)]:
        assert getattr(a, "requires_grad", None) == getattr(b, "requires_grad", None)
        assert _same(a, b, exact) is None, _same(a, b, exact)
    for a, b in zip(grads, expected, strict=True):
        assert _same(a, b, exact) is None, _same(a, b, exact)
    return graph


def _same(a: Any, b: Any, exact: bool) -> str | None:
    a, b = (x.detach() if isinstance(x, torch.Tensor) else x for x in (a, b))
    return difference(a, b, exact, 2e-5) if (a is None) == (b is None) else f"{a}, want {b}"


def chain(x: Any, y: Any, z: Any) -> Any:
    a = x * y + z
    b = F.gelu(a, approximate="tanh")
    c = torch.tanh(b) * 0.5 + torch.exp(-a.abs())
    d = torch.sigmoid(c) * F.silu(b) - x
    return d * 1.1 + F.relu(y)


def test_a_chain_has_eagers_bits() -> None:
    graph = both(chain, [g(40, 50), g(40, 50, seed=1), g(40, 50, seed=2)])
    assert len({kernel.name.split()[0] for kernel in graph.kernels}) == 2  # "backward ..." and the forward kernel


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_dtypes(dtype: torch.dtype) -> None:
    both(lambda x, y: torch.tanh(x * y) * torch.sigmoid(x + 1), [g(6, 50, dtype=dtype), g(6, 50, seed=1, dtype=dtype)])


def test_broadcast_operands_get_summed_gradients() -> None:
    both(lambda x, b, s: torch.tanh(x * s + b), [g(30, 64), g(64, seed=1), g(seed=2)], exact=False)


def test_layer_norm_with_a_residual() -> None:
    def function(x: Any, r: Any, w: Any, b: Any) -> Any:
        h = x + r
        return h, F.layer_norm(h, (64,), w, b)

    both(function, [g(30, 64), g(30, 64, seed=1), g(64, low=0.1), g(64, seed=2)], exact=False)


def test_softmax_and_log_softmax() -> None:
    both(lambda x: torch.softmax(x * 2, -1) + torch.log_softmax(x, 0), [g(20, 33)], exact=False)


def test_cross_entropy() -> None:
    target = torch.randint(0, 20, (30,), generator=torch.Generator().manual_seed(1))
    both(lambda x, y: F.cross_entropy(x * 2, y), [g(30, 20), target], exact=False)


def test_linear_layers_and_attention() -> None:
    def function(x: Any, w: Any, b: Any, u: Any) -> Any:
        q, k, v = F.linear(x, w, b).view(3, 5, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(3, 5, 16)
        return x + F.linear(F.silu(a), u)

    graph = both(function, [g(3, 5, 16), g(48, 16), g(48, seed=1), g(16, 16, seed=2)], exact=False)
    assert "_scaled_dot_product_flash_attention_for_cpu" in graph.wrapper


def test_dropout_draws_once() -> None:
    both(lambda x: F.dropout(torch.tanh(x), 0.3, True) * 2, [g(50, 40)])


def test_running_statistics_are_updated_once() -> None:
    def function(x: Any, mean: Any, var: Any, w: Any, b: Any) -> Any:
        return torch.relu(F.batch_norm(x * 1.5, mean, var, w, b, True)) * 2

    both(function, [g(8, 6, 4), torch.zeros(6), torch.ones(6), g(6, low=0.1), g(6, seed=1)])


def test_results_without_a_gradient() -> None:
    both(lambda x, y: (torch.exp(x) * y, (x > 0) & (y > 0), (y * 2).detach() + 1), [g(9, 9), g(9, 9, seed=1)])


def test_an_input_is_a_result_and_one_result_is_twice() -> None:
    def function(x: Any, y: Any) -> Any:
        z = torch.sin(x) * 2
        return z, y, z

    x, y = g(9, 9), t(9, 9)
    graph = compiled(function, x, y)
    first, second, third = graph.fn(x, y)
    assert graph.kernels
    assert first is third
    assert second is y


def test_the_same_tensor_twice() -> None:
    x, tangent = g(9, 9), t(9, 9, seed=4)
    graph = compiled(lambda a, b: torch.sin(a) * b * 2, x, x)
    assert graph.kernels
    (mine,) = torch.autograd.grad(graph.fn(x, x)[0], x, tangent)
    (wanted,) = torch.autograd.grad(torch.sin(x) * x * 2, x, tangent)
    assert torch.equal(mine, wanted)


def test_an_input_that_nothing_depends_on() -> None:
    both(lambda x, y: torch.sin(x) * 2 + y.detach(), [g(9, 9), g(9, 9, seed=1)])


def test_gradients_that_nobody_asks_for() -> None:
    graph = both(lambda x, y: (torch.sin(x) * 2, torch.cos(y) * 3), [g(9, 9), g(9, 9)], use=lambda r: r[0].sum())
    both(lambda x, y: (torch.sin(x) * 2, torch.cos(y) * 3), [g(9, 9), g(9, 9)], graph, use=lambda r: r[1].sum())


def test_gradients_laid_out_in_other_ways() -> None:
    def function(x: Any) -> Any:
        return torch.tanh(x) * x

    graph = both(function, [g(12, 7)], use=lambda r: r[0].sum())  # expanded
    both(function, [g(12, 7)], graph, use=lambda r: (r[0].t().contiguous() * t(7, 12)).sum())  # transposed
    both(function, [g(12, 7)], graph, use=lambda r: (r[0][:, ::2] * t(12, 4)).sum())
    both(function, [g(12, 7)], graph)


def test_inputs_of_other_shapes() -> None:
    def function(x: Any, w: Any) -> Any:
        return (torch.tanh(x) * w).mean(-1)

    graph = both(function, [g(12, 7), g(7)], exact=False)
    for shape in ((5, 7), (12, 3), (2, 12, 7)):
        both(function, [g(*shape), g(shape[-1])], graph, exact=False)
    both(function, [g(12, 7), t(7)], graph, exact=False)
    x = t(12, 7)
    assert difference(graph.fn(x, x[0])[0], function(x, x[0]), False) is None


def test_log_sigmoid() -> None:
    both(lambda x: F.logsigmoid(x) * 2, [g(9, 9)])


def test_a_view_of_a_result_that_changes_nothing() -> None:
    def function(x: Any) -> Any:
        made = torch.aminmax(x * 2)
        return made[0], made[1]

    both(function, [g()])


def test_a_second_backward_pass() -> None:
    def function(x: Any) -> Any:
        return torch.tanh(x) * torch.sin(x)

    x = g(9, 9)
    graph = compiled(function, x)
    y = graph.fn(x)[0]
    first = torch.autograd.grad(y, x, torch.ones_like(y), retain_graph=True)[0]
    second = torch.autograd.grad(y, x, torch.ones_like(y))[0]
    assert torch.equal(first, second)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(y, x, torch.ones_like(y))


def test_gradients_of_gradients() -> None:
    def function(x: Any, y: Any) -> Any:
        return torch.tanh(x) * torch.sin(y) * x

    graph, found = None, []
    for compile_it in (True, False):
        base = g(9, 9)
        x, y = base * 2, g(9, 9, seed=1)
        z = x.exp()
        graph = compiled(function, x.detach().requires_grad_(), z.detach().requires_grad_()) if compile_it else graph
        out = graph.fn(x, z)[0] if compile_it else function(x, z)
        (first,) = torch.autograd.grad(out.pow(2).sum(), base, create_graph=True)
        found.append((first.detach(), *torch.autograd.grad((first * y).sum(), [base])))
    for mine, wanted in zip(*found, strict=True):
        assert difference(mine, wanted, False, 1e-5) is None


def test_gradients_of_gradients_through_dropout() -> None:
    def function(x: Any) -> Any:
        return F.dropout(torch.tanh(x) * x, 0.5, True)

    found = []
    graph = compiled(function, g(30, 9))
    assert graph.kernels
    for call in (lambda x: graph.fn(x)[0], function):
        x = g(30, 9)
        torch.manual_seed(1)
        (first,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(first.pow(2).sum(), x)[0])
    assert difference(found[0], found[1], False, 1e-5) is None


def test_a_write_to_what_is_saved_is_noticed() -> None:
    x = g(9, 9)
    y = x * 1
    graph = compiled(lambda v: torch.sin(v) * v, y.detach().requires_grad_())
    out = graph.fn(y)[0]
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_modules_train_alike() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.SiLU(), nn.Linear(16, 4))
    names = [name for name, _ in model.named_parameters()]

    def function(x: Any, *parameters: Any) -> Any:
        return torch.func.functional_call(model, dict(zip(names, parameters, strict=True)), (x,))

    def layers(x: Any, w1: Any, b1: Any, scale: Any, shift: Any, w2: Any, b2: Any) -> Any:
        return F.linear(F.silu(F.layer_norm(F.linear(x, w1, b1), (16,), scale, shift)), w2, b2)

    x, target = t(10, 8), t(10, 4, seed=1)
    losses = []
    for compile_it in (True, False):
        parameters = [p.detach().clone().requires_grad_() for p in model.parameters()]
        optimizer = torch.optim.Adam(parameters, 0.01)
        call = function
        if compile_it:
            graph = compiled(layers, x, *parameters)
            assert any(kernel.name.startswith("backward") for kernel in graph.kernels)
            call = lambda *args, graph=graph: graph.fn(*args)[0]  # noqa: E731
        for _ in range(20):
            optimizer.zero_grad()
            loss = F.mse_loss(call(x, *parameters), target)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert abs(losses[0] - losses[1]) < 1e-4 * losses[1]


def test_results_that_share_memory_stay_with_eager() -> None:
    graph = compiled(lambda x: (torch.sin(x) * 2, x.t()), g(9, 9))
    assert not graph.kernels
    assert "shares memory" in graph.notes[0]
    x = g(9, 9)
    assert graph.fn(x)[1].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
