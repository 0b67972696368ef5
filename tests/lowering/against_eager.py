"""The harness of the lowering tests: a row is an operation and its arguments; eager says what is right."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule

from dynajit.backends import CompiledGraph
from dynajit.backends.native import native
from dynajit.options import Options

NATIVE = Options(backend="native")


def every_kernel(gm: GraphModule, inputs: Any, options: Options = NATIVE) -> CompiledGraph:
    """The native backend, which otherwise leaves a lone operation to eager."""
    return native(gm, inputs, options, lone=True)


SPECIAL = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38, 1.0, -1.0, 0.5, -2.5, 88.0)
# What may differ where bits are not promised: relative to an element, or to a tenth of the largest one.
TOLERANCE = {torch.float32: 4e-6, torch.float64: 1e-13, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}


def t(
    *shape: int, dtype: torch.dtype = torch.float32, seed: int = 0, low: float = -3.0, high: float = 3.0
) -> torch.Tensor:
    """Random values of a shape."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if not dtype.is_floating_point:
        return torch.randint(0 if dtype == torch.uint8 else -9, 10, shape, generator=generator, dtype=dtype)
    return (torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low).to(dtype)


@dataclass
class Row:
    """exact: the same bits as eager. lowered: it must have become a kernel. forms: variants of inputs to leave out."""

    op: Callable[..., Any] | str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    exact: bool = True
    lowered: bool = True
    skip: frozenset[str] = frozenset()
    tolerance: float | None = None

    @property
    def name(self) -> str:
        name = self.op if isinstance(self.op, str) else getattr(self.op, "__name__", str(self.op))
        shapes = [f"{str(a.dtype)[6:]}{list(a.shape)}" if isinstance(a, torch.Tensor) else str(a) for a in self.args]
        return f"{name}({', '.join([*shapes, *(f'{k}={v}' for k, v in self.kwargs.items())])})"


def row(
    op: Callable[..., Any] | str,
    *args: Any,
    exact: bool = True,
    lowered: bool = True,
    skip: str = "",
    tolerance: float | None = None,
    **kwargs: Any,
) -> Row:
    return Row(op, args, kwargs, exact, lowered, frozenset(skip.split()), tolerance)


def graph_of(
    op: Callable[..., Any] | str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[GraphModule, list[Any]]:
    """A graph of the one call, its tensors as placeholders."""
    graph, inputs = Graph(), []

    def place(arg: Any) -> Any:
        if isinstance(arg, torch.Tensor):
            inputs.append(arg)
            return graph.placeholder(f"x{len(inputs)}")
        return [place(a) for a in arg] if isinstance(arg, list) else arg

    placed = tuple(place(arg) for arg in args)
    named = {name: place(arg) for name, arg in kwargs.items()}
    call = graph.call_method(op, placed, named) if isinstance(op, str) else graph.call_function(op, placed, named)
    example = run(op, args, kwargs)
    count = len(example) if isinstance(example, (tuple, list)) else 0
    parts = tuple(graph.call_function(operator.getitem, (call, i)) for i in range(count)) if count else (call,)
    graph.output(parts)
    return GraphModule(torch.nn.Module(), graph), inputs


def run(op: Callable[..., Any] | str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return getattr(args[0], op)(*args[1:], **kwargs) if isinstance(op, str) else op(*args, **kwargs)


def forms(row: Row) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """A row's arguments, and what the harness adds to them."""

    def each(change: Callable[[torch.Tensor], torch.Tensor]) -> tuple[Any, ...]:
        return tuple(change(arg) if isinstance(arg, torch.Tensor) else arg for arg in row.args)

    yield "as given", row.args
    yield "special", each(_special)
    yield "gaps", each(lambda x: x.repeat_interleave(2, -1)[..., ::2] if x.dim() else x)
    if all(arg.dim() == 2 for arg in row.args if isinstance(arg, torch.Tensor)):
        yield "transposed", each(lambda x: x.t().contiguous().t())
    if all(arg.dim() and arg.shape[0] != 1 for arg in row.args if isinstance(arg, torch.Tensor)):
        yield "empty", each(lambda x: x[:0])
        yield "one row", each(lambda x: x[:1])
    yield "one element", each(lambda x: x.reshape(-1)[:1].reshape([1] * x.dim()))
    yield "no dimensions", each(lambda x: x.reshape(-1)[0])


def _special(x: torch.Tensor) -> torch.Tensor:
    if not x.dtype.is_floating_point or not x.numel():
        return x
    values = itertools.cycle(SPECIAL[x.dim() % 3 :] + SPECIAL[: x.dim() % 3])
    made = x.clone().reshape(-1)
    for i in range(0, made.numel(), 2):
        made[i] = next(values)
    return made.reshape(x.shape)


def check(row: Row) -> None:
    """Every form of a row: same values, dtype, strides, NaN and signs of zero as eager, or the same kind of error."""
    for name, args in forms(row):
        if name in row.skip:
            continue
        try:
            expected = run(row.op, args, row.kwargs)
        except (RuntimeError, IndexError, TypeError, ValueError, UserWarning):
            continue  # eager does not take this form, or not without a warning
        expected = tuple(expected) if isinstance(expected, (tuple, list)) else (expected,)
        gm, inputs = graph_of(row.op, args, row.kwargs)
        compiled = every_kernel(gm, inputs)
        if name == "as given":
            assert bool(compiled.kernels) == row.lowered, (compiled.notes, compiled.schedule)
        results = compiled.fn(*inputs)
        for result, wanted in zip(results, expected, strict=True):
            # Of two zeros, eager's maximum keeps the second in whole vectors and the first in what is left over.
            zeros = row.op not in (torch.maximum, torch.minimum)
            why = difference(result, wanted, row.exact, row.tolerance, zeros)
            assert why is None, f"{row.name}, {name}: {why}\n{source(compiled)}"


def source(compiled: CompiledGraph) -> str:
    return "\n".join([compiled.wrapper, *(kernel.source for kernel in compiled.kernels)])


def difference(
    result: Any, wanted: Any, exact: bool = True, tolerance: float | None = None, zeros: bool = True
) -> str | None:
    """How a result differs from eager's, in words; None if it does not."""
    if not isinstance(wanted, torch.Tensor):
        return None if result == wanted else f"{result!r}, want {wanted!r}"
    if result.dtype != wanted.dtype or result.shape != wanted.shape:
        return f"{result.dtype}{list(result.shape)}, want {wanted.dtype}{list(wanted.shape)}"
    if result.stride() != wanted.stride() and wanted.numel() > 0:
        return f"strides {result.stride()}, want {wanted.stride()}"
    if not wanted.dtype.is_floating_point:
        count = int((result != wanted).sum())
        return f"{count} elements differ" if count else None
    if not torch.equal(result.isnan(), wanted.isnan()):
        return f"NaN at other places: {int((result.isnan() != wanted.isnan()).sum())}"
    ok = ~wanted.isnan()
    a, b = result[ok].double(), wanted[ok].double()
    if exact:
        bad = (a != b) | ((a == 0) & (a.signbit() != b.signbit()) if zeros else False)
        if not bad.any():
            return None
        k = int(bad.nonzero()[0])
        return f"{int(bad.sum())} of {bad.numel()} elements differ, first {a[k].item()!r}, want {b[k].item()!r}"
    finite = b.isfinite()
    if not torch.equal(a[~finite], b[~finite]):
        return "infinities differ"
    a, b = a[finite], b[finite]
    scale = b.abs().max().item() if b.numel() else 0.0
    bound = tolerance or TOLERANCE[wanted.dtype]
    worst = ((a - b).abs() / b.abs().clamp_min(max(scale * 0.1, 1e-30))).max().item() if b.numel() else 0.0
    return f"relative error {worst:.3g} > {bound}" if worst > bound else None
