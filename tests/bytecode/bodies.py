"""Making and comparing bodies: shared by the tests of the bytecode package."""

from __future__ import annotations

import inspect
import sysconfig
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dynajit.bytecode import Code, Instr, Label, Position, Region, encode

ROOT = Path(__file__).parents[2]
STDLIB = Path(sysconfig.get_paths()["stdlib"])


def code_objects(folder: str) -> Iterator[types.CodeType]:
    """All code objects of the modules directly in a folder of the standard library."""
    for path in sorted((STDLIB / folder).glob("*.py")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                module = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
            except (SyntaxError, ValueError):  # files that are wrong on purpose
                continue
        yield from nested(module)


def nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from nested(const)


def function(code: Code, namespace: dict[str, Any] | None = None) -> Callable[..., Any]:
    """A function that runs `code`."""
    return types.FunctionType(encode(code), {"__builtins__": __builtins__, **(namespace or {})})


def body(*items: Instr | Label, args: str = "", varnames: str = "", regions: tuple[Region, ...] = ()) -> Code:
    """A function of `args` with the given instructions; names of other locals follow in `varnames`."""
    names = [*args.split(), *varnames.split()]
    return Code(
        body=[Instr("RESUME", 0), *items],
        regions=list(regions),
        name="made",
        qualname="made",
        filename="made.py",
        firstlineno=1,
        flags=inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS,
        argcount=len(args.split()),
        posonlyargcount=0,
        kwonlyargcount=0,
        varnames=names,
        cellvars=[],
        freevars=[],
    )


def at_line(line: int) -> Position:
    return Position(line, line, 0, 1)


def numbered(code: Code) -> list[Any]:
    """The body and its regions with numbers for labels, so that two of them can be compared."""
    numbers = {item: number for number, item in enumerate(code.body) if isinstance(item, Label)}
    shown: list[Any] = []
    for item in code.body:
        if isinstance(item, Label):
            shown.append(numbers[item])
        else:
            shown.append((item.op, item.arg, numbers.get(item.target), item.position))
    for region in code.regions:
        places = (numbers[region.start], numbers[region.end], numbers[region.handler])
        shown.append((*places, region.depth, region.push_lasti))
    return shown


def same(left: list[Any], right: list[Any]) -> bool:
    """Equal, with arguments of the same type, and 0.0 and -0.0 apart."""
    if left != right:
        return False
    pairs = ((a[1], b[1]) for a, b in zip(left, right, strict=True) if isinstance(a, tuple))
    return all(a is b or (type(a) is type(b) and repr(a) == repr(b)) for a, b in pairs)
