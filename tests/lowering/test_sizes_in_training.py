"""Training in many sizes: one form of both passes serves them all, with eager's gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule

import dynajit
from dynajit.backends import CompiledGraph, native
from dynajit.backends.training import TrainedForms
from dynajit.lower.formulas import Formula, find
from dynajit.lower.layouts import layout_of, strides_of
from dynajit.options import Options


class Graphs:
    """A backend that keeps what the native one made, and counts the calls that no form of it took."""

    def __init__(self) -> None:
        self.made: list[CompiledGraph] = []
        self.eager = 0

    def __call__(self, gm: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        made = native.native(gm, inputs, Options(), lone=True)
        self.made.append(made)
        forms = getattr(made.fn, "__self__", None)
        if isinstance(forms, TrainedForms):
            whole = forms.whole

            def counted(*args: Any) -> Any:
                self.eager += torch.is_grad_enabled()
                return whole(*args)

            forms.whole = counted
        return made.fn

    @property
    def last(self) -> TrainedForms:
        forms = getattr(self.made[-1].fn, "__self__", None)
        assert isinstance(forms, TrainedForms), self.made[-1].notes
        return forms


def halves(form: Any) -> list[Any]:
    return [form.forward.fn.__self__, *(half.fn.__self__ for half in form.backwards.values() if half is not None)]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, 2, 8).permute(2, 0, 3, 1, 4)
        scores = torch.softmax(q @ k.transpose(-2, -1) / 8**0.5, -1)
        return x + self.out((scores @ v).transpose(1, 2).reshape(batch, length, width))


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.place, self.head = nn.Embedding(20, 8), nn.Embedding(64, 8), nn.Linear(8, 20)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.table(tokens) + self.place(torch.arange(tokens.size(1))))
        logits = self.head(x)
        return F.cross_entropy(logits.view(-1, 20), tokens.reshape(-1)) * 2


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4), nn.Tanh())


def images() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.SiLU(), nn.Conv2d(4, 2, 1), nn.Sigmoid(), nn.Flatten())


class Statistics(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x * self.weight)
        return ((y - y.mean(0)) / (y.var(0) + 1).sqrt()).exp()


class Padded(nn.Module):
    """A mask over sizes, expanded and filled tensors, a transposed input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, m, c = x.shape
        y = torch.sigmoid(x * self.weight).reshape(n * m, c) + torch.zeros(n * m, c)
        scale = self.weight.expand(n, m, c) * 0.5
        return (y.view(n, m, c) * scale).transpose(0, 1).reshape(m, n * c) * n


CASES: dict[str, tuple[Callable[[], nn.Module], list[Any]]] = {
    "mlp": (mlp, [(n, 8) for n in (4, 7, 12, 5, 30, 2)]),
    "attention": (Attention, [(2, 5, 16), (3, 5, 16), (3, 7, 16), (6, 4, 16), (4, 4, 16), (5, 9, 16)]),
    "tokens": (Tokens, [(3, 6), (5, 6), (5, 9), (2, 11), (7, 7), (4, 30)]),
    "images": (images, [(2, 3, 6, 6), (4, 3, 6, 6), (5, 3, 6, 6), (3, 3, 6, 6)]),
    "statistics": (Statistics, [(5, 6), (9, 6), (4, 6), (11, 6)]),
    "padded": (Padded, [(2, 3, 5), (4, 3, 5), (4, 6, 5), (5, 7, 5), (3, 3, 5), (6, 2, 5)]),
}


def given(shape: tuple[int, ...], model: nn.Module) -> torch.Tensor:
    if isinstance(model, Tokens):
        return torch.randint(0, 20, shape)
    return torch.randn(shape)


def step(function: Callable[[Any], Any], model: nn.Module, x: torch.Tensor) -> list[Any]:
    model.zero_grad()
    x = x.clone().requires_grad_(x.is_floating_point())
    result = function(x)
    (result * torch.linspace(0.5, 2, result.numel()).view_as(result)).sum().backward()
    return [result.detach(), x.grad, *(parameter.grad for parameter in model.parameters())]


@pytest.mark.parametrize("name", CASES)
def test_one_form_for_all_sizes(name: str) -> None:
    make, shapes = CASES[name]
    torch.manual_seed(0)
    model = make()
    graphs = Graphs()
    compiled = dynajit.compile(copy.deepcopy(model), backend=graphs)
    for shape in shapes:
        x = given(shape, model)
        mine, wanted = step(compiled, compiled, x), step(model, model, x)
        for a, b in zip(mine, wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5)
    captures = len(graphs.made)
    assert captures <= 3  # static, then one symbolic size, then the other
    forms = graphs.last
    assert len(forms.forms) == 1
    assert graphs.eager == 0
    (form,) = forms.forms.values()
    assert form is not None
    assert form.roots
    assert [len(half.forms) for half in halves(form)] == [1] * len(halves(form))


def test_sizes_of_one_have_forms_of_their_own() -> None:
    torch.manual_seed(0)
    model, graphs = mlp(), Graphs()
    compiled = dynajit.compile(copy.deepcopy(model), backend=graphs)
    for n in (4, 7, 1, 9, 1, 12):
        x = torch.randn(n, 8)
        for a, b in zip(step(compiled, compiled, x), step(model, model, x), strict=True):
            torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5)
    assert graphs.eager == 0


def test_inputs_of_another_order_have_a_form_of_their_own() -> None:
    torch.manual_seed(0)
    model, graphs = mlp(), Graphs()
    compiled = dynajit.compile(copy.deepcopy(model), backend=graphs, dynamic=True)
    for n in (4, 7, 9):
        for x in (torch.randn(n, 3, 8), torch.randn(3, n, 8).transpose(0, 1)):
            for a, b in zip(step(compiled, compiled, x), step(model, model, x), strict=True):
                torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5)
    assert graphs.eager == 0


def test_gradients_of_other_layouts() -> None:
    weight = torch.randn(6, requires_grad=True)
    graphs = Graphs()

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * weight) * torch.sigmoid(x)

    compiled = dynajit.compile(function, backend=graphs, dynamic=True)
    for n in (3, 5, 8):
        x = torch.randn(n, 6)
        for use in (
            lambda y: y.sum(),
            lambda y: (y * y).sum(),
            lambda y: (y.t() * torch.ones(y.t().shape)).sum(),
            lambda y: y.mean(0).sum(),
        ):
            (mine,) = torch.autograd.grad(use(compiled(x)), weight)
            (wanted,) = torch.autograd.grad(use(function(x)), weight)
            torch.testing.assert_close(mine, wanted)
    assert graphs.eager == 0


def test_second_derivatives_in_another_size() -> None:
    weight = torch.randn(6, requires_grad=True)
    graphs = Graphs()

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * weight) * torch.sigmoid(x) * x.size(0)

    compiled = dynajit.compile(function, backend=graphs, dynamic=True)
    for n in (3, 5, 8):
        found = []
        for call in (compiled, function):
            (first,) = torch.autograd.grad(call(torch.ones(n, 6)).sum(), weight, create_graph=True)
            found += torch.autograd.grad((first * first).sum(), weight)
        torch.testing.assert_close(found[0], found[1])


def test_formulas() -> None:
    sizes = [(6, 606), (5, 535)]
    for now, later, wanted in [
        (6, 606, Formula((0,))),
        (30, 606 * 535, Formula((0, 1))),
        (24, 2424, Formula((0,), times=4)),
        (7, 607, Formula((0,), plus=1)),
        (11, 606 + 535, Formula((0, 1), summed=True)),
        (1 / 29, 1 / (606 * 535 - 1), Formula((0, 1), plus=-1, above=1.0)),
    ]:
        assert find(sizes, now, later, divides=False) == wanted
    assert find(sizes, 3, 303, divides=False) is None
    assert find(sizes, 3, 303, divides=True) == Formula((0,), over=2)
    assert find(sizes, 17, 900, divides=True) is None
    assert find(sizes, True, False, divides=True) is None


@pytest.mark.parametrize(
    ("shape", "strides", "layout"),
    [
        ((2, 3), (3, 1), ("order", (0, 1))),
        ((2, 3), (1, 2), ("order", (1, 0))),
        ((2, 3), (0, 1), ("strides", (0, 1))),
        ((), (), ("order", ())),
    ],
)
def test_layouts(shape: tuple[int, ...], strides: tuple[int, ...], layout: Any) -> None:
    assert layout_of(shape, strides) == layout
    assert strides_of(layout, shape) == strides


def test_a_size_and_what_fills_it_both_differ() -> None:
    def function(x: torch.Tensor, n: int, v: float) -> tuple[torch.Tensor, ...]:
        return torch.full((n, 3), v) + x, torch.full((n, 3), n) * 2 + x, x.new_full((n, 3), v) * x

    compiled = dynajit.compile(function, backend=lambda gm, inputs: native.native(gm, inputs, Options(), lone=True).fn)
    for n, v in [(3, 0.5), (4, 1.5), (5, 2.5), (5, 3.5), (6, 3.5)]:
        x = torch.randn(n, 3)
        for a, b in zip(compiled(x, n, v), function(x, n, v), strict=True):
            assert torch.equal(a, b)


def test_a_constant_made_inside() -> None:
    """As a cache of keys begins: empty, and joined with what comes."""
    weight = torch.randn(6, requires_grad=True)
    graphs = Graphs()

    def function(x: torch.Tensor) -> torch.Tensor:
        empty = torch.tensor([], dtype=torch.float32)
        return torch.tanh(torch.cat([empty, x * weight], -2)) * torch.tensor(0.5) + torch.sigmoid(x)

    compiled = dynajit.compile(function, backend=graphs)
    for n in (3, 5, 8):
        x = torch.randn(n, 6)
        (mine,) = torch.autograd.grad(compiled(x).square().sum(), weight)
        (wanted,) = torch.autograd.grad(function(x).square().sum(), weight)
        torch.testing.assert_close(mine, wanted)
        assert torch.equal(compiled(x), function(x))
    assert graphs.eager == 0
    assert isinstance(graphs.last, TrainedForms)


def turned(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    return x.view(columns, rows).softmax(0) + torch.full((columns, rows), rows * 0.5)


def partly_without_gradients(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        a = x.exp()
    return a * 2 + x.exp() * 3


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("function", [turned, partly_without_gradients])
def test_sizes_that_happen_to_be_equal(function: Callable[[torch.Tensor], torch.Tensor], grad: bool) -> None:
    """A view that turns a square into itself turns other shapes into others."""
    compiled = dynajit.compile(function, backend="native", build="sync")
    for shape in [(4, 4), (3, 4), (5, 4), (4, 3), (6, 7), (8, 8), (1, 4), (4, 1)]:
        x = torch.randn(shape, requires_grad=grad)
        mine, wanted = compiled(x), function(x)
        torch.testing.assert_close(mine, wanted, rtol=2e-5, atol=2e-5)
        if grad:
            pair = [torch.autograd.grad(y.square().sum(), x)[0] for y in (mine, wanted)]
            torch.testing.assert_close(*pair, rtol=2e-5, atol=2e-5)
