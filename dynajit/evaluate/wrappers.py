"""Functions of PyTorch that stand around others for the sake of another compiler: what they wrap is called.

They import that compiler when they are called, or ask it for a graph break; neither changes what a program does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, cast

import torch
import torch._compile

from dynajit.evaluate import polyfills
from dynajit.source import Known
from dynajit.values.base import Value
from dynajit.values.function import FunctionValue

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine

Around = Callable[["Machine", FunctionType, Sequence[Value], Mapping[str, Value]], Value]


def of(code: CodeType) -> Around | None:
    """What a call of a function with this code does, if it is one of these."""
    around = _AROUND.get(code.co_qualname)
    if around is None or not code.co_filename.startswith(_TORCH):
        return None
    return around


_TORCH = torch.__file__.removesuffix("__init__.py")


def _wrapped(m: Machine, fn: FunctionType, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    return m.call(_cell(fn, "fn"), args, kwargs)


def _constructor(m: Machine, fn: FunctionType, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    return m.call(_cell(fn, "init"), args, kwargs)


def _step(m: Machine, fn: FunctionType, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """A step of an optimizer in the grad mode that it asks for (torch/optim/optimizer.py)."""
    step = cast(FunctionType, polyfills.optimizer_step)
    return m.inline(FunctionValue(step, source=Known(step)), [_cell(fn, "func"), *args], kwargs)


def _cell(fn: FunctionType, name: str) -> Value:
    """The function that is wrapped. It is in a cell that nobody else has."""
    contents: Any = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))[name].cell_contents
    return FunctionValue(contents, source=Known(contents))


_AROUND: dict[str, Around] = {
    "_disable_dynamo.<locals>.inner": _wrapped,
    "_use_grad_for_differentiable.<locals>._use_grad": _step,
    "install_generation_tagging_init.<locals>.patched_init": _constructor,
}
