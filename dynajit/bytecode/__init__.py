"""A code object as editable data. Knows nothing of torch, and is the only package that knows the Python version."""

from dynajit.bytecode.code import (
    JUMPS,
    NO_FALL_THROUGH,
    NOWHERE,
    Code,
    Instr,
    Label,
    Position,
    Region,
)
from dynajit.bytecode.decode import decode
from dynajit.bytecode.encode import encode
from dynajit.bytecode.versions import python

__all__ = [
    "JUMPS",
    "NOWHERE",
    "NO_FALL_THROUGH",
    "Code",
    "Instr",
    "Label",
    "Position",
    "Region",
    "decode",
    "encode",
    "python",
]
