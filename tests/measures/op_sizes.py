"""Every operator with sizes that change: one compiled function, `dynamic=True`, its sample and grown copies of it.

python tests/measures/op_sizes.py [--backend eager] [--samples 2] [--every 1]

The function also returns what it reads of its result's sizes, and branches on one of them, so a wrong conclusion about
sizes shows. Operators whose eager result is not the same twice are left out.
"""

from __future__ import annotations

import argparse
import collections
import copy
import warnings
from collections.abc import Iterator
from typing import Any

import op_db
import torch
from torch.utils import _pytree as pytree

import dynajit


def grown(tree: Any, size: int, by: int) -> Any:
    """The same with every dimension of this size larger by so much: rows come again."""

    def grow(leaf: Any) -> Any:
        if not is_plain(leaf):
            return leaf
        for dim in range(leaf.dim()):
            if leaf.shape[dim] == size:
                leaf = leaf.index_select(dim, torch.arange(size + by).remainder(size))
        return leaf

    return pytree.tree_map(grow, tree)


def is_plain(obj: Any) -> bool:
    return isinstance(obj, torch.Tensor) and obj.layout is torch.strided and not obj.is_nested


def variants(sample: Any) -> Iterator[Any]:
    """The sample's arguments, and for its first sizes larger ones."""
    base = (sample.input, sample.args, sample.kwargs)
    sizes = sorted({n for leaf in pytree.tree_leaves(base) if is_plain(leaf) for n in leaf.shape if n > 1})
    yield base
    for size in sizes[:3]:
        for by in (1, 3, size):
            yield grown(base, size, by)
    yield base


def reading(function: Any) -> Any:
    """The function, with what it can see of its result's sizes."""

    def f(first: Any, args: Any, kwargs: Any) -> Any:
        out = function(first, *args, **kwargs)
        facts: list[Any] = []
        for item in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(item, torch.Tensor) and item.layout is torch.strided:
                facts.append((item.shape, item.numel(), item.dim(), item.shape[-1] > 4 if item.dim() else None))
        return out, facts

    return f


def run(function: Any, arguments: Any) -> Any:
    """("returned", result, arguments afterwards) or ("raised",)."""
    try:
        arguments = copy.deepcopy(arguments)
        torch.manual_seed(1)
        return "returned", function(*arguments), arguments
    except Exception:
        return ("raised",)


def alike(one: Any, other: Any, exact: bool) -> bool:
    """The same result, and the same tensors as arguments afterwards."""
    if one[0] != other[0]:
        return False
    if one[0] == "raised":
        return True
    (out, facts), (other_out, other_facts) = one[1], other[1]
    leaves = zip(pytree.tree_leaves(one[2]), pytree.tree_leaves(other[2]), strict=True)
    arguments = all(op_db.same(a, b, exact) for a, b in leaves if isinstance(a, torch.Tensor))
    return arguments and bool(facts == other_facts) and op_db.same(out, other_out, exact)


def check(function: Any, sample: Any, backend: str) -> tuple[int, str]:
    """How many calls agreed with eager, and what was wrong, if anything."""
    f = reading(function)
    compiled = dynajit.compile(f, backend=backend, dynamic=True, limit=64)
    right = 0
    try:
        for arguments in variants(sample):
            expected = run(f, arguments)
            if not alike(expected, run(f, arguments), exact=True):
                continue
            found = run(compiled, arguments)
            if not alike(found, expected, exact=backend == "eager"):
                shapes = [tuple(leaf.shape) for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
                return right, f"{shapes}: {found[0]}, eager {expected[0]}"
            right += 1
    finally:
        dynajit.reset(compiled)
    return right, ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: collections.Counter[str] = collections.Counter()
    for name, function, sample in op_db.cases(options.samples, options.every):
        if "empty" in name or name.startswith("resize"):
            continue
        right, wrong = check(function, sample, options.backend)
        counts["right"] += right
        counts["wrong"] += bool(wrong)
        if wrong:
            print(f"{name}: {wrong}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
