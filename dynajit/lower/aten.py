"""A torch-level call -> the aten calls it makes, seen on meta tensors: no data, no FakeTensor, no tracer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

META = torch.device("meta")


@dataclass(frozen=True, eq=False)
class Call:
    """One aten call; tensors in args and result are the meta tensors of the run."""

    op: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any


@dataclass(frozen=True, eq=False)
class Record:
    """What one torch-level call did. error: it could not be run on meta tensors, so nothing is known of it."""

    calls: tuple[Call, ...] = ()
    result: Any = None
    error: str = ""
    warned: bool = False


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down each aten call. Factories are turned to the meta device, whatever device they name."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # torch/utils/_python_dispatch.py wraps a mode's __torch_dispatch__ in torch._disable_dynamo unless this says
        # no, and the first call of that wrapper imports torch._dynamo (1.4 s).
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        run_kwargs = {**kwargs, "device": META} if kwargs.get("device") is not None else kwargs
        result = func(*args, **run_kwargs)
        self.calls.append(Call(func, args, kwargs, result))
        return result


def record(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Record:
    """Run a call on meta tensors. Whatever it raises means that eager has to run it, so nothing is let through."""
    recorder = Recorder()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with torch.no_grad(), recorder:
                result = function(*args, **kwargs)
        except Exception as error:
            return Record(error=f"{type(error).__name__}: {error}".split("\n")[0])
    return Record(tuple(recorder.calls), result, warned=bool(caught))


def meta_like(tensor: torch.Tensor) -> torch.Tensor:
    """A meta tensor with the size, strides and dtype of a real one."""
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=META)
