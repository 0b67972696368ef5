"""Identifiers of a kernel: inputs and outputs by the user's names, values by the operation they come from."""

from __future__ import annotations

import keyword
import re

from dynajit.codegen.kernel import Kernel

_C = """auto break case char const continue default do double else enum extern float for goto if inline int long
register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm
i j m n p z s r c lo hi row rows start first last total part chunks flag checked row_of each tiles
abs ceil cos cosh erf exp floor fmod log main max min pow round share sin sinh sqrt tail tan tanh trunc"""


# What printers hang on a name to make another: no name of ours ends like this.
_DERIVED = re.compile(r"_(v|r|b|at|row|rows\d*|step\d*|parts|sum|few|acc|place)$")

_PYTHON = """tl triton libdevice pid row col row_mask col_mask start first last part parts range float
XBLOCK RBLOCK WIDE True False None"""
C_RESERVED = frozenset(_C.split())
PYTHON_RESERVED = frozenset((*keyword.kwlist, *_PYTHON.split()))


def names_of(kernel: Kernel, reserved: frozenset[str]) -> dict[object, str]:
    """By ("in", i), ("out", i) and serial of a statement."""
    taken = set(reserved)
    taken |= {f"{letter}{k}" for letter in "ni" for k in range(len(kernel.loops))}
    names: dict[object, str] = {}

    def take(key: object, wish: str) -> None:
        base = re.sub(r"\W", "_", wish)
        base = f"v{base}" if not base or base[0].isdigit() else base
        base = re.sub(r"_(\d+)$", r"\1", base)  # `x_1` is a stride of x
        base = f"{base}x" if _DERIVED.search(base) else base
        unique, k = base, 1
        while unique in taken:
            k += 1
            unique = f"{base}{k}"
        taken.add(unique)
        names[key] = unique

    for i, operand in enumerate(kernel.inputs):
        take(("in", i), operand.name)
    for i, operand in enumerate(kernel.outputs):
        take(("out", i), "out" if len(kernel.outputs) == 1 else f"out_{operand.name}")
    for stmt in kernel.body:
        if stmt.op == "load":  # an element of x
            names[stmt.serial] = f"{names['in', stmt.arg]}_v"
        else:
            take(stmt.serial, stmt.name)
    return names
