"""Errors raised inside a graph: the traceback points at the user's line, and generated frames are left out."""

from __future__ import annotations

import linecache
import types
from types import TracebackType

from torch import fx

from dynajit import frame


def clean(error: BaseException) -> None:
    """Rewrite the traceback of an error that leaves compiled code. Called only when a hidden frame is in it."""
    chain: list[TracebackType] = []
    here = error.__traceback__
    while here is not None:
        chain.append(here)
        here = here.tb_next
    kept: list[tuple[types.FrameType, int, int]] = []
    for part in chain:
        code = part.tb_frame.f_code
        if not frame.is_hidden(code):
            kept.append((part.tb_frame, part.tb_lasti, part.tb_lineno))
            continue
        line = _user_line(part)
        if line is not None and kept:
            owner, lasti, _ = kept[-1]
            kept[-1] = (owner, lasti, line)
    rebuilt: TracebackType | None = None
    for owner, lasti, line in reversed(kept):
        rebuilt = TracebackType(rebuilt, owner, lasti, line)
    error.__traceback__ = rebuilt


def _user_line(part: TracebackType) -> int | None:
    """The line of the compiled function whose operation failed."""
    module = part.tb_frame.f_locals.get("self")
    if not isinstance(module, fx.GraphModule):
        return None
    text = linecache.getline(part.tb_frame.f_code.co_filename, part.tb_lineno) or _line_of(module, part.tb_lineno)
    name = text.split("=")[0].split(":")[0].strip()
    for node in module.graph.nodes:
        if node.name == name:
            origin = node.meta.get("position")
            return getattr(origin, "root_line", None)
    return None


def _line_of(module: fx.GraphModule, number: int) -> str:
    lines = module.code.split("\n")
    return lines[number - 1] if 0 < number <= len(lines) else ""
