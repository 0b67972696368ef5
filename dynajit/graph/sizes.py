"""How the sizes of a result follow from the sizes that went in.

An operation is asked for its shapes in two calls, the real one and a made-up one whose symbolic sizes are larger. Which
conclusions that allows depends on the operation:

- `EXACT`: each size of the result is one that went in, a sum or product of such, or a constant. So a size that is the
  same in both calls is a constant, and one that differs can be found among what went in.
- `SPATIAL`: the same holds but for the last dimensions, which follow from the same dimension of the input by some
  division that rounds. They are known when that dimension is.
- Of all others nothing is concluded: their sizes are `None`, known when the program runs.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence

from dynajit.graph.meta import EXACT_LAYOUT
from dynajit.symbol import Number, Symbol, add, apply, example_of, multiply, other_of, product

_NOT_EXACT = frozenset("unfold diagonal arange getitem".split())
# Those whose number of results depends on a size (which is then guarded), by the dimension they cut unless told.
PIECES = {"split": 0, "split_with_sizes": 0, "chunk": 0, "unbind": 0, "tensor_split": 0, "vsplit": 0, "dsplit": 2}
_MORE = """
batch_norm group_norm instance_norm normalize local_response_norm embedding cross_entropy nll_loss
binary_cross_entropy binary_cross_entropy_with_logits smooth_l1_loss huber_loss kl_div cosine_similarity
cosine_embedding_loss scaled_dot_product_attention multi_head_attention_forward einsum tensordot bilinear cdist pad
gather scatter scatter_add index_select index_add take_along_dim topk sort argsort cumprod logcumsumexp cummax cummin
tile repeat_interleave hstack vstack dstack column_stack concat concatenate meshgrid broadcast_to broadcast_tensors
glu prelu rrelu softmin gumbel_softmax alpha_dropout feature_alpha_dropout dropout1d dropout2d dropout3d bernoulli
uniform normal exponential new_tensor copy fill zero index_fill masked_scatter kron cross logaddexp logaddexp2
remainder fmod addr vdot inner chain_matmul bucketize searchsorted isin quantile median mode var_mean std_mean aminmax
count_nonzero nansum nanmean lgamma digamma polygamma detach_clone nested rot90 fliplr flipud triangular_solve
sum_to_size randperm tensor as_tensor full empty_strided _set_grad_enabled pixel_shuffle channel_shuffle
squeeze_multiple movedim moveaxis T mT H mH real imag data range rfloordiv rpow rtruediv rmod lerp sgn signbit deg2rad
rad2deg logit xlogy special_xlogy i0 nextafter ldexp frexp float_power
""".split()
EXACT = (EXACT_LAYOUT | frozenset(_MORE) | frozenset(PIECES)) - _NOT_EXACT
VIEWS = frozenset({"view", "reshape", "flatten", "unflatten", "pixel_shuffle"})
SPATIAL = {
    f"{name}{n}d": n
    for n in (1, 2, 3)
    for name in ("conv", "conv_transpose", "max_pool", "avg_pool", "lp_pool", "adaptive_avg_pool", "adaptive_max_pool")
} | {"interpolate": 1, "upsample": 1}

Sizes = tuple[Number | None, ...]


def infer(
    name: str,
    inputs: Sequence[Number | None],
    first: Sequence[Number | None],
    shape: Sequence[int],
    other: Sequence[int],
) -> Sizes:
    """The sizes of a result that has `shape` in this call and `other` in the other one.

    inputs: every size and number that went in. first: the sizes of the first tensor.
    """
    if name in EXACT:
        return _exact(name, inputs, shape, other)
    if name in SPATIAL and len(shape) == len(first):
        count = max(SPATIAL[name], len(shape) - 2 if name in ("interpolate", "upsample") else 0)
        outer = _exact(name, inputs, shape[:-count], other[:-count])
        known = all(type(size) is int for size in first[-count:])
        return (*outer, *(size if known else None for size in shape[-count:]))
    return (None,) * len(shape)


def _exact(name: str, inputs: Sequence[Number | None], shape: Sequence[int], other: Sequence[int]) -> Sizes:
    known = [number for number in inputs if isinstance(number, Symbol) and number.text is not None]
    # a size whose dependence is not known, or that shrinks where others grow, may hide behind an equality
    doubtful = any(number is None for number in inputs) or any(
        number.other < number.example or number.text is None for number in inputs if isinstance(number, Symbol)
    )
    constants = {number for number in inputs if type(number) is int}
    sizes: list[Number | None] = []
    for size, later in zip(shape, other, strict=True):
        if size == later:
            sizes.append(size if not doubtful or size in constants else None)
        else:
            sizes.append(find(known, size, later, divide=name in VIEWS))
    return tuple(sizes)


def find(known: Sequence[Symbol], size: int, later: int, *, divide: bool = False) -> Symbol | None:
    """The symbol, multiple, sum or product of symbols that is `size` in this call and `later` in the other one."""
    distinct = list({number.text: number for number in known}.values())
    for number in distinct:
        if (number.example, number.other) == (size, later):
            return number
    for group in (1, 2, 3):
        for chosen in itertools.combinations_with_replacement(distinct, group):
            whole = product(chosen)
            for made in (_scaled(whole, size, later), _moved(whole, size, later) if group == 1 else None):
                if made is not None:
                    return made
            if group == 2 and (difference := _difference_of(chosen, size, later)) is not None:
                return difference
            if group == 2 and (total := _moved(add(*chosen), size, later)) is not None:
                return total
    if divide:
        everything = list(distinct)
        for group in range(len(everything), 0, -1):
            for chosen in itertools.combinations(everything, group):
                if (quotient := _divided(product(chosen), size, later)) is not None:
                    return quotient
    return None


def _scaled(number: Number, size: int, later: int) -> Symbol | None:
    example, other = example_of(number), other_of(number)
    if example and size % example == 0 and size // example * other == later:
        return _symbol(multiply(number, size // example))
    return None


def _moved(number: Number, size: int, later: int) -> Symbol | None:
    if size - example_of(number) == later - other_of(number):
        return _symbol(add(number, size - example_of(number)))
    return None


def _difference_of(pair: Sequence[Symbol], size: int, later: int) -> Symbol | None:
    for left, right in (pair, (pair[1], pair[0])):
        if left.example - right.example == size and left.other - right.other == later:
            return _symbol(apply(operator.sub, left, right))
    return None


def _divided(number: Number, size: int, later: int) -> Symbol | None:
    example, other = example_of(number), other_of(number)
    if size and example % size == 0 and later * (example // size) == other:
        return _symbol(apply(operator.floordiv, number, example // size))
    return None


def _symbol(number: Number) -> Symbol | None:
    return number if isinstance(number, Symbol) else None


def sliced(size: Number, part: tuple[Number | None, Number | None], less: Callable[[Number, Number], bool]) -> Number:
    """The length of `[start:stop]` of a dimension (Objects/sliceobject.c, PySlice_AdjustIndices). less: decides `<`."""

    def bound(given: Number | None, default: Number) -> Number:
        if given is None:
            return default
        if less(given, 0):
            given = add(given, size)
            return 0 if less(given, 0) else given
        return size if less(size, given) else given

    start, stop = bound(part[0], 0), bound(part[1], size)
    if not less(start, stop):
        return 0
    return _difference(start, stop)


def _difference(start: Number, stop: Number) -> Number:
    return stop if type(start) is int and start == 0 else apply(operator.sub, stop, start)
