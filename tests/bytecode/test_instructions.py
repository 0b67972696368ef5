"""The table of canonical instructions agrees with the interpreter that is running."""

import dis

import pytest

from dynajit.bytecode import INSTRUCTIONS, JUMPS, NO_FALL_THROUGH, Instr, Label, python, stack_effect
from dynajit.bytecode.versions.fold import as_named
from dynajit.bytecode.versions.unfold import as_it_stands

EXAMPLES = {
    "CALL": [(0, ()), (3, ()), (3, ("a", "b"))],
    "LOAD_SUPER_ATTR": [("a", 0), ("a", 1), ("a", 2), ("a", 3)],
    "BINARY_OP": ["+", "@="],
    "COMPARE_OP": ["<", "!="],
    "CALL_INTRINSIC_1": ["STOPITERATION_ERROR"],
    "CALL_INTRINSIC_2": ["TYPEVAR_WITH_BOUND"],
    "UNPACK_EX": [0, 3, 2 | 1 << 8],
    "MAKE_FUNCTION": [0, 1, 8, 9, 15],
    "FORMAT_VALUE": [0, 4],
    "CALL_FUNCTION_EX": [0, 1],
    "ASYNC_GEN_WRAP": [None],
    "BUILD_SLICE": [2, 3],
    "RAISE_VARARGS": [0, 1, 2],
}
NAMES = ("LOAD_", "STORE_", "DELETE_", "IMPORT_", "MAKE_CELL")
NOT_IN_CODE = {"RESERVED", "INTERPRETER_EXIT", "EXIT_INIT_CHECK", "ENTER_EXECUTOR", "END_FOR"}


class Writer:
    """The least that a fold rule can be given."""

    def __init__(self, behind: bool) -> None:
        self.behind = behind

    def slot(self, name):
        return 0

    name = const = slot

    def is_behind(self, label):
        return self.behind


def arguments(op):
    if op in EXAMPLES:
        return EXAMPLES[op]
    if op.startswith(NAMES):
        return ["a"]
    return [1, 2, 5]


def pieces(instr, behind=False):
    return [*python.fold.get(instr.op, as_named)(instr, Writer(behind))]


def exists(op):
    return op in python.fold or dis.opmap.get(op, 256) < 256


@pytest.mark.parametrize("op", sorted(INSTRUCTIONS))
def test_growth_is_what_dis_says(op):
    if not exists(op):
        pytest.skip(f"not in this version: {INSTRUCTIONS[op].says}")
    for arg in arguments(op):
        instr = Instr(op, arg, Label() if op in JUMPS else None)
        for jump in (False, True) if op in JUMPS else (False,):
            if op == "RETURN_GENERATOR" or (jump and op == "FOR_ITER"):
                continue  # the table of 3.11 and 3.12 leaves out what the frame or the loop's end marker does
            raw = pieces(instr)
            grown = 0
            for name, value in raw:
                number = dis.opmap[name]
                given = (0 if isinstance(value, Label) else value) if number >= dis.HAVE_ARGUMENT else None
                grown += dis.stack_effect(number, given, jump=jump)
            assert stack_effect(instr, jump) == grown, (instr, raw)


def test_every_instruction_of_this_version_can_be_read():
    """Each raw instruction has a rule, or is canonical itself."""
    names = {name for name, number in dis.opmap.items() if number < 256 and not name.startswith("INSTRUMENTED")}
    strange = {name for name in names - NOT_IN_CODE if name not in python.unfold and name not in INSTRUCTIONS}
    assert strange <= {"CACHE", "EXTENDED_ARG"}
    assert as_it_stands not in python.unfold.values()


def test_versions_write_only_what_they_have():
    for op in python.fold:
        for arg in arguments(op):
            for behind in (False, True):
                for piece in pieces(Instr(op, arg, Label() if op in JUMPS else None), behind):
                    assert isinstance(piece, Label) or dis.opmap[piece[0]] < 256


def test_jumps_are_instructions():
    assert INSTRUCTIONS.keys() >= JUMPS
    assert INSTRUCTIONS.keys() >= NO_FALL_THROUGH
