"""What compiled functions do for now: compile, use what there is, or run as they are. One setting for the process."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from dynajit import frame
from dynajit.errors import OptionError

F = TypeVar("F", bound=Callable[..., Any])
SWITCH = "DYNAJIT_DISABLE"  # environment: "1" leaves every function as it is
STANCES = {
    "default": "compile what is called",
    "force_eager": "run everything as it is; entries are kept for later",
    "eager_on_recompile": "use entries, compile functions that have none yet, run other calls as they are",
    "fail_on_recompile": "the same, but a call that would be compiled again is an error",
    "cached_only": "use entries, compile nothing",
}


@dataclass
class _Current:
    name: str = "default"


CURRENT = _Current()


def switched_off() -> bool:
    """Whether the environment turns the compiler off."""
    return os.environ.get(SWITCH, "") not in ("", "0")


def _take(name: str) -> None:
    CURRENT.name = name
    frame.bypass(name == "force_eager")


class set_stance:  # noqa: N801 - used as a function
    """Choose what compiled functions do from now on, in all threads.

    As a call it stays until the next one. `with set_stance(...):` takes the earlier stance back at the end, and as a
    decorator the stance holds while the function runs.

    stance: `"default"` (compile what is called), `"force_eager"` (run everything as it is), `"eager_on_recompile"`
    (compile a function once, run calls that its entries do not fit as they are), `"fail_on_recompile"` (such a call
    raises `CompileError`) or `"cached_only"` (compile nothing). Raises `OptionError` for another name.
    """

    def __init__(self, stance: str) -> None:
        if stance not in STANCES:
            raise OptionError(f"stance must be one of {', '.join(map(repr, STANCES))}, not {stance!r}")
        self.stance, self.before = stance, CURRENT.name
        _take(stance)

    def __enter__(self) -> Self:
        _take(self.stance)
        return self

    def __exit__(self, *exc_info: object) -> None:
        _take(self.before)

    def __call__(self, fn: F) -> F:
        _take(self.before)
        stance = self.stance

        def run(*args: Any, **kwargs: Any) -> Any:
            with set_stance(stance):
                return fn(*args, **kwargs)

        frame.hide(run.__code__)
        return functools.wraps(fn)(run)  # type: ignore[return-value]


def run(fn: F) -> F:
    """`fn` with the entries that it and what it calls have already: nothing is compiled while it runs.

    As `set_stance("cached_only")` around each call.
    """
    return set_stance("cached_only")(fn)
