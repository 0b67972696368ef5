"""Signals that steer the evaluator, and the errors a user can see.

The three signals are caught in one named place each: `GraphBreak` and `Skip` by the machine that runs a frame, `Raised`
by the machine that simulates exception handling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynajit.reasons import Reason


class GraphBreak(Exception):
    """The instruction at hand must run in Python; what was captured before it stands.

    needs: the node whose result the instruction needs to see. Where that was made before the instruction, the graph
    ends there and the instruction is evaluated again, with the object itself.
    """

    def __init__(self, reason: Reason, detail: str = "", needs: Any = None) -> None:
        super().__init__(reason.code, detail)
        self.reason = reason
        self.detail = detail
        self.needs = needs
        self.where: tuple[str, int] | None = None  # (filename, line) of the innermost inlined frame
        self.frames: list[Any] = []  # those that were being evaluated, innermost first

    def __str__(self) -> str:
        return f"{self.reason.title}: {self.detail}" if self.detail else self.reason.title


class Skip(Exception):
    """This frame is not for us: it runs as it is."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(reason.code, detail)
        self.reason = reason
        self.detail = detail


class Raised(Exception):
    """The program being evaluated raised an exception; `value` is the symbolic exception."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


PLACES: list[Callable[[str], str]] = []
"""The last of them tells how the reader knows a `file:line`: a notebook says `In[5], line 3`."""


class CompileError(Exception):
    """Compiling failed. The text begins with the user's line and ends with what to try."""

    def __init__(self, stage: str, where: str, what: str, hint: str = "") -> None:
        self.stage, self.where, self.what, self.hint = stage, where, what, hint
        super().__init__(stage, where, what, hint)

    def __str__(self) -> str:
        where = PLACES[-1](self.where) if PLACES else self.where
        return f"{where}: {self.what}" + (f"\n  try: {self.hint}" if self.hint else "")


class LoweringError(CompileError):
    """A graph could not be lowered by a backend."""


class ToolchainError(CompileError):
    """An external compiler failed; `output` is what it printed."""

    def __init__(self, where: str, command: str, output: str) -> None:
        super().__init__(
            "build", where, f"`{command}` failed", "set backend='eager', or report the output below\n" + output
        )
        self.command, self.output = command, output


class OptionError(ValueError):
    """An option has a value that does not exist; the text lists the ones that do."""


class InternalError(CompileError):
    """A fault of dynajit itself. The frame runs eagerly unless `DYNAJIT_STRICT` is set."""
