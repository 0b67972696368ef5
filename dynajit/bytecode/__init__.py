"""A code object as editable data. Knows nothing of torch, and is the only package that knows which Python runs.

`decode` reads a code object into a `Code`, a list of canonical instructions; `encode` writes one. In between the list
may be edited at will. A canonical instruction is the same on every Python:

- its argument is decoded: names, constants, operator symbols, counts (`CALL` has the count of all arguments and the
  names of the keyword arguments); caches, EXTENDED_ARG, PRECALL, KW_NAMES and super-instructions do not appear;
- jumps have a `Label` for a target and no direction; FOR_ITER jumps to the code after the loop, past the end markers;
- JUMP_IF_TRUE_OR_POP is COPY 1, POP_JUMP_IF_TRUE, POP_TOP; RETURN_CONST is LOAD_CONST, RETURN_VALUE; a subscript with a
  slice is BUILD_SLICE 2 and BINARY_SUBSCR or STORE_SUBSCR; LOAD_FAST_CHECK is LOAD_FAST;
- POP_JUMP_IF_TRUE, POP_JUMP_IF_FALSE and UNARY_NOT test the truth of any value;
- LOAD_METHOD is not LOAD_ATTR, LOAD_GLOBAL pushes one value: a NULL has its own PUSH_NULL.

What differs between versions and cannot be folded away: where NULL stands in a call (`python.null_first`), and whether
SEND drops its receiver when it jumps (`python.send_pops_receiver`).

`INSTRUCTIONS` lists all canonical instructions, what they do and what they do to the stack. `flow` answers questions
about a body, `emit` writes short sequences, `listing` prints.
"""

from dynajit.bytecode.code import NOWHERE, Code, Instr, Label, Position, Region
from dynajit.bytecode.decode import decode
from dynajit.bytecode.encode import encode
from dynajit.bytecode.instructions import INSTRUCTIONS, JUMPS, NO_FALL_THROUGH, Operation, stack_effect
from dynajit.bytecode.listing import listing
from dynajit.bytecode.versions import python

__all__ = [
    "INSTRUCTIONS",
    "JUMPS",
    "NOWHERE",
    "NO_FALL_THROUGH",
    "Code",
    "Instr",
    "Label",
    "Operation",
    "Position",
    "Region",
    "decode",
    "encode",
    "listing",
    "python",
    "stack_effect",
]
