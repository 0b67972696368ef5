"""Parts of tensors, and tensors put together or in another order: the same elements at other places."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from dynajit.lower.build import SUPPORTED, Unsupported, cast, const, op
from dynajit.lower.ir import Relation, Value
from dynajit.lower.lowering import lowering
from dynajit.lower.moving import INT, Linear, Number, Place, Walk, along, at_most, equal, extent, fixed, here, moved
from dynajit.lower.ops.conversion import copy

aten: Any = torch.ops.aten
SHORT = 8  # elements: as few in a row cost more than eager's copies
FEW = 4  # tensors: more than these, put together by one kernel, would make each element choose too often


def _walks(x: Value) -> list[Place]:
    return [Walk(d) for d in range(len(x.shape))]


def _filled(value: Value, shape: tuple[int, ...]) -> Value:
    """The value in its whole shape."""
    return value if value.shape == shape else Value("expand", (value,), shape, value.dtype)


def _not_empty(*xs: Value) -> None:
    if any(0 in x.shape for x in xs):
        raise Unsupported("nothing is there")
    if any(isinstance(x, Value) and x.op == "scalar" for x in xs):
        raise Unsupported("a number")


def _plus(value: Value, number: int) -> Value:
    return value if not number else op("add", value, number) if number > 0 else op("sub", value, -number)


def _not_short(inner: Sequence[int]) -> None:
    """No loop of a kernel would go on for long where these dimensions are the last ones of the result."""
    if prod(inner) < SHORT:
        raise Unsupported("a few elements at a time")


# -- parts -------------------------------------------------------------------------------------------------------


def _part(x: Value, dim: int, start: int, size: int, relations: list[Relation], first: Value | None = None) -> Value:
    """`size` elements along a dimension, from `start` (or the value `first`) on."""
    shape = tuple(size if d == dim else other for d, other in enumerate(x.shape))
    places = _walks(x)
    at = here(dim, shape)
    places[dim] = Number(_plus(at, start) if first is None else op("add", at, first))
    return _filled(moved(x, places, shape, relations), shape)


@lowering(aten.slice.Tensor)
def slice_(x: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Value:
    _not_empty(x)
    dim, size = dim % len(x.shape), x.shape[dim]
    begin, last = start or 0, size if end is None else end
    low = min(max(begin + size if begin < 0 else begin, 0), size)
    high = min(max(last + size if last < 0 else last, low), size)
    if step == 1 and begin == 0 and (end is None or end >= 2**62):
        return Value("reshape", (x,), x.shape, x.dtype, "free")
    if high == low:
        raise Unsupported("nothing of it")
    whole = extent(x, dim)
    if step != 1 or begin < -size or last < -size or (last > size and end is not None and last < 2**62):
        count = -(-(high - low) // step)
        return _strided(x, dim, low, step, count, [fixed(size, whole), equal((dim,), Linear(count))])
    first = whole + begin if begin < 0 else Linear(begin)
    behind = whole + last if last < 0 else whole if last >= 2**62 or end is None else Linear(last)
    relations = [equal((dim,), behind + first * -1)]
    for bound in (begin, -begin, last if last < 2**62 else 0, -last):
        if bound > 0:
            relations.append(at_most(bound, whole))
    return _part(x, dim, begin, high - low, relations, first.value() if begin < 0 else None)


def _strided(x: Value, dim: int, low: int, step: int, count: int, relations: list[Relation]) -> Value:
    shape = tuple(count if d == dim else other for d, other in enumerate(x.shape))
    places = _walks(x)
    at = here(dim, shape)
    places[dim] = Number(_plus(at if step == 1 else op("mul", at, step), low))
    return _filled(moved(x, places, shape, relations), shape)


@lowering(aten.select.int)
def select(x: Value, dim: int, index: int) -> Value:
    _not_empty(x)
    if isinstance(index, Value):
        raise Unsupported("a place that is not a constant")
    dim = dim % len(x.shape)
    whole = extent(x, dim)
    shape = tuple(size for d, size in enumerate(x.shape) if d != dim)
    places: list[Place] = [Walk(d - (d > dim)) for d in range(len(x.shape))]
    places[dim] = Number(const(index, INT) if index >= 0 else (whole + index).value())
    return _filled(moved(x, places, shape, [at_most(index + 1 if index >= 0 else -index, whole)]), shape)


@lowering(aten.unbind.int)
def unbind(x: Value, dim: int = 0) -> tuple[Value, ...]:
    _not_empty(x)
    return tuple(select(x, dim, k) for k in range(x.shape[dim % len(x.shape)]))


@lowering(aten.split_with_sizes.default)
def split_with_sizes(x: Value, sizes: Sequence[int], dim: int = 0) -> tuple[Value, ...]:
    _not_empty(x)
    dim, start, parts = dim % len(x.shape), 0, []
    if 0 in sizes:
        raise Unsupported("nothing of it")
    for size in sizes:
        held = [fixed(x.shape[dim], extent(x, dim)), equal((dim,), Linear(size))]
        parts.append(_part(x, dim, start, size, held))
        start += size
    return tuple(parts)


@lowering(aten.split.Tensor)
def split(x: Value, size: int, dim: int = 0) -> tuple[Value, ...]:
    _not_empty(x)
    length = x.shape[dim % len(x.shape)]
    return split_with_sizes(x, [min(size, length - start) for start in range(0, length, size)], dim)


# -- together ----------------------------------------------------------------------------------------------------


@lowering(aten.cat.default)
def cat(tensors: Sequence[Value], dim: int = 0) -> Value:
    _not_empty(*tensors)
    if len(tensors) > FEW:
        raise Unsupported(f"more than {FEW} tensors put together")
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    if dtype not in SUPPORTED:
        raise Unsupported(f"dtype {dtype}")
    parts = [cast(tensor, dtype) for tensor in tensors]
    if len(parts) == 1:
        return copy(parts[0])
    dim = dim % len(parts[0].shape)
    _not_short(parts[0].shape[dim + 1 :] or (sum(part.shape[-1] for part in parts),))
    shape = tuple(sum(p.shape[d] for p in parts) if d == dim else size for d, size in enumerate(parts[0].shape))
    ends = [Linear(0)]
    for part in parts:
        ends.append(ends[-1] + extent(part, dim))
    at = here(dim, shape)
    whole = [equal((dim,), ends[-1])]
    made: Value | None = None
    for k in reversed(range(len(parts))):
        start, end = ends[k], ends[k + 1]
        before, after = k > 0, k + 1 < len(parts)
        number = at if not before else op("sub", at, start.value())
        inside = op("lt", at, end.value()) if after else None
        guard = inside
        if before:
            behind = op("ge", at, start.value())
            guard = behind if inside is None else op("and", behind, inside)
        places = _walks(parts[k])
        places[dim] = Number(number, "", guard)
        piece = moved(parts[k], places, shape, whole)
        made = piece if made is None or inside is None else op("where", inside, piece, made)
    assert made is not None
    return _whole(made, shape)


def _whole(made: Value, shape: tuple[int, ...]) -> Value:
    if made.shape != shape:
        raise Unsupported("tensors made of numbers")
    return made


@lowering(aten.stack.default)
def stack(tensors: Sequence[Value], dim: int = 0) -> Value:
    at = dim % (len(tensors[0].shape) + 1)
    return cat([Value("reshape", (x,), (*x.shape[:at], 1, *x.shape[at:]), x.dtype, "free") for x in tensors], at)


@lowering(aten.constant_pad_nd.default)
def constant_pad(x: Value, pad: Sequence[int], value: Any = 0) -> Value:
    _not_empty(x)
    if isinstance(value, Value) or any(isinstance(p, Value) for p in pad):
        raise Unsupported("a number that is not a constant")
    rank = len(x.shape)
    sides = {rank - 1 - k: (pad[2 * k], pad[2 * k + 1]) for k in range(len(pad) // 2) if pad[2 * k] or pad[2 * k + 1]}
    shape = tuple(size + sum(sides.get(d, (0, 0))) for d, size in enumerate(x.shape))
    if min(shape, default=1) < 1 or not sides:
        return copy(x) if not sides else _none(shape)
    places, relations = _walks(x), []
    everywhere: Value | None = None
    for d, (left, right) in sides.items():
        at, size = here(d, shape), extent(x, d)
        tests = [op("ge", at, left)] if left > 0 else []
        tests += [op("lt", at, (size + left).value())] if right > 0 else []
        guard: Value | None = None
        for test in tests:
            guard = test if guard is None else op("and", guard, test)
        places[d] = Number(_plus(at, -left), "", guard)
        relations += [equal((d,), size + (left + right)), at_most(max(-left, 0) + max(-right, 0), size)]
        if guard is not None:
            everywhere = guard if everywhere is None else op("and", everywhere, guard)
    made = moved(x, places, shape, relations)
    if everywhere is not None:
        made = op("where", everywhere, made, const(value, x.dtype))
    return _whole(made, shape)


def _none(shape: tuple[int, ...]) -> Value:
    raise Unsupported(f"a tensor of {shape}")


@lowering(aten.slice_scatter.default)
def slice_scatter(
    x: Value, src: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    _not_empty(x, src)
    dim = dim % len(x.shape)
    size = x.shape[dim]
    low = start or 0
    high = size if end is None or end >= 2**62 else end
    if step != 1 or low < 0 or not low <= high <= size or src.dtype != x.dtype:
        raise Unsupported("a part that is counted another way")
    at, places = here(dim, x.shape), _walks(src)
    tests = [op("ge", at, low)] if low else []
    tests += [op("lt", at, high)] if high < size else []
    if not tests:
        return copy(src)
    guard = tests[0] if len(tests) == 1 else op("and", *tests)
    places[dim] = Number(_plus(at, -low), "", guard)
    behind = Linear(high) if high < size else extent(x, dim)
    relations = [at_most(high, extent(x, dim))] if high < size else []
    relations.append(_no_more(extent(src, dim), behind + -low))
    return _whole(op("where", guard, moved(src, places, x.shape, relations), x), x.shape)


def _no_more(size: Linear, wanted: Linear) -> Relation:
    """These sizes are the same."""
    difference = wanted + size * -1
    return Relation((), 0, difference.plus, difference.terms, True)


@lowering(aten.select_scatter.default)
def select_scatter(x: Value, src: Value, dim: int, index: int) -> Value:
    _not_empty(x, src)
    dim = dim % len(x.shape)
    if src.dtype != x.dtype or isinstance(index, Value) or not 0 <= index < x.shape[dim]:
        raise Unsupported("a part that is counted another way")
    inside = Value("reshape", (src,), (*src.shape[:dim], 1, *src.shape[dim:]), src.dtype, "free")
    return _whole(op("where", op("eq", here(dim, x.shape), index), inside, x), x.shape)


# -- in another order --------------------------------------------------------------------------------------------


@lowering(aten.flip.default)
def flip(x: Value, dims: Sequence[int]) -> Value:
    _not_empty(x)
    places, relations = _walks(x), []
    for d in {d % max(len(x.shape), 1) for d in dims} if x.shape else ():
        size = extent(x, d)
        places[d] = Number(op("sub", (size + -1).value(), here(d, x.shape)))
        relations.append(equal((d,), size))
    return _filled(copy(x) if not relations else moved(x, places, x.shape, relations), x.shape)


@lowering(aten.roll.default)
def roll(x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    _not_empty(x)
    if len(x.shape) == 1 and not dims:
        dims = (0,)
    if len(shifts) != len(dims) or len({d % len(x.shape) for d in dims}) != len(dims):
        raise Unsupported("a roll of all elements")
    places, relations = _walks(x), []
    for shift, dim in zip(shifts, dims, strict=True):
        d = dim % len(x.shape)
        size, at = extent(x, d), here(d, x.shape)
        relations += [equal((d,), size), at_most(abs(shift), size)]
        if abs(shift) > x.shape[d]:
            shift %= x.shape[d]
            relations[-1] = fixed(x.shape[d], size)
        if shift > 0:
            around = op("add", at, (size + -shift).value())
            places[d] = Number(op("where", op("lt", at, shift), around, op("sub", at, shift)))
        elif shift < 0:
            around = op("sub", at, (size + shift).value())
            places[d] = Number(op("where", op("lt", at, (size + shift).value()), op("add", at, -shift), around))
    return _filled(moved(x, places, x.shape, relations), x.shape) if relations else copy(x)


@lowering(aten.repeat.default)
def repeat(x: Value, repeats: Sequence[int]) -> Value:
    _not_empty(x)
    shape = (*([1] * (len(repeats) - len(x.shape))), *x.shape)
    if 0 in repeats:
        raise Unsupported("nothing of it")
    between = tuple(n for size in shape for n in (1, size))
    many = tuple(n for times, size in zip(repeats, shape, strict=True) for n in (times, size))
    made = Value("reshape", (x,), between, x.dtype, "free")
    made = Value("expand", (made,), many, x.dtype)
    return copy(Value("reshape", (made,), tuple(t * s for t, s in zip(repeats, shape, strict=True)), x.dtype, "free"))


def _triangle(name: str) -> Any:
    def rule(x: Value, diagonal: int = 0) -> Value:
        _not_empty(x)
        if isinstance(diagonal, Value) or len(x.shape) < 2:
            raise Unsupported("a diagonal that is not a constant")
        row, column = here(len(x.shape) - 2, x.shape), here(len(x.shape) - 1, x.shape)
        return _whole(op("where", op(name, column, _plus(row, diagonal)), x, const(0, x.dtype)), x.shape)

    return rule


lowering(aten.tril.default)(_triangle("le"))
lowering(aten.triu.default)(_triangle("ge"))


def _edges(kind: str) -> Any:
    def rule(x: Value, pad: Sequence[int]) -> Value:
        """What stands beside a tensor is its own elements: the last one, or all of them backwards."""
        _not_empty(x)
        if any(isinstance(p, Value) or p < 0 for p in pad):
            raise Unsupported("a number that is not a constant, or a part")
        rank, places, relations = len(x.shape), _walks(x), []
        sides = {rank - 1 - k: (pad[2 * k], pad[2 * k + 1]) for k in range(len(pad) // 2)}
        shape = tuple(size + sum(sides.get(d, (0, 0))) for d, size in enumerate(x.shape))
        for d, (left, right) in sides.items():
            if not left and not right:
                continue
            size, at = extent(x, d), _plus(here(d, shape), -left)
            last = (size + -1).value()
            if kind == "replicate":
                number = op("where", op("lt", at, 0), const(0, INT), op("where", op("lt", last, at), last, at))
            else:
                number = op("where", op("lt", at, 0), op("sub", 0, at), at)
                number = op("where", op("lt", last, number), op("sub", (size * 2 + -2).value(), number), number)
                relations.append(at_most(max(left, right) + 1, size))
            places[d] = Number(number)
            relations.append(equal((d,), size + (left + right)))
        return _whole(moved(x, places, shape, relations), shape) if relations else copy(x)

    return rule


for _rank in (1, 2, 3):
    lowering(getattr(aten, f"replication_pad{_rank}d").default)(_edges("replicate"))
    lowering(getattr(aten, f"reflection_pad{_rank}d").default)(_edges("reflect"))


# -- gradients of parts ------------------------------------------------------------------------------------------


def _said(dim: int, shape: tuple[int, ...]) -> Value:
    """Where along a dimension an element is whose size the call says."""
    if shape[dim] < 2:
        raise Unsupported("a part that is all there is")
    return along(Value("index", (), (shape[dim],), INT, "said"), dim, len(shape))


@lowering(aten.select_backward.default)
def select_backward(grad: Value, sizes: Sequence[int], dim: int, index: int) -> Value:
    _not_empty(grad)
    shape, dim = tuple(sizes), dim % len(sizes)
    if isinstance(index, Value) or grad.shape != (*shape[:dim], *shape[dim + 1 :]):
        raise Unsupported("a part that is counted another way")
    inside = Value("reshape", (grad,), (*shape[:dim], 1, *shape[dim + 1 :]), grad.dtype, "free")
    here_ = op("eq", _said(dim, shape), index % shape[dim])
    return _whole(op("where", here_, inside, const(0, grad.dtype)), shape)


@lowering(aten.slice_backward.default)
def slice_backward(grad: Value, sizes: Sequence[int], dim: int, start: int, end: int, step: int) -> Value:
    _not_empty(grad)
    shape, dim = tuple(sizes), dim % len(sizes)
    size = shape[dim]
    low, high = (min(max(v + size if v < 0 else v, 0), size) for v in (start, end))
    if step != 1 or grad.shape != (*shape[:dim], high - low, *shape[dim + 1 :]):
        raise Unsupported("a part that is counted another way")
    at = _said(dim, shape)
    tests = [op("ge", at, low)] * (low > 0) + [op("lt", at, high)] * (high < size)
    if not tests:
        return copy(grad)
    guard = tests[0] if len(tests) == 1 else op("and", *tests)
    places = _walks(grad)
    places[dim] = Number(_plus(at, -low), "", guard)
    made = moved(grad, places, shape, [fixed(high - low, extent(grad, dim))])
    return _whole(op("where", guard, made, const(0, grad.dtype)), shape)
