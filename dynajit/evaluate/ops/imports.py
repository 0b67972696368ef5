"""Imports of modules that are loaded already."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from dynajit import reasons
from dynajit.bytecode import Instr
from dynajit.errors import GraphBreak
from dynajit.evaluate.machine import Machine
from dynajit.evaluate.op import op
from dynajit.source import Item, Known
from dynajit.values.base import Value
from dynajit.values.builtin import PythonModule
from dynajit.values.constant import Constant, plain


@op("IMPORT_NAME")
def import_name(m: Machine, instr: Instr, level: Value, names: Value) -> Value:
    name = instr.arg
    depth = plain(m, level)
    if depth:
        package = m.frame.callee.globals.get("__package__") or ""
        name = importlib.util.resolve_name("." * depth + name, package)
    if m.builtins.get("__import__") is not __import__:
        raise GraphBreak(reasons.IMPORT, name)
    if name not in sys.modules:
        raise GraphBreak(reasons.IMPORT, name)
    wanted = name if not _is_none(names) and m.unpack(names) else (name.partition(".")[0] if not depth else name)
    return m.realize(m.wrap(sys.modules[wanted], Item(Known(sys.modules), wanted)))


def _is_none(value: Value) -> bool:
    return isinstance(value, Constant) and value.value is None


@op("IMPORT_FROM", pops=lambda instr: 0)
def import_from(m: Machine, instr: Instr) -> Value:
    module = m.realize(m.frame.stack[-1])
    if not isinstance(module, PythonModule) or not isinstance(module.module, ModuleType):
        raise GraphBreak(reasons.IMPORT, instr.arg)
    if instr.arg not in module.module.__dict__:
        raise GraphBreak(reasons.IMPORT, f"{module.describe()}.{instr.arg}")
    return m.getattr(module, instr.arg)
