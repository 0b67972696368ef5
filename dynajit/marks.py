"""What the user has declared: of sizes, that they change or never do; of functions, how calls are captured."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch.utils.weak import WeakIdKeyDictionary

from dynajit.errors import OptionError

F = TypeVar("F", bound=Callable[..., Any])
_MARKS: Any = WeakIdKeyDictionary()
DISABLED, CONSTANT, IN_GRAPH, BREAKING = "disabled", "constant", "in graph", "breaking"
_FUNCTIONS: Any = weakref.WeakKeyDictionary()


def mark_dynamic(tensor: torch.Tensor, dims: int | Sequence[int]) -> None:
    """Take the sizes of these dimensions for symbolic the first time already.

    Sizes of 0 and 1 stay as they are: they mean something else in PyTorch (broadcasting, empty tensors).
    Raises `OptionError` when there is no such dimension.
    """
    _mark(tensor, dims, dynamic=True)


def mark_static(tensor: torch.Tensor, dims: int | Sequence[int] | None = None) -> None:
    """Never take the sizes of these dimensions (None: of all) for symbolic; another size is compiled anew.

    Raises `OptionError` when there is no such dimension.
    """
    _mark(tensor, range(tensor.dim()) if dims is None else dims, dynamic=False)


def marks_of(tensor: torch.Tensor) -> Mapping[int, bool]:
    """What is declared of a tensor's dimensions: True for those that change."""
    marks: Mapping[int, bool] = _MARKS.get(tensor, {}) if len(_MARKS) else {}
    return marks


def _mark(tensor: torch.Tensor, dims: int | Sequence[int], *, dynamic: bool) -> None:
    chosen = [dims] if isinstance(dims, int) else list(dims)
    rank = tensor.dim()
    for dim in chosen:
        if not -rank <= dim < rank:
            raise OptionError(f"the tensor has {rank} dimensions, there is no dimension {dim}")
    _MARKS[tensor] = {**_MARKS.get(tensor, {}), **{dim % rank: dynamic for dim in chosen}}


def mark_function(function: Any, how: str) -> None:
    _FUNCTIONS[function] = how


def function_mark(target: Any) -> str | None:
    """How calls of `target` are captured, where the user has said so."""
    try:
        found: str | None = _FUNCTIONS.get(target)
    except TypeError:  # neither hashable nor weakly referenced
        return None
    return found


def assume_constant_result(fn: F) -> F:
    """Call `fn` once, while a call of it is captured, and take what it returns for constant from then on.

    It is given the arguments of this call; tensors that the graph computes are computed for it. Nothing is guarded:
    that the result stays right is on you.
    """
    mark_function(fn, CONSTANT)
    return fn


def allow_in_graph(fn: F) -> F:
    """Record a call of `fn` as one operation of the graph, without looking into it.

    It must take and return tensors, numbers and containers of them, and have no effect but on its tensor arguments.
    Its result is known from a call on meta tensors; where that fails, the graph ends where something looks at it.
    """
    mark_function(fn, IN_GRAPH)
    return fn


def disallow_in_graph(fn: F) -> F:
    """Break the graph at each call of `fn`, which may also be a function of PyTorch: Python calls it."""
    mark_function(fn, BREAKING)
    return fn
