"""Sizes and numbers that change between calls: how many graphs they cost, and that every call is eager's."""

import contextlib
import copy
import operator

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from programs import T, assert_same, observe
from torch import nn

import dynajit
from dynajit import events
from dynajit.errors import Skip
from dynajit.evaluate.plan import Plan, Replan


def across(fn, calls, graphs, **options):
    """Run `fn` for each of `calls`, compiled and not; count the graphs."""
    dynajit.reset()
    seen: list[events.Event] = []
    with events.subscribed(seen.append):
        compiled = dynajit.compile(fn, backend="eager", **options)
        for args in calls:
            expected = observe(fn, _copies(args), {})
            assert_same(observe(compiled, _copies(args), {}), expected, str([getattr(a, "shape", a) for a in args]))
    made = sum(isinstance(event, events.EntryAdded) for event in seen)
    told = [event.words for event in seen if isinstance(event, events.GuardFailed)]
    assert made == graphs, told
    return compiled


def _copies(args):
    return copy.deepcopy(args)  # strides and all


def rows(*sizes, width=4):
    return [(T(n, width),) for n in sizes]


POSITIONS = T(16, 4)
WEIGHT = T(3, 2, 3, 3)


def pointwise(x):
    return x.sin() + 1


def reads_sizes(x):
    return x.view(x.shape[0], -1) * x.shape[0], x.shape[0] + 1, len(x), x.numel(), x.size(), x.shape, x.size(-1)


def makes_tensors(x):
    return torch.cat([x, torch.zeros(x.shape[0], 2)], 1), torch.arange(x.size(0)), x.new_ones(len(x), 3)


def reshapes(x):
    return x.reshape(x.shape[0] * 2, -1), x.flatten(), x.t().contiguous(), x.unsqueeze(1).expand(-1, 3, -1)


def table_lookup(x):
    return x + POSITIONS[: x.shape[0]]


def reduces(x):
    return x.sum(0) / x.shape[0], x.mean(), x.softmax(0), x.amax(1)


def convolves(x):
    y = F.max_pool2d(F.relu(F.conv2d(x.view(-1, 2, 4, 4), WEIGHT, padding=1)), 2)
    return y.flatten(1), y.shape[0]


@pytest.mark.parametrize("fn", [pointwise, reads_sizes, makes_tensors, reshapes, table_lookup, reduces])
def test_the_second_size_compiles_for_all(fn):
    across(fn, rows(3, 5, 7, 9, 16, 4, 6), graphs=2)


def test_a_batch_of_images():
    across(convolves, [(T(n, 32),) for n in (3, 5, 7, 9, 2)], graphs=2)


def test_one_and_zero_are_sizes_of_their_own():
    across(pointwise, rows(3, 5, 1, 0, 1, 0, 8, 2), graphs=4)


def test_two_sizes_that_change():
    def f(x, y):
        return x @ y

    across(f, [(T(n, 4), T(4, k)) for n, k in ((3, 2), (5, 6), (7, 8), (9, 9), (2, 5))], graphs=2)


def test_sizes_that_must_be_equal_are_guarded_to_be_equal():
    def f(x, y):
        return x + y

    across(f, [(T(n, 4), T(n, 4)) for n in (3, 5, 7, 9)], graphs=2)
    mixed = [(T(3, 4), T(3, 4)), (T(5, 4), T(5, 4)), (T(7, 4), T(1, 4)), (T(1, 4), T(6, 4)), (T(5, 4), T(4, 4))]
    across(f, mixed, graphs=5)


def test_attention():
    def attention(x):
        batch, length, width = x.shape
        q = x.view(batch, length, 2, width // 2).transpose(1, 2)
        scores = q @ q.transpose(-1, -2) / (width // 2) ** 0.5
        mask = torch.ones(length, length).tril()
        scores = scores.masked_fill(mask == 0, float("-inf")).softmax(-1)
        return (scores @ q).transpose(1, 2).reshape(batch, length, width)

    shapes = ((2, 3), (4, 3), (4, 5), (6, 7), (5, 5), (3, 8))
    across(attention, [(T(*shape, 8),) for shape in shapes], graphs=3)


def test_a_branch_on_a_size_is_guarded_not_the_size():
    def f(x):
        return x + 1 if x.shape[0] > 5 else x - 1

    across(f, rows(3, 5, 7, 9, 4, 2, 11), graphs=3)

    def even(x):
        return x.view(2, -1) if x.shape[0] % 2 == 0 else x

    across(even, [(T(n),) for n in (4, 6, 8, 5, 7, 10, 9)], graphs=3)


def test_slices_follow_the_sizes():
    def f(x):
        y = x[1:-1]
        return x[:5], x[-3:], y, y.shape[0], x[: x.shape[0] // 2], x[None, ..., 1:].shape

    across(f, rows(6, 5, 7, 9, 16, 12), graphs=2)
    across(f, rows(6, 5, 3, 2, 4, 1, 0), graphs=7)


def test_indices_that_change():
    def f(x, n):
        return x[n], x * n, torch.zeros(n), x[n:], x[-n]

    across(f, [(T(10, 4), n) for n in (3, 4, 5, 9)], graphs=2)
    across(f, [(T(10, 4), n) for n in (3, 4, 20)], graphs=3)


@pytest.mark.parametrize("symbol", ["add", "sub", "mul", "floordiv", "mod", "truediv", "pow"])
def test_arithmetic_of_sizes(symbol):
    function = getattr(operator, symbol)

    def f(x):
        n = function(x.shape[0], 2)
        return x * n, n, -n, abs(n - 5), int(n), float(n), round(n)

    across(f, rows(3, 5, 7, 9), graphs=2)


def test_comparisons_with_two_sizes_are_one_relation():
    def f(x, y):
        return x.sum() + y.sum() if x.shape[0] < y.shape[0] else x.sum() * y.sum()

    calls = [(T(n), T(k)) for n, k in ((3, 5), (4, 6), (5, 8), (9, 7), (8, 2), (2, 3))]
    compiled = across(f, calls, graphs=3)
    assert any("x.shape[0] < y.shape[0]" in text for text in _guards(compiled))


def _guards(compiled):
    return [guard.words for guard in dynajit.report(compiled).guards]


def test_pieces_are_counted():
    def f(x):
        return [piece.sum() for piece in x.split(2)], x.chunk(2, 1)

    across(f, rows(6, 8, 4, 6), graphs=3)


def test_loops_over_a_size_are_unrolled_for_each():
    def f(x):
        total = x.sum()
        for i in range(x.shape[0]):
            total = total + x[i].sum() * i
        return total

    across(f, rows(3, 4, 5), graphs=3)


def test_squeeze_drops_ones_only():
    def f(x):
        return x[1:].squeeze(), x.squeeze(0)

    across(f, rows(4, 5, 6, 2, 3, 1), graphs=4)


def test_strides_that_are_not_plain():
    def f(x):
        return x * 2, x.is_contiguous(), x.reshape(-1)

    across(f, [(T(4, n).t(),) for n in (3, 5, 7, 9)], graphs=4)

    def g(x):
        return x.t() * 2

    across(g, [(T(4, n).t(),) for n in (3, 5, 7, 9)], graphs=2)
    across(g, [(T(n, 8)[:, :4],) for n in (3, 5, 7, 9)], graphs=2)
    across(g, [(T(4).expand(n, 4),) for n in (3, 5, 7, 9)], graphs=2)
    across(g, [(T(3, 4),), (T(5, 4),), (T(4, 6).t(),), (T(7, 8)[:, :4],), (T(8, 4),)], graphs=4)


def test_sizes_of_attributes_globals_and_containers():
    class Cache:
        def __init__(self):
            self.keys = T(2, 4)

    def f(x, cache, extra):
        cache.keys = torch.cat([cache.keys, x])
        return cache.keys.sum(0) + extra["bias"][: x.shape[1]], cache.keys.shape[0]

    cache, plain = Cache(), Cache()
    compiled = dynajit.compile(f, backend="eager")
    seen: list[events.Event] = []
    with events.subscribed(seen.append):
        for n in (1, 1, 1, 1, 1, 2, 3, 1):
            extra = {"bias": T(4 + n)}
            first, second = f(T(n, 4), plain, extra), compiled(T(n, 4), cache, extra)
            assert torch.equal(first[0], second[0])
            assert first[1] == second[1]
    assert sum(isinstance(event, events.EntryAdded) for event in seen) <= 5


def test_numbers_from_anywhere():
    class Config:
        rate = 0.5

    config = Config()
    config.steps = 1

    def f(x, numbers):
        return x * config.steps + numbers["a"] * 2

    compiled = dynajit.compile(f, backend="eager")
    seen: list[events.Event] = []
    with events.subscribed(seen.append):
        for step in range(6):
            config.steps = step + 3
            assert torch.equal(compiled(T(3), {"a": step * 2 + 5}), f(T(3), {"a": step * 2 + 5}))
    assert sum(isinstance(event, events.EntryAdded) for event in seen) == 2


@pytest.mark.parametrize("kind", [np.int64, np.float32, np.float64, np.uint8])
def test_numbers_of_numpy(kind):
    def f(x, n):
        return x * n, n + 1, n / 2, x + 1 if n > 5 else x

    calls = [(T(3), kind(n)) for n in (2, 3, 4, 7, 8, 2)]
    across(f, calls, graphs=3)


def test_numbers_of_numpy_beside_sizes():
    """Relations between a size and a number of NumPy are written down as what they are."""

    def f(x, positions):
        ends, length = positions.numpy(), x.shape[1]
        weights = [1 - (ends[0] - j) / length for j in range(ends[0])]
        weights += [0 for _ in range(ends[0], ends[1] + 1)]
        weights += [1 - (j - ends[1]) / length for j in range(ends[1] + 1, length)]
        return torch.tensor(weights) * x

    compiled = dynajit.compile(f, backend="eager")
    for n in (4, 5, 6, 7):
        x, positions = T(2, n), torch.tensor([1, 2])
        assert torch.equal(compiled(x, positions), f(x, positions))


def test_gradients_through_symbolic_sizes():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.second = nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2)

        def forward(self, x):
            return self.second(torch.relu(self.norm(self.first(x)))).view(x.shape[0], 2, 1)

    net = Net()
    compiled = dynajit.compile(Net(), backend="eager")
    compiled.load_state_dict(net.state_dict())
    seen: list[events.Event] = []
    with events.subscribed(seen.append):
        for n in (3, 5, 7, 2):
            net.zero_grad()
            compiled.zero_grad()
            net(T(n, 4)).square().mean().backward()
            compiled(T(n, 4)).square().mean().backward()
            for one, other in zip(net.parameters(), compiled.parameters(), strict=True):
                assert torch.equal(one.grad, other.grad)
    assert sum(isinstance(event, events.EntryAdded) for event in seen) == 2


# ---- options and marks ----
def test_dynamic_says_so_at_once_or_never():
    across(pointwise, rows(3, 5, 7, 1), graphs=2, dynamic=True)
    across(pointwise, rows(3, 5, 7), graphs=3, dynamic=False)


def test_marks():
    dynajit.reset()
    compiled = dynajit.compile(pointwise, backend="eager")
    seen: list[events.Event] = []
    with events.subscribed(seen.append):
        for n in (3, 5, 7):
            x = T(n, 4)
            dynajit.mark_dynamic(x, 0)
            assert torch.equal(compiled(x), pointwise(x))
    assert sum(isinstance(event, events.EntryAdded) for event in seen) == 1

    def static(x):
        return x + 1

    compiled = dynajit.compile(static, backend="eager")
    seen.clear()
    with events.subscribed(seen.append):
        for n in (3, 5, 7):
            x = T(n, 4)
            dynajit.mark_static(x)
            assert torch.equal(compiled(x), x + 1)
    assert sum(isinstance(event, events.EntryAdded) for event in seen) == 3
    for dim in (2, -3):
        with pytest.raises(dynajit.OptionError, match=f"no dimension {dim}"):
            dynajit.mark_dynamic(T(2, 2), dim)


def test_what_is_specialised_is_told():
    def f(x):
        return [x[i] for i in range(x.shape[0])]

    compiled = across(f, rows(3, 4, 5), graphs=3)
    assert any(text.startswith("x.shape[0] == ") for text in _guards(compiled))


def test_an_error_for_some_sizes_is_eagers():
    def f(x, y):
        z = x * 2
        return z + y

    across(f, [(T(3), T(3)), (T(5), T(5)), (T(6), T(7)), (T(8), T(8)), (T(4), T(9))], graphs=4)


def test_a_plan_that_nothing_helps_comes_to_an_end():
    plan = Plan()
    with pytest.raises(Skip):
        for _ in range(1000):
            with contextlib.suppress(Replan):
                plan.conflict((), frozenset())


def test_tensors_of_another_rank():
    """A dimension that was seen to change belongs to tensors that have it."""

    def function(x):
        return x.relu() * 2 + x.dim()

    compiled = dynajit.compile(function)
    for shape in [(3, 4, 5), (3, 4, 6), (7, 8), (9, 8), (5,), (6,), (), (3, 4, 9)]:
        x = torch.randn(shape)
        assert torch.equal(compiled(x), function(x))
