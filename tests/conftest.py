"""Programs are test items; what the torch-free tests need is in the conftest files of their folders."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from programs import Program


class ProgramItem(pytest.Item):
    """One `Program`, named like its function."""

    def __init__(self, *, program: Program, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.program = program

    def runtest(self) -> None:
        self.program.check()

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Of a claim that does not hold, the claim is enough."""
        if isinstance(excinfo.value, AssertionError):
            return str(excinfo.value)
        error = excinfo.value.__cause__ or excinfo.value
        return "".join([*traceback.format_tb(error.__traceback__)[-8:], *traceback.format_exception_only(error)])

    def reportinfo(self) -> tuple[Any, int, str]:
        return self.path, self.program.fn.__code__.co_firstlineno - 1, self.name


def pytest_pycollect_makeitem(collector: Any, name: str, obj: Any) -> Any:
    if type(obj).__name__ == "Program" and hasattr(obj, "check"):
        return ProgramItem.from_parent(collector, name=name, program=obj)
    return None
