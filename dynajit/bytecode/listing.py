"""The printable form of a body, for tests and panels."""

from __future__ import annotations

from types import CodeType
from typing import Any

from dynajit.bytecode.code import Code, Instr, Label


def listing(code: Code) -> str:
    """One line for each instruction: source line where it changes, label, operation, argument, target.

    The regions follow, as `start..end -> handler, depth`. Labels are numbered in the order in which they stand, so
    equal bodies have equal listings.
    """
    names = label_names(code)
    lines: list[str] = []
    last: int | None = None
    for item in code.body:
        if isinstance(item, Label):
            lines.append(f"{names[item]}:")
            continue
        line = item.position.line
        shown = "" if line is None or line == last else str(line)
        last = last if line is None else line
        lines.append(f"{shown:>5}  {_instruction(item, names)}")
    for region in code.regions:
        lasti = ", lasti" if region.push_lasti else ""
        span = f"{names[region.start]}..{names[region.end]} -> {names[region.handler]}"
        lines.append(f"region {span}, depth {region.depth}{lasti}")
    return "\n".join(lines)


def label_names(code: Code) -> dict[Label, str]:
    """`L1`, `L2` ... in the order in which the labels stand."""
    labels = [item for item in code.body if isinstance(item, Label)]
    return {label: f"L{number}" for number, label in enumerate(labels, 1)}


def _instruction(instr: Instr, names: dict[Label, str]) -> str:
    parts = [f"{instr.op:<24}"]
    if instr.arg is not None or instr.op == "LOAD_CONST":
        parts.append(_argument(instr.arg))
    if instr.target is not None:
        parts.append(f"-> {names.get(instr.target, '?')}")
    return " ".join(parts).rstrip()


def _argument(arg: Any) -> str:
    if isinstance(arg, CodeType):  # its repr has an address in it
        return f"<code {arg.co_qualname}>"
    return repr(arg)
