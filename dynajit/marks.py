"""Which sizes of a tensor the user has declared: they may change, or they never do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from dynajit.errors import OptionError

_MARKS: Any = WeakIdKeyDictionary()


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
