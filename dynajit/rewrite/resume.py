"""Resume functions: the same code, entered at any instruction, with locals and stack as arguments."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from types import CodeType

from dynajit import frame
from dynajit.bytecode import Instr, Label, Region, encode, python
from dynajit.bytecode import emit as short
from dynajit.bytecode.flow import Bound, liveness, stack_depths
from dynajit.evaluate.program import Program, Resumed, register_resumed

PROLOGUE = ("MAKE_CELL", "COPY_FREE_VARS", "RESUME", "RETURN_GENERATOR")
_SEES_ITS_LOCALS = frozenset({"locals", "eval", "exec", "vars", "dir", "globals", "sys", "inspect", "breakpoint"})


@dataclass(frozen=True)
class Point:
    """Where a resume function goes on.

    at: index in the program that the user wrote. nulls: which stack slots are empty. bound: locals that have a value;
    maybe: locals that may have one.
    """

    at: int
    nulls: tuple[bool, ...]
    bound: tuple[str, ...]
    maybe: tuple[str, ...] = ()


class ResumePoints:
    """The resume functions of one program, made when they are needed and shared by all its entries."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.depths = stack_depths(program.code)
        self.live = liveness(program.code)
        self.sees_locals = bool(_SEES_ITS_LOCALS & set(program.original.co_names))
        self._made: dict[Point, frame.Resume] = {}

    def get(self, point: Point) -> frame.Resume:
        found = self._made.get(point)
        if found is None:
            found = frame.Resume(_resume_code(self.program, point), None)
            self._made[point] = found
        return found

    def wanted(self, at: int, names: Bound) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(bound, maybe bound) locals that a resume function at `at` needs, in the order of the frame's slots."""
        code = self.program.code
        cells = {*code.cellvars, *code.freevars}
        everything = self.sees_locals
        first = code.varnames[:1] if "__class__" in code.freevars else []  # super() looks for self in the first slot

        def keep(name: str) -> bool:
            return name not in cells and (everything or name in self.live[at] or name in first)

        order = [name for name in code.varnames if keep(name)]
        sure = tuple(name for name in order if name in names.definitely)
        return sure, tuple(name for name in order if name in names.maybe and name not in names.definitely)


def points_of(program: Program) -> ResumePoints:
    if program.points is None:
        program.points = ResumePoints(program)
    found: ResumePoints = program.points
    return found


def _resume_code(program: Program, point: Point) -> CodeType:
    """A function of (locals..., stack slots...) that continues the program at `point.at`; cells are free variables."""
    code = program.code
    slots = [f"___stack{i}" for i, null in enumerate(point.nulls) if not null]
    params = [*point.bound, *point.maybe, *slots]
    here = Label()
    entry: list[Instr | Label] = []
    freevars = [*code.freevars, *code.cellvars]
    if freevars:
        entry.append(Instr("COPY_FREE_VARS", len(freevars)))
    entry.append(Instr("RESUME", 0))
    for name in point.maybe:
        entry += _unbind_if_missing(name)
    remaining = iter(slots)
    for null in point.nulls:
        if null:
            entry.append(Instr("PUSH_NULL"))
        else:
            slot = next(remaining)
            entry += [*short.load(slot), Instr("DELETE_FAST", slot)]
    entry.append(Instr("JUMP", target=here))
    body: list[Instr | Label] = [_without_prologue(item) for item in code.body]
    body.insert(point.at, here)
    rest = [name for name in code.varnames if name not in params and name not in code.cellvars]
    made = replace(
        code, body=[*entry, *body], flags=code.flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
        argcount=len(params), posonlyargcount=0, kwonlyargcount=0, varnames=[*params, *rest], cellvars=[],
        freevars=freevars, consts=list(code.consts), names=list(code.names),
    )  # fmt: skip
    original = encode(made)
    register_resumed(original, made, Resumed(program, len(entry), point.at))
    return original


def _without_prologue(item: Instr | Label) -> Instr | Label:
    """The prologue was run by the first part; it is kept as NOPs so that indices stay."""
    return Instr("NOP") if isinstance(item, Instr) and item.op in PROLOGUE else item


def _unbind_if_missing(name: str) -> list[Instr | Label]:
    end = Label()
    return [
        *short.load(name), *short.const(frame.MISSING), Instr("IS_OP", 0), Instr("POP_JUMP_IF_FALSE", target=end),
        Instr("DELETE_FAST", name), end,
    ]  # fmt: skip


def pop_null() -> list[Instr]:
    """Take an empty slot off the stack: only a call can."""
    if python.null_first:
        return [*short.const(tuple), *short.call(0), Instr("POP_TOP")]
    return [*short.const(tuple), Instr("SWAP", 2), *short.call(0), Instr("POP_TOP")]


def hand_over(
    points: ResumePoints, at: int, nulls: tuple[bool, ...], names: Bound
) -> tuple[list[Instr | Label], list[Region]]:
    """Leave the frame: return the resume function for `at` and its arguments to the trampoline.

    The stack holds the slots that `nulls` describes. The second result protects reads of locals that may be unbound.
    """
    code = points.program.code
    sure, maybe = points.wanted(at, names)
    resume = points.get(Point(at, nulls, sure, maybe))
    out: list[Instr | Label] = []
    regions: list[Region] = []
    for i in reversed(range(len(nulls))):
        out += pop_null() if nulls[i] else short.store(f"___slot{i}")
    for name in maybe:
        _read_or_missing(name, out, regions)
    out += short.push_callable(short.const(resume))
    cells = [*code.freevars, *code.cellvars]
    for name in cells:
        out += short.load_cell(name)
    slots = [f"___slot{i}" for i, null in enumerate(nulls) if not null]
    for name in [*sure, *(f"___maybe_{name}" for name in maybe), *slots]:
        out += short.load(name)
    return [*out, *short.call(len(cells) + len(sure) + len(maybe) + len(slots)), Instr("RETURN_VALUE")], regions


def _read_or_missing(name: str, out: list[Instr | Label], regions: list[Region]) -> None:
    """`___maybe_name = name`, or MISSING when it is unbound. The stack is empty here."""
    start, end, handler, done = Label(), Label(), Label(), Label()
    regions.append(Region(start, end, handler, 0, False))
    kept = short.store(f"___maybe_{name}")
    out += [start, *short.load(name), end, *kept, Instr("JUMP", target=done), handler, Instr("PUSH_EXC_INFO"),
            Instr("POP_TOP"), Instr("POP_EXCEPT"), *short.const(frame.MISSING), *kept, done]  # fmt: skip
