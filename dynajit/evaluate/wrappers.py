"""Functions that stand around others for the sake of a compiler: what they wrap is called.

Those of PyTorch import another compiler when they are called, or ask it for a graph break; neither changes what a
program does. Ours choose a stance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, cast

import torch
import torch._compile

from dynajit import reasons, stance
from dynajit.errors import GraphBreak
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
    return around if around is not None and code.co_filename.startswith(_HOMES) else None


_HOMES = (torch.__file__.removesuffix("__init__.py"), stance.__file__)


def _wrapped(m: Machine, fn: FunctionType, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    return m.call(_cell(fn, "fn"), args, kwargs)


def _constructor(m: Machine, fn: FunctionType, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    return m.call(_cell(fn, "init"), args, kwargs)


def _step(m: Machine, fn: FunctionType, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """A step of an optimizer in the grad mode that it asks for (torch/optim/optimizer.py)."""
    step = cast(FunctionType, polyfills.optimizer_step)
    return m.inline(FunctionValue(step, source=Known(step)), [_cell(fn, "func"), *args], kwargs)


def _with_stance(m: Machine, fn: FunctionType, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """A stance is about calls that are dispatched; a call that is evaluated here is none, unless it shall be eager."""
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    if cells["stance"].cell_contents == "force_eager":
        raise GraphBreak(reasons.DISABLED, fn.__qualname__)
    return m.call(m.wrap(cells["fn"].cell_contents, Known(cells["fn"].cell_contents)), args, kwargs)


def _cell(fn: FunctionType, name: str) -> Value:
    """The function that is wrapped. It is in a cell that nobody else has."""
    contents: Any = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))[name].cell_contents
    return FunctionValue(contents, source=Known(contents))


_AROUND: dict[str, Around] = {
    "_disable_dynamo.<locals>.inner": _wrapped,
    "_use_grad_for_differentiable.<locals>._use_grad": _step,
    "set_stance.__call__.<locals>.run": _with_stance,
    "install_generation_tagging_init.<locals>.patched_init": _constructor,
}
