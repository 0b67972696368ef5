"""Going on inside functions that were inlined when the graph broke.

The broken instruction stands in an inlined function. Its caller runs its own call instruction again, but of a
`Continue` in place of the function: that goes on behind what is captured already, and returns what the call returns.
A chain of inlined functions nests: the caller's continuation has the callee's on its stack.
"""

from __future__ import annotations

from types import CellType, FunctionType
from typing import Any

from dynajit import frame
from dynajit.bytecode import emit as short
from dynajit.bytecode.flow import Bound
from dynajit.rewrite.reload import Reload
from dynajit.rewrite.resume import Point, points_of
from dynajit.trace import CONTINUATION, Link
from dynajit.values.base import NULL
from dynajit.values.cell import CellValue


class Continue:
    """Called with any arguments, it resumes a function where evaluation stopped."""

    __slots__ = ("args", "function")

    def __init__(
        self, resume: frame.Resume, namespace: dict[str, Any], cells: tuple[CellType, ...], *args: Any
    ) -> None:
        code = resume.code
        self.function, self.args = FunctionType(code, namespace, code.co_name, None, cells), args

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*self.args)


for _function in (Continue.__call__, Continue.__init__):
    frame.hide(_function.__code__)
    frame.skip(_function.__code__)


def load_continuation(emit: Reload, links: tuple[Link, ...]) -> None:
    """Put the continuation of the first link, which nests those of the others, on the stack."""
    link, rest = links[0], links[1:]
    root, at = link.program.root(link.at)
    points = points_of(root)
    names = frozenset(name for name, value in link.locals.items() if not isinstance(value, CellValue))
    sure, _ = points.wanted(at, Bound(names, names))
    nulls = tuple(value is NULL for value in link.stack)
    emit.out += short.push_callable(short.const(Continue))
    emit.load_const(points.get(Point(at, nulls, sure, ())))
    emit.load_const(link.callee.globals)
    cells = [*root.code.freevars, *root.code.cellvars]
    for name in cells:
        emit.load(link.locals[name])
    emit.build("BUILD_TUPLE", len(cells))
    for name in sure:
        emit.load(link.locals[name])
    count = len(sure)
    for value in link.stack:
        if value is CONTINUATION:
            load_continuation(emit, rest)
        elif value is not NULL:
            emit.load(value)
        count += value is not NULL
    emit.out += short.call(3 + count)
