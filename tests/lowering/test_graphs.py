"""Whole graphs: views, aliasing, mutation, barriers, changing sizes, numbers as arguments, gradients."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from against_eager import difference, every_kernel, source, t
from torch.fx import Graph, GraphModule, symbolic_trace
from torch.utils._python_dispatch import TorchDispatchMode

from dynajit.backends import CompiledGraph
from dynajit.backends.native import native
from dynajit.options import Options


def c_kernels(graph: CompiledGraph) -> list[Any]:
    return [kernel for kernel in graph.kernels if kernel.launched]


def compiled(function: Callable[..., Any], *args: Any) -> CompiledGraph:
    return every_kernel(symbolic_trace(function), args)


def same(
    function: Callable[..., Any], *args: Any, exact: bool = True, with_: CompiledGraph | None = None
) -> CompiledGraph:
    """Compile and run on copies; compare results, inputs afterwards, and which results share storage with what."""
    graph = with_ or compiled(function, *args)
    mine, theirs = _copies(args), _copies(args)
    expected, results = function(*theirs), graph.fn(*mine)
    assert isinstance(results, tuple)
    for result, wanted in zip(results, expected, strict=True):
        why = difference(result, wanted, exact, 2e-5)
        assert why is None, f"{why}\n{source(graph)}"
    for after, wanted in zip(mine, theirs, strict=True):
        assert difference(after, wanted) is None, source(graph)
    assert _sharing(results, mine) == _sharing(expected, theirs), source(graph)
    return graph


def _copies(args: tuple[Any, ...]) -> list[Any]:
    made: dict[int, Any] = {}
    for arg in args:
        if isinstance(arg, torch.Tensor) and id(arg) not in made:
            copy = torch.empty(0, dtype=arg.dtype)
            storage = arg.untyped_storage().clone()
            made[id(arg)] = copy.set_(storage, arg.storage_offset(), arg.shape, arg.stride())
    return [made.get(id(arg), arg) for arg in args]


def _sharing(results: Any, args: list[Any]) -> list[list[bool]]:
    tensors = [x for x in (*results, *args) if isinstance(x, torch.Tensor)]
    pointers = [x.untyped_storage().data_ptr() for x in tensors]
    return [[a == b for b in pointers] for a in pointers]


def test_one_kernel_for_a_chain() -> None:
    graph = same(lambda x, y: (torch.tanh(x * 2 + y) - 0.5,), t(40, 50), t(50))
    assert len(c_kernels(graph)) == 1


def test_normalisation_is_one_kernel() -> None:
    def function(x: Any, r: Any, w: Any) -> Any:
        h = x + r
        return h, h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * w

    graph = same(function, t(30, 64), t(30, 64, seed=1), t(64), exact=False)
    assert len(c_kernels(graph)) == 1


def test_reshape_inside_a_kernel() -> None:
    def function(x: Any) -> Any:
        return (torch.softmax((x * 2).view(6, 4, 5, 8), -1),)

    assert len(c_kernels(same(function, t(6, 4, 40), exact=False))) == 1


def test_permuted_result_keeps_its_strides() -> None:
    same(lambda x: ((x + 1).transpose(1, 2), (x * 2).permute(2, 0, 1) + 1), t(3, 4, 5))


def test_a_value_and_its_transpose() -> None:
    same(lambda x: (x + x.t(), (x * 2) + (x * 2).t()), t(6, 6))


def test_reshape_that_does_not_split() -> None:
    same(lambda x: ((x * 2).reshape(4, 6) + 1, x.reshape(3, 8) * x.reshape(8, 3).t()), t(6, 4))


def test_views_of_inputs_alias_them() -> None:
    same(lambda x: (x.view(-1), x[1:], x.t(), x, x.reshape(2, 12), x + 1), t(4, 6))


def test_views_of_results_alias_results() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        return y, y.view(-1), y.t(), y[0]

    same(function, t(4, 6))


def test_the_same_result_twice() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        return y, y

    graph = same(function, t(4, 6))
    first, second = graph.fn(t(4, 6))
    assert first is second


def test_noncontiguous_reshape_copies() -> None:
    same(lambda x: (x.t().reshape(-1), x.t().contiguous(), x.contiguous()), t(4, 6))


def test_expanded_input() -> None:
    same(lambda x, y: (x + y, x.sum(0), x.expand(5, 6) * 2), t(1, 6).expand(5, 6), t(5, 6))


def test_write_to_an_input() -> None:
    def function(x: Any, y: Any) -> Any:
        before = x * 2
        x.add_(y)
        return before, x * 2, x

    same(function, t(4, 6), t(4, 6, seed=1))


def test_write_through_a_view() -> None:
    def function(x: Any) -> Any:
        y = x + 1
        view = y[1:]
        view.mul_(3)
        return y * 2, view

    same(function, t(4, 6))


def test_write_to_a_cheap_value_that_is_read_again() -> None:
    def function(x: Any) -> Any:
        y = x + 1
        z = y * 2
        y.zero_()
        return y + z, z

    same(function, t(4, 6))


def test_out_argument() -> None:
    def function(x: Any, y: Any) -> Any:
        z = x * 2
        torch.add(x, 1, out=y)
        return z + y, y

    same(function, t(4, 6), t(4, 6, seed=1))


def test_inplace_activation_on_an_input() -> None:
    same(lambda x: (F.relu(x, inplace=True) + 1, x), t(4, 6))


def test_batch_norm_in_training_updates_its_statistics() -> None:
    def function(x: Any, mean: Any, var: Any) -> Any:
        return (F.batch_norm(x * 2, mean, var, training=True), mean + 1)

    same(function, t(4, 6), torch.zeros(6), torch.ones(6), exact=False)


def test_the_same_tensor_twice() -> None:
    x = t(4, 6)
    same(lambda x, y: (x + y, x * y), x, x)


def test_linear_between_kernels() -> None:
    def function(x: Any, w: Any, b: Any, w2: Any) -> Any:
        h = F.gelu(F.linear(x * 2, w, b), approximate="tanh")
        return (F.linear(h, w2) + x,)

    graph = same(function, t(8, 16), t(32, 16), t(32), t(16, 32))
    assert len(c_kernels(graph)) == 3


def test_attention_runs_as_it_stands() -> None:
    def function(q: Any, k: Any, v: Any) -> Any:
        return (F.scaled_dot_product_attention(q * 0.5, k, v).transpose(1, 2).reshape(2, 7, 24) + 1,)

    same(function, t(2, 3, 7, 8), t(2, 3, 7, 8, seed=1), t(2, 3, 7, 8, seed=2))


def test_random_numbers_are_eagers() -> None:
    def function(x: Any) -> Any:
        return F.dropout(x * 2, 0.5, True) + torch.randn_like(x), torch.rand_like(x)

    x = t(4, 6)
    graph = compiled(function, x)
    torch.manual_seed(7)
    expected = function(x)
    torch.manual_seed(7)
    for result, wanted in zip(graph.fn(x), expected, strict=True):
        assert difference(result, wanted) is None


def test_data_dependent_size() -> None:
    same(lambda x: (x[x > 0] * 2, (x + 1).nonzero()), t(4, 6))


def test_no_results() -> None:
    def function(x: Any) -> Any:
        x.add_(1)
        return ()

    same(function, t(3))


def test_split_and_recombine() -> None:
    def function(x: Any) -> Any:
        a, b = x.chunk(2, -1)
        return torch.cat([a * 2, b + 1], -1), torch.stack(x.unbind(0)) * 2, F.silu(a) * b

    same(function, t(4, 6))


def test_slices_of_a_value() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        return y[:, 1:] + y[:, :-1], y[0] * y[1], y[..., None] + 1

    same(function, t(4, 6))


def test_constants_made_inside() -> None:
    def function(x: Any) -> Any:
        return torch.zeros_like(x) + x, torch.ones(6) * x, torch.full((4, 6), 2.0), torch.arange(6) + x, x.new_zeros(3)

    same(function, t(4, 6))


@pytest.mark.parametrize("shape", [(4, 6), (5, 6), (1, 6), (4, 1), (0, 6), (1, 1), (70, 300)])
def test_one_compiled_graph_for_all_sizes(shape: tuple[int, int]) -> None:
    def function(x: Any, y: Any) -> Any:
        z = x * 2 + y
        return z, z.sum(-1), torch.softmax(z, -1), z.view(-1) + 1, z.mean()

    graph = compiled(function, t(4, 6), t(4, 6))
    for size in (shape, (4, 6), shape):
        if 0 in size:
            continue
        same(function, t(*size), t(*size, seed=1), exact=False, with_=graph)


def test_sizes_that_become_one() -> None:
    def function(x: Any, y: Any) -> Any:
        return (x + y,)

    graph = compiled(function, t(4, 6), t(4, 6))
    for a, b in [((4, 6), (1, 6)), ((4, 1), (1, 6)), ((1, 1), (4, 6)), ((3, 6), (3, 6)), ((4, 6), (4, 6))]:
        same(function, t(*a), t(*b), with_=graph)
    with pytest.raises(RuntimeError, match="must match the size"):
        graph.fn(t(4, 6), t(3, 6))


def test_layouts_that_change() -> None:
    def function(x: Any, y: Any) -> Any:
        return (x + y, (x * 2).sum(-1))

    graph = compiled(function, t(4, 6), t(4, 6))
    for x in (t(6, 4).t(), t(8, 12)[::2, ::2], t(1, 6).expand(4, 6), t(4, 6)):
        same(function, x, t(4, 6), exact=False, with_=graph)


def test_dtypes_that_change() -> None:
    def function(x: Any) -> Any:
        return (x * 2 + 1,)

    graph = compiled(function, t(4, 6))
    for dtype in (torch.float64, torch.bfloat16, torch.int64, torch.complex64):
        same(function, t(4, 6).to(dtype) if dtype != torch.int64 else t(4, 6, dtype=dtype), with_=graph)


def test_numbers_are_arguments() -> None:
    graph = Graph()
    x, a, n = (graph.placeholder(name) for name in ("x", "a", "n"))
    y = graph.call_function(operator.mul, (x, a))
    z = graph.call_function(operator.add, (y, n))
    graph.output((graph.call_method("sum", (z, -1)), z, graph.call_function(operator.add, (n, 1))))
    gm = GraphModule(torch.nn.Module(), graph)
    built = every_kernel(gm, (t(4, 6), 0.3, 2))
    assert len(c_kernels(built)) == 1
    for scale, count in ((0.3, 2), (-1.7, 5), (float("inf"), 0), (2, 3), (0.5, 2**70)):
        if count > 2**62:
            continue
        results, wanted = built.fn(t(4, 6), scale, count), gm(t(4, 6), scale, count)
        assert difference(results[1], wanted[1]) is None
        assert results[2] == count + 1


def test_a_number_as_a_size() -> None:
    graph = Graph()
    x, n = graph.placeholder("x"), graph.placeholder("n")
    y = graph.call_method("view", (graph.call_function(operator.mul, (x, 2)), n, -1))
    graph.output((graph.call_function(operator.add, (y, 1)),))
    gm = GraphModule(torch.nn.Module(), graph)
    built = every_kernel(gm, (t(4, 6), 2))
    for n in (2, 3, 8, 24):
        assert difference(built.fn(t(4, 6), n)[0], gm(t(4, 6), n)[0]) is None


def test_sizes_written_down_are_checked() -> None:
    def function(x: Any) -> Any:
        return ((x * 2).view(4, 6) + 1,)

    graph = compiled(function, t(24))
    with pytest.raises(RuntimeError, match="invalid for input"):
        graph.fn(t(30))


def test_gradients_run_eagerly() -> None:
    def function(x: Any) -> Any:
        return (torch.tanh(x * 2).sum(),)

    graph = compiled(function, t(4, 6))
    x, y = t(4, 6).requires_grad_(), t(4, 6).requires_grad_()
    graph.fn(x)[0].backward()
    function(y)[0].backward()
    assert torch.equal(x.grad, y.grad)  # type: ignore[arg-type]
    with torch.no_grad():
        assert not graph.fn(x)[0].requires_grad
    assert graph.kernels


def test_grad_mode_switches() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    y = graph.call_function(operator.mul, (x, 2))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    graph.output((graph.call_function(operator.add, (y, 1)),))
    built = every_kernel(GraphModule(torch.nn.Module(), graph), (t(3),))
    assert difference(built.fn(t(3))[0], t(3) * 2 + 1) is None
    assert torch.is_grad_enabled()
    x = t(3).requires_grad_()
    assert not built.fn(x)[0].requires_grad


def test_parameters_under_no_grad() -> None:
    weight = torch.nn.Parameter(t(6))
    with torch.no_grad():
        graph = every_kernel(symbolic_trace(lambda x, w: (x * w,)), (t(4, 6), weight))
        assert graph.kernels
        assert difference(graph.fn(t(4, 6), weight)[0], t(4, 6) * weight) is None


def test_inference_mode() -> None:
    with torch.inference_mode():
        x = t(4, 6)
        graph = same(lambda x: (x * 2 + 1,), x)
        assert graph.kernels
        assert graph.fn(x)[0].is_inference()


def test_tensor_subclass_goes_eager() -> None:
    class Mine(torch.Tensor):
        pass

    graph = compiled(lambda x: (x * 2,), t(3))
    assert type(graph.fn(t(3).as_subclass(Mine))[0]) is Mine


def test_error_of_eager() -> None:
    graph = compiled(lambda x, y: (x + y,), t(4), t(4))
    with pytest.raises(RuntimeError, match="must match the size"):
        graph.fn(t(4), t(3))


def test_a_long_chain_is_linear() -> None:
    def function(x: Any) -> Any:
        for _ in range(600):
            x = torch.sin(x) + 0.1
        return (x,)

    graph = compiled(function, t(8))
    assert difference(graph.fn(t(8))[0], function(t(8))[0]) is None


def test_fibonacci_dag_does_not_explode() -> None:
    def function(x: Any) -> Any:
        a, b = x, x + 1
        for _ in range(60):
            a, b = b, a * 0.5 + b * 0.5
        return (b,)

    graph = same(function, t(50))
    assert sum(len(kernel.source) for kernel in c_kernels(graph)) < 60_000


def test_views_of_mutated_memory_are_read_after_the_write() -> None:
    def function(x: Any) -> Any:
        v = x.t()
        x.add_(1)
        return (v * 2, v)

    same(function, t(4, 6))


def test_mutation_between_two_reads_of_a_sum() -> None:
    def function(x: Any, y: Any) -> Any:
        s = x.sum()
        x.mul_(0)
        return (s + x.sum(), s * y)

    same(function, t(4, 6), t(4, 6), exact=False)


def test_gradients_of_tensors_that_are_not_lowered() -> None:
    def function(z: Any) -> Any:
        return (torch.view_as_real(z) * 2 + 1,)

    z = torch.randn(3, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    graph = compiled(function, z)
    w = z.clone().requires_grad_()
    assert graph.fn(w)[0].requires_grad


def test_vmap_and_dispatch_modes_see_every_operation() -> None:
    graph = compiled(lambda x, y: (x * y + 1,), t(4), t(4))
    x, y = t(3, 4), t(3, 4, seed=1)
    assert torch.equal(torch.func.vmap(lambda a, b: graph.fn(a, b)[0])(x, y), x * y + 1)
    x, y = t(4), t(4)
    with Counting() as counting:
        graph.fn(x, y)
    assert counting.calls == 2


class Counting(TorchDispatchMode):
    calls = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


def test_writes_to_own_tensors_are_fused() -> None:
    def function(x: Any, w: Any, b: Any) -> Any:
        y = F.linear(x, w, b)
        y.mul_(2)
        y += 1
        F.relu(y, inplace=True)
        z = F.linear(y, w)
        z.add_(y)
        return z, y

    graph = same(function, t(8, 8), t(8, 8, seed=1), t(8))
    assert len(c_kernels(graph)) == 2
    assert not any("nothing moves across" in line for line in graph.schedule)


def test_writes_to_tensors_that_have_views_are_not() -> None:
    def function(x: Any) -> Any:
        y = x * 2 + 1
        v = y.view(-1)
        y.mul_(3)
        return v + 1, y, v

    same(function, t(4, 6))


def test_a_write_after_a_read() -> None:
    def function(x: Any, w: Any) -> Any:
        y = x * 2
        z = F.linear(y, w)
        y.add_(1)
        return z + y, y

    same(function, t(4, 6), t(6, 6))


def test_a_write_through_a_view_that_hides_it() -> None:
    def function(x: Any, y: Any) -> Any:
        a = torch.mm(x, y)
        b = torch.ops.aten._unsafe_view.default(a, [24])
        b.sub_(1)
        return a * 2, b + a.reshape(24)

    same(function, t(4, 5), t(5, 6))


def test_reshapes_and_reductions_of_empty_tensors() -> None:
    def function(x: Any, y: Any) -> Any:
        return x + 1, x.sum(), x.sum(0), y.sum(1), x.exp().sum(1), y.prod(1), y.any(1), torch.cat([x, x]), y.mean(1)

    same(function, torch.empty(0, 5), torch.empty(5, 0))


@pytest.mark.parametrize(
    ("function", "kernels"),
    [
        (lambda x: (x[:, 1:].sum(-1),), 0),
        (lambda x: (torch.softmax(x, -1),), 0),
        (lambda x: (torch.softmax(x * 2, -1),), 1),
        (lambda x: ((x[:, 1:] * 2).sum(-1),), 1),
        (lambda x: (torch.nn.functional.gelu(x),), 1),
        (lambda x: (torch.nn.functional.gelu(x, approximate="tanh"),), 0),
        (lambda x: (torch.logsumexp(x, -1),), 1),
    ],
)
def test_one_operation_is_eagers_unless_that_is_slow(function: Any, kernels: int) -> None:
    gm = symbolic_trace(function)
    graph = native(gm, [torch.randn(8, 40)], Options())
    assert sum(kernel.launched for kernel in graph.kernels) == kernels
    x = torch.randn(8, 40)
    assert difference(graph.fn(x)[0], gm(x)[0], False, 2e-5) is None


def test_a_part_is_summed_along_its_rows() -> None:
    """The loop that runs innermost is the one along which elements lie side by side, also where they are looked up."""
    gm = symbolic_trace(lambda x: ((x[:, 1:] * 2).sum(-1),))
    (kernel,) = (k for k in native(gm, [torch.randn(50, 40)], Options()).kernels if k.launched)
    assert "columns" not in kernel.source
    assert "sum_block_f32" in kernel.source
