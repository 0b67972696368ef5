"""What a `%%compile` cell compiled: each name with its function, its cell, its card and its last report."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from kernel_ext import deferred, late
from kernel_ext.arguments import CellOptions
from kernel_ext.cells import Cell

if TYPE_CHECKING:
    from dynajit.report import Report
    from kernel_ext.card import Card
    from kernel_ext.session import Run


@dataclass
class Target:
    """made: the compiled object. function: the one whose frames are captured. events: how many were heard of it.

    shown: the number of events that the card has seen. checked: what comparing with eager gave. noticed: the number of
    recompiles that the user was told of. timed: what comparing its speed with eager's gave.
    """

    name: str
    made: Any
    function: FunctionType
    cell: Cell
    options: CellOptions
    card: Card | None = None
    report: Report | None = None
    heard: int = 0
    shown: int = -1
    checked: str = ""
    run: Run | None = None
    inlined: str = ""
    noticed: int = 0
    shared: str = ""
    timed: str = ""

    @property
    def code(self) -> CodeType:
        return self.function.__code__

    def fresh_report(self) -> Report:
        """The report as of now, with the cell's own text as its source."""
        lines = self.cell.source_of(self.function) if self.is_own() else None
        self.report = dataclasses.replace(late.compiler().report(self.function, source=lines), name=self.name)
        return self.report

    @property
    def is_deferred(self) -> bool:
        """Whether the compiler has not seen it yet; it need not be loaded to say so."""
        return deferred.is_open(self.made)

    @property
    def is_waiting(self) -> bool:
        return self.report is None or self.report.status == "waiting"

    def is_own(self) -> bool:
        """Whether the function was written in the cell: a module's forward may come from a library."""
        return self.function.__code__.co_filename in self.cell.files


def function_of(made: Any) -> FunctionType | None:
    """The Python function behind a compiled function, method, module or module class."""
    if late.is_module_class(made):
        made = made.__dict__.get("forward")
    elif late.is_module(made):
        made = made.forward
    made = getattr(made, "__func__", made)
    made = getattr(made, "__wrapped__", made)
    return made if isinstance(made, FunctionType) else None


def is_compiled(value: Any) -> bool:
    """Whether a value is something that dynajit compiled, or a module with a compiled forward."""
    if late.is_module(value) or late.is_module_class(value):
        value = getattr(value, "forward", None)
    if deferred.is_open(value):
        return True
    value = getattr(value, "__func__", value)
    value = (getattr(value, "__deferred__", None) or [value])[0]
    value = getattr(value, "__compiled__", value)  # its first call is still to be checked
    return type(value).__name__ == "Dispatcher" and type(value).__module__.startswith("dynajit")
