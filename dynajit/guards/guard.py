"""A guard: a condition on a source. The kinds are the rows of `checks.KINDS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from dynajit.source import Source


@dataclass(frozen=True)
class Guard:
    """kind: a row of `checks.KINDS`. expected: what the check compares with.

    name: the name that a check of a class or a dict is about.
    origin: (filename, line) of the program text that made the guard necessary.
    """

    source: Source
    kind: str
    expected: Any = None
    name: str = ""
    origin: tuple[str, int | None] | None = None


@dataclass(frozen=True)
class Relation:
    """A comparison that went one way: `text`, over the number `v`, was `value`."""

    text: str
    value: bool

    def predicate(self) -> Callable[[Any], bool]:
        """The check. The text was made by the evaluator from operators and numbers alone."""
        made: Callable[[Any], bool] = eval(f"lambda v: ({self.text}) is {self.value}")
        return made


NO_CONJUGATE = 4  # flag of a TENSOR check: neither a conjugate nor a negative view


def tensor_spec(obj: torch.Tensor) -> tuple[Any, ...]:
    """What a tensor must be again. The stride of a dimension of size 1 (or of an empty tensor) means nothing."""
    shape = tuple(obj.shape)
    empty = 0 in shape
    strides = tuple(None if n == 1 or empty else s for n, s in zip(shape, obj.stride(), strict=True))
    return (type(obj), obj.dtype, obj.device, obj.layout, obj.requires_grad, shape, strides, NO_CONJUGATE)
