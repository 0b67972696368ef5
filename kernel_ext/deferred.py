"""While torch is not loaded, a cell only notes what it defines: the compiler is loaded when something is called."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any


def is_needed() -> bool:
    return "torch" not in sys.modules


def stand_in(function: FunctionType, settle: Callable[[], object]) -> Any:
    """Stands for the compiled function until `settle` has put that into its `made`."""
    made: list[Any] = []

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if not made:
            settle()
        return made[0](*args, **kwargs)

    call.__deferred__ = made  # type: ignore[attr-defined]
    return call


def is_open(value: Any) -> bool:
    """Whether it stands for something that is not compiled yet."""
    return getattr(value, "__deferred__", None) == []
