"""Parts of tensors, tensors put together, padded, turned around: eager's elements, without a copy of their own."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from against_eager import Row, check, difference, every_kernel, row, t
from torch.fx import Graph, GraphModule, symbolic_trace

from dynajit.backends.forms import MISS

F64, BF16, F16, I64, U8, BOOL = (*(torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool),)
DTYPES = [torch.float32, F64, BF16, F16, I64, torch.int32, torch.int16, torch.int8, U8, BOOL]
A, B = t(7, 33), t(7, 12, seed=1)

ROWS = [
    *(row(torch.cat, [t(7, 33, dtype=d), t(7, 12, dtype=d, seed=1)], 1) for d in DTYPES),
    *(row(torch.cat, [A, t(3, 33, seed=1)], d) for d in (0, -2)),
    row(torch.cat, [A, B, t(7, 3), t(7, 21)], 1),
    row(torch.cat, [A, B, t(7, 3), t(7, 21), B], 1, lowered=False),
    row(torch.cat, [A, t(7, 3, dtype=BF16), t(7, 9, dtype=I64)], 1),
    row(torch.cat, [t(7, 9, dtype=I64), t(7, 9, dtype=BOOL)], 1),
    row(torch.cat, [A, t(33, 7).t(), t(7, 66)[:, ::2]], 0),
    row(torch.cat, [A, A[:0]], 0, lowered=False),
    row(torch.cat, [t(2, 6, 5, 5).to(memory_format=torch.channels_last) for _ in range(2)], 1),
    row(torch.cat, [t(9), t(7)]),
    row(torch.cat, [t(7, 1), t(7, 11)], 1),
    row(torch.cat, [t(7, 3), t(7, 2)], 1, lowered=False),
    *(row(torch.stack, [A, t(7, 33, seed=1)], d) for d in (0, 1, -2)),
    row(torch.stack, [A, t(7, 33, seed=1)], 2, lowered=False),
    *(row(F.pad, t(7, 33, dtype=d), (2, 3)) for d in DTYPES),
    row(F.pad, A, (1, 2, 3, 0), value=-1.5),
    row(F.pad, A, (-1, 2, 3, -4), value=float("nan")),
    row(F.pad, A, (-1, -2)),
    row(F.pad, t(2, 3, 8, 8), (1, 1, 1, 1)),
    row(F.pad, t(2, 3, 8, 8).to(memory_format=torch.channels_last), (1, 1, 1, 1)),
    row(F.pad, t(7, 9, dtype=I64), (1, 1), value=3),
    *(
        row(F.pad, t(2, 7, 33, dtype=d), (2, 3), m)
        for m in ("replicate", "reflect")
        for d in (torch.float32, F64, BF16)
    ),
    *(row(F.pad, t(2, 3, 8, 9), (2, 0, 3, 1), m) for m in ("replicate", "reflect")),
    *(
        row(F.pad, t(2, 3, 8, 9).to(memory_format=torch.channels_last), (2, 3, 3, 1), m)
        for m in ("replicate", "reflect")
    ),
    *(row(torch.flip, t(7, 33, dtype=d), [1]) for d in DTYPES),
    *(row(torch.flip, t(4, 5, 12), dims) for dims in ([0], [1], [0, 2], [-1, -2], [])),
    *(row(torch.roll, t(7, 33, dtype=d), 5, 1) for d in DTYPES),
    *(row(torch.roll, t(7, 33), shift, 1) for shift in (-4, 33, -33, 40, 0)),
    row(torch.roll, t(4, 5, 12), (1, -2), (0, 2)),
    row(torch.roll, t(40), 3),
    row(torch.roll, A, 3, lowered=False),
    *(row("repeat", t(7, 33, dtype=d), 2, 3) for d in (torch.float32, I64, BOOL, BF16)),
    row("repeat", A, 3, 1, 2),
    row(torch.tile, A, (2, 2)),
    *(row(op, t(9, 12, dtype=d)) for op in (torch.tril, torch.triu) for d in DTYPES),
    *(row(op, t(3, 9, 12), k) for op in (torch.tril, torch.triu) for k in (-20, -2, 1, 20)),
    *(row("index_select", t(5, 9, 12), d, torch.tensor([3, 0, 3, 1]), skip="empty one-row gaps") for d in (0, 1, 2)),
    *(row(torch.gather, t(7, 33), d, torch.randint(0, 7, (7, 33)), skip="special") for d in (0, 1)),
    row(torch.slice_scatter, A, B, 1, 3, 15, skip="gaps"),
    row(torch.slice_scatter, A, t(2, 33, seed=1), 0, 5),
    row(torch.select_scatter, A, t(7), 1, 3),
    row(torch.select_scatter, A, t(33), 0, 0),
]


@pytest.mark.parametrize("case", ROWS, ids=lambda r: r.name)
def test_row(case: Row) -> None:
    check(case)


def same(
    function: Callable[..., Any],
    *args: Any,
    graph: Any = None,
    kernels: int = 1,
    exact: bool = True,
    again: bool = False,
) -> Any:
    """One kernel, nothing of eager's, and eager's elements. graph: made for other sizes, which must do for these, or
    is made again for them.
    """
    if graph is None:
        graph = every_kernel(symbolic_trace(function), args)
        assert not [line for line in graph.schedule if "as it stands" in line], graph.schedule
        assert len([kernel for kernel in graph.kernels if kernel.launched]) == kernels, graph.schedule
    forms = graph.fn.__self__.forms
    assert any(form(*args) is not MISS for form in forms) or 0 in args[0].shape or 1 in args[0].shape or again
    for mine, wanted in zip(graph.fn(*args), function(*args), strict=True):
        why = difference(mine, wanted, exact, 1e-5)
        assert why is None, why
    return graph


def forms(graph: Any) -> int:
    """How often a graph was compiled."""
    return len(graph.fn.__self__.forms)


FUSED: list[tuple[Callable[..., Any], Callable[[int, int], tuple[Any, ...]]]] = [
    (lambda a, b: (torch.cat([a.relu(), b * 2], 1) + 1,), lambda n, m: (t(n, m), t(n, 2 * m))),
    (lambda a, b: (torch.cat([a.relu(), b * 2], 0) + 1,), lambda n, m: (t(n, m), t(n + 3, m))),
    (lambda a, b, c: (torch.cat([a, b * 2, c], 1) * c.mean(),), lambda n, m: (t(n, m), t(n, 9), t(n, m + 1))),
    (lambda a, b: (torch.stack([a + b, a - b], 1) * 2,), lambda n, m: (t(n, m), t(n, m, seed=1))),
    (lambda x, w: (torch.cat([x * w, x + w], 1) / 3,), lambda n, m: (t(n, m), t(m))),
    (lambda x: (F.pad(x * 2, (1, 2, 0, 3)) + 1,), lambda n, m: (t(n, m),)),
    (lambda x: (F.pad(x + 1, (-1, 2), value=4) * 2,), lambda n, m: (t(n, m),)),
    (lambda x: (x * 0.5 + F.pad(x, (0, 0, 1, 0))[:, :-1] * 0.5,), lambda n, m: (t(3, n, m),)),
    (lambda x: (torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1) - x,), lambda n, m: (t(3, n, m),)),
    (lambda x, y: (x.flip(1) * y + y.flip(0, 1),), lambda n, m: (t(n, m), t(n, m, seed=1))),
    (lambda x: ((x * 3).roll((2, -1), (0, 1)) + x,), lambda n, m: (t(n, m),)),
    (lambda x: ((x * 3).repeat(2, 3) + 1,), lambda n, m: (t(n, m),)),
    (lambda x: (torch.tril(x * 2, 1) + torch.triu(x, 2),), lambda n, m: (t(n, m),)),
    (lambda x: (x[:, 1:4] * 2 + x[:, -3:],), lambda n, m: (t(n, m),)),
    (lambda x: (x[1:] - x[:-1], (x[:, 1:] + 1) * 2), lambda n, m: (t(n, m),)),
    (lambda x: ((x * 2)[:, 2] + x[:, -1],), lambda n, m: (t(n, m),)),
    (lambda x, y: (torch.slice_scatter(x, y * 2, 1, 2, 6) + 1,), lambda n, m: (t(n, m), t(n, 4))),
    (lambda x, y: (torch.select_scatter(x + 1, y * 2, 1, 2) * 2,), lambda n, m: (t(n, m), t(n))),
    (lambda x: (x.narrow(1, 2, 5) * 2,), lambda n, m: (t(n, m),)),
    (lambda x: (F.pad(x * 2, (2, 3), mode="reflect") + 1,), lambda n, m: (t(2, n, m),)),
    (lambda x: (F.pad(x * 2, (2, 3, 1, 1), mode="replicate") + 1,), lambda n, m: (t(2, 3, n, m),)),
]


@pytest.mark.parametrize("position", range(len(FUSED)))
def test_fused_with_what_is_around_it(position: int) -> None:
    """In one kernel, which does for other sizes, too."""
    function, make = FUSED[position]
    args = make(6, 14)
    kernels = 2 if position == 14 else 1
    graph = every_kernel(symbolic_trace(function), args)
    eager_calls = [line for line in graph.schedule if "as it stands" in line]
    assert not eager_calls, graph.schedule
    assert len([kernel for kernel in graph.kernels if kernel.launched]) <= kernels + (position == 2), graph.schedule
    exact = position != 2
    for n, m in ((6, 14), (9, 14), (6, 23), (40, 100), (5, 11)):
        same(function, *make(n, m), graph=graph, exact=exact)
    assert forms(graph) == 1


def test_sizes_of_another_kind_make_another_form() -> None:
    """A slice beyond the end of a tensor that is now long enough; a dimension of one element."""
    function = lambda x: (x[:, :9] * 2, x[:, 1:] + 1)  # noqa: E731
    graph = same(function, t(5, 7), kernels=2)
    for shape in ((5, 7), (5, 8), (5, 9), (5, 10), (5, 2), (1, 7), (5, 1), (0, 7), (5, 0)):
        same(function, t(*shape), graph=graph, again=True)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (1, 5), (3, 1), (1, 1)])
def test_few_elements(shape: tuple[int, int]) -> None:
    def function(x: Any, y: Any) -> Any:
        return torch.cat([x, y], 1) + 1, F.pad(x, (1, 2)) * 2, x.flip(0) + 1, x.roll(1, 0) + 1, torch.tril(x) * 2

    args = t(*shape), t(shape[0], 9)
    graph = every_kernel(symbolic_trace(function), (t(4, 5), t(4, 9)))
    for made in (graph, every_kernel(symbolic_trace(function), args)):
        for mine, wanted in zip(made.fn(*args), function(*args), strict=True):
            assert difference(mine, wanted) is None


def test_parts_of_even_size() -> None:
    """How many elements a chunk has follows from the size: another size is another form."""

    def function(x: Any) -> Any:
        a, b = operator.getitem(x.chunk(2, 1), 0), operator.getitem(x.chunk(2, 1), 1)
        return (a * torch.sigmoid(b),)

    graph = same(function, t(5, 12), exact=False)
    for shape in ((5, 12), (9, 12), (5, 14), (5, 24), (5, 2)):
        same(function, t(*shape), graph=graph, again=True, exact=False)


def rotated(x: Any) -> Any:
    a, b = x.chunk(2, -1)[0], x.chunk(2, -1)[1]
    return torch.cat([-b, a], -1)


def test_rotary_embedding() -> None:
    def function(y: Any, c: Any, s: Any) -> Any:
        q = y.view(2, 8, 3, 16).transpose(1, 2)
        return (rotated(q) * s + q * c,)

    same(function, t(2, 8, 48), t(8, 16), t(8, 16, seed=1))
    same(lambda q, c, s: (rotated(q) * s + q * c,), t(2, 3, 8, 16), t(8, 16), t(8, 16, seed=1))


def test_parts_of_a_projection() -> None:
    def function(x: Any) -> Any:
        parts = x.split([24, 8, 16], -1)
        q = parts[0].view(2, 5, 3, 8).transpose(1, 2)
        return q * 2, parts[1] + parts[2][..., ::2]

    args = (t(2, 5, 48),)
    graph = every_kernel(symbolic_trace(function), args)
    assert not [line for line in graph.schedule if "as it stands" in line], graph.schedule
    same(function, *args, graph=graph)


def test_what_is_dear_is_computed_once() -> None:
    same(lambda a, b: (torch.cat([a.exp(), b * 2], 1) + 1,), t(6, 14), t(6, 9), kernels=2)
    same(lambda a, b: (torch.cat([a.softmax(-1), b * 2], 1) + 1,), t(6, 14), t(6, 9), kernels=2, exact=False)
    same(lambda x: (F.pad(torch.sigmoid(x), (1, 1)) * 2,), t(6, 14), kernels=2)


def test_reductions_of_parts() -> None:
    same(lambda x: (x[:, 3:19].sum(-1),), t(6, 40))
    same(lambda x: (x.flip(1).sum(-1),), t(6, 40))
    same(lambda a, b: (torch.cat([a, b], 1).amax(-1),), t(6, 14), t(6, 9), kernels=2)
    same(lambda a, b: (torch.cat([a, b], 1).softmax(-1),), t(6, 14), t(6, 9), kernels=2, exact=False)
    same(lambda x: (F.layer_norm(F.pad(x, (1, 1)), (42,)),), t(6, 40), kernels=2, exact=False)


def test_a_part_is_still_a_view() -> None:
    """Somebody who gets the part itself shares memory with the whole."""
    function = lambda x: (x[:, 1:3], x[:, 1:3] * 2, x.split(4, 1)[1])  # noqa: E731
    x = t(6, 9)
    graph = every_kernel(symbolic_trace(function), (x,))
    part, double, second = graph.fn(x)
    assert part.data_ptr() == x[:, 1:3].data_ptr()
    assert second.data_ptr() == x[:, 4:].data_ptr()
    assert torch.equal(double, x[:, 1:3] * 2)


def test_a_part_sees_what_is_written_later() -> None:
    def function(x: Any) -> Any:
        part, before = x[:, 1:5], x[:, 1:5] * 3
        x.add_(1)
        return part * 2, before, x[:, 2] + 1

    def of_computed(x: Any) -> Any:
        y = x * 2
        part = y[:, 1:5]
        y.mul_(3)
        return part + 1, y + part[:, :1]

    for f in (function, of_computed):
        x, other = t(6, 9), t(6, 9)
        graph = every_kernel(symbolic_trace(f), (x.clone(),))
        for mine, wanted in zip(graph.fn(x), f(other), strict=True):
            assert torch.equal(mine, wanted)
        assert torch.equal(x, other)


def test_a_part_that_is_written_to() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        y[:, 1:3].add_(5)
        z = torch.cat([y, x], 1)
        y[:, 0].fill_(7)
        return z + 1, y * 2

    x = t(6, 9)
    graph = every_kernel(symbolic_trace(function), (x,))
    for mine, wanted in zip(graph.fn(x), function(x), strict=True):
        assert torch.equal(mine, wanted)


def test_operands_whose_sizes_no_longer_match() -> None:
    """What eager refuses or broadcasts must not be read beside the tensor."""
    function = lambda a, b, c: (torch.cat([a + b, c], 1) * 2,)  # noqa: E731
    graph = same(function, t(6, 9), t(6, 9), t(6, 5))
    same(function, t(6, 9), t(6, 1), t(6, 5), graph=graph, again=True)
    same(function, t(6, 1), t(6, 9), t(6, 5), graph=graph, again=True)
    with pytest.raises(RuntimeError, match="must match"):
        graph.fn(t(6, 9), t(6, 7), t(6, 5))
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        graph.fn(t(6, 9), t(6, 9), t(7, 5))


def test_division_of_integers_beside_a_part() -> None:
    function = lambda a, b: (torch.cat([a // b, b], 1) + 1,)  # noqa: E731
    args = t(6, 9, dtype=I64), t(6, 9, dtype=I64).abs() + 1
    graph = every_kernel(symbolic_trace(function), args)
    for mine, wanted in zip(graph.fn(*args), function(*args), strict=True):
        assert torch.equal(mine, wanted)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("bad", [6, -1, 2**40])
def test_index_select_out_of_range(dim: int, bad: int) -> None:
    function = lambda x, i: (x.index_select(dim, i) * 2,)  # noqa: E731
    numbers = torch.tensor([3, 0, 5, 1])
    graph = same(function, t(6, 6, 6), numbers)
    numbers[2] = bad
    errors = []
    for call in (graph.fn, function):
        with pytest.raises((IndexError, RuntimeError)) as error:
            call(t(6, 6, 6), numbers)
        errors.append((type(error.value), str(error.value)))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("bad", [9, -1, -10, 2**40])
def test_gather_out_of_range(bad: int) -> None:
    function = lambda x, i: (x.gather(1, i) * 2,)  # noqa: E731
    numbers = torch.randint(0, 9, (6, 4))
    graph = same(function, t(6, 9), numbers)
    numbers[2, 2] = bad
    errors = []
    for call in (graph.fn, function):
        with pytest.raises((IndexError, RuntimeError)) as error:
            call(t(6, 9), numbers)
        errors.append((type(error.value), str(error.value)))
    assert errors[0] == errors[1]


INDEXED: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda x, i, j: (x[i, j] * 2,), (t(6, 9, 4), torch.randint(-6, 6, (5,)), torch.randint(-9, 9, (3, 1)))),
    (lambda x, i: (x[:, i] * 2,), (t(6, 9, 4), torch.randint(-9, 9, (5, 2)))),
    (lambda x, i: (x[..., i] * 2,), (t(6, 9, 4), torch.randint(-4, 4, (5,), dtype=torch.int32))),
    (lambda x, i, j: (x[:, i, j] * 2,), (t(6, 9, 4), torch.randint(-9, 9, (5,)), torch.randint(-4, 4, (5,)))),
    (lambda x, i: ((x * 2 + 1)[i] * 2,), (t(6, 9), torch.randint(-6, 6, (5,)))),
    (lambda x, i: (x.t()[i] * 2,), (t(6, 9), torch.randint(-9, 9, (5,)))),
    (lambda x, i: (x[i][:, 2:5] + 1,), (t(6, 9), torch.randint(-6, 6, (5,)))),
]


@pytest.mark.parametrize("position", range(len(INDEXED)))
def test_indices(position: int) -> None:
    function, args = INDEXED[position]
    graph = every_kernel(symbolic_trace(function), args)
    assert not [line for line in graph.schedule if "as it stands" in line], graph.schedule
    for mine, wanted in zip(graph.fn(*args), function(*args), strict=True):
        assert difference(mine, wanted) is None
    wrong = args[1].clone()
    wrong.view(-1)[0] = 100
    errors = []
    for call in (graph.fn, function):
        with pytest.raises((IndexError, RuntimeError)) as error:
            call(args[0], wrong, *args[2:])
        errors.append((type(error.value), str(error.value)))
    assert errors[0] == errors[1]


def test_many_layouts() -> None:
    """Strides of the results are eager's, whatever the operands are laid out like."""
    function = lambda x, y: (torch.cat([x * 2, y], 1) + 1, F.pad(x, (1, 1)) * 2, x.flip(1) + 1, x[:, 1:5] * 2)  # noqa: E731
    for make in (
        lambda x: x,
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
        lambda x: x.repeat_interleave(2, -1)[..., ::2],
    ):
        args = make(t(2, 6, 5, 9)), make(t(2, 6, 5, 9, seed=1))
        graph = every_kernel(symbolic_trace(function), args)
        for mine, wanted in zip(graph.fn(*args), function(*args), strict=True):
            assert difference(mine, wanted) is None


def test_sizes_calculated_by_an_operation_itself() -> None:
    """What an aten call says of sizes came from the example's: other sizes are compiled anew."""
    graph_ = Graph()
    x = graph_.placeholder("x")
    graph_.output((graph_.call_function(torch.diff, (x,)), graph_.call_function(torch.ops.aten.slice, (x, 1, 1, 9))))
    graph = every_kernel(GraphModule(torch.nn.Module(), graph_), (t(5, 9),))
    for shape in ((5, 9), (5, 12), (7, 20)):
        made = graph.fn(t(*shape))
        assert torch.equal(made[0], torch.diff(t(*shape)))
        assert torch.equal(made[1], t(*shape)[:, 1:9])


def test_numbers_that_are_a_part() -> None:
    def function(w: Any, p: Any, i: Any) -> Any:
        h = F.embedding(i, w) + F.embedding(p[:, :7], w)
        return F.layer_norm(h, (16,)), p[:, :7] + 1

    args = t(50, 16), torch.arange(40)[None], torch.randint(0, 50, (3, 7))
    same(function, *args, exact=False, kernels=2)


def test_nothing_to_look_up() -> None:
    for function, empty in (
        (lambda x, i: (x.gather(0, i) * 2,), (t(0, 9), torch.zeros(4, 9, dtype=torch.int64))),
        (lambda x, i: (x[i] * 2,), (t(0, 9), torch.zeros(4, dtype=torch.int64))),
    ):
        graph = same(function, t(6, 9), empty[1])
        with pytest.raises((IndexError, RuntimeError)) as error:
            function(*empty)
        with pytest.raises(type(error.value)) as own:
            graph.fn(*empty)
        assert str(own.value) == str(error.value)
    graph = same(lambda x: (F.pad(x * 2, (1, 1), mode="replicate") + 1,), t(2, 3, 9))
    with pytest.raises(RuntimeError):
        graph.fn(t(2, 3, 0))
