"""The table of instruction handlers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from dynajit.bytecode import Instr

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Op:
    """run: called as `run(machine, instr, *popped)`; what it returns is pushed (a tuple: several, None: nothing).

    pops: how many values it takes from the stack. lazy: it only moves values, so nothing is guarded.
    """

    run: Callable[..., Any]
    pops: Callable[[Instr], int]
    lazy: bool


OPS: dict[str, Op] = {}


def op(*names: str, pops: Callable[[Instr], int] | None = None, lazy: bool = False) -> Callable[[F], F]:
    """Register a handler. Its parameters after the machine and the instruction are what it pops."""

    def register(run: F) -> F:
        parameters = list(inspect.signature(run).parameters.values())[2:]
        count = len(parameters)
        assert pops is not None or all(p.kind is not p.VAR_POSITIONAL for p in parameters), run
        for name in names:
            assert name not in OPS, name
            OPS[name] = Op(run, pops or (lambda instr: count), lazy)
        return run

    return register
