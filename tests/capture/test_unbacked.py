"""Numbers and sizes that a tensor's data decides: in the graph as long as nothing depends on them."""

import math
import warnings

import pytest
import torch
from programs import T, assert_same, observe, program

import dynajit
from dynajit import CompileError

THREE = torch.tensor(3)


@program(T(5))
def scalars(x):
    n = x.sum().item()
    return x * n, n + 1, x + n * 2, -n, abs(n), n / 3


@program(torch.tensor(7))
def conversions(i):
    return int(i), float(i), int(i) // 2, i.item() % 4, float(i) ** 2


@program(T(5))
def a_list_of_numbers(x):
    return sum(x.tolist()), x * 2, x.tolist()[1] * 3, len(x.tolist())


@program(torch.arange(6), graphs=2, breaks="DJ-D002")
def a_branch_waits_for_the_data(x):
    y = x * 2
    n = y.max().item()
    return y + 1 if n > 9 else y - 1


@program(THREE, T(5), graphs=2, breaks="DJ-D002")
def a_size_waits_for_the_data(i, x):
    n = i.item()
    return torch.zeros(n) + 1, x[:n]


@program(T(3), graphs=2, breaks="DJ-D002")
def python_wants_the_number(x):
    n = x.sum().item()
    return f"{n:.3f}", math.floor(n), x * 2


@program(torch.tensor(0), graphs=(0, 1, 2), breaks="| DJ-D002")
def errors_are_eagers(i):
    return 1 // i.item()


@program(torch.tensor([1, 0]))
def errors_of_later_arithmetic(x):
    a, b = x.tolist()
    y = x * 2
    return y, a // b


def whole(fn, *args):
    """One graph under `fullgraph=True`, right for these arguments, twice."""
    dynajit.reset()
    graphs = []

    def backend(gm, examples):
        graphs.append(gm)
        return gm.forward

    compiled = dynajit.compile(fn, backend=backend, fullgraph=True)
    for _ in range(2):
        assert_same(observe(compiled, args, {}), observe(fn, args, {}), fn.__name__)
    assert len(graphs) == 1
    return compiled


def test_sizes_under_fullgraph():
    def f(i, x):
        n = i.item()
        made = torch.zeros(n, 4) + 1
        return made.sum(1), made.view(-1), made.shape[1], made @ torch.ones(4, 2), torch.arange(n), x[:n], made.shape[0]

    compiled = whole(f, THREE, T(5))
    for n in (0, 1, 2, 5):
        arguments = (torch.tensor(n), T(5))
        assert_same(observe(compiled, arguments, {}), observe(f, arguments, {}), str(n))


def test_selections_under_fullgraph():
    def f(x):
        rows = x.nonzero()
        return rows.shape[0], rows.sum(1), x[x > 0] * 2, torch.masked_select(x, x > 0).sum(), x[x[:, 0] > 0].softmax(1)

    compiled = whole(f, T(5, 3))
    for seed in range(4):
        arguments = (T(5, 3, seed=seed),)
        assert_same(observe(compiled, arguments, {}), observe(f, arguments, {}), str(seed))


def test_conditions_that_the_graph_checks():
    def f(i):
        n = i.item()
        torch._check(n >= 2)
        torch._check_is_size(n)
        return torch.ones(n).sum()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        compiled = whole(f, THREE)
        assert compiled(torch.tensor(5)) == 5
        with pytest.raises(RuntimeError, match="Expected cond to be True"):
            compiled(torch.tensor(1))


def test_a_branch_under_fullgraph_is_an_error():
    @dynajit.compile(backend="eager", fullgraph=True)
    def f(i, x):
        return x + 1 if i.item() > 2 else x - 1

    with pytest.raises(CompileError, match="a tensor's data is needed in Python"):
        f(THREE, T(3))


def test_gradients_of_a_selection():
    def f(x):
        return (x[x > 0] * 2).sum()

    compiled = whole(f, T(6))
    one, other = T(6, grad=True), T(6, grad=True)
    f(one).backward()
    compiled(other).backward()
    assert torch.equal(one.grad, other.grad)
