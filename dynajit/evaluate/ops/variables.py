"""Locals, cells, globals and attributes."""

from __future__ import annotations

from typing import NoReturn

from dynajit.bytecode import Instr
from dynajit.evaluate.inlining import cell_of
from dynajit.evaluate.machine import Machine
from dynajit.evaluate.op import op
from dynajit.source import Builtins, Known
from dynajit.values.base import NULL, Value
from dynajit.values.builtin import BuiltinValue
from dynajit.values.cell import new_cell
from dynajit.values.instance import SuperValue
from dynajit.values.klass import ClassValue


def _unbound(m: Machine, name: str) -> NoReturn:
    m.throw(UnboundLocalError, f"cannot access local variable '{name}' where it is not associated with a value")


@op("LOAD_FAST", lazy=True)
def load_fast(m: Machine, instr: Instr) -> Value:
    return m.frame.locals.get(instr.arg) or _unbound(m, instr.arg)


@op("LOAD_FAST_AND_CLEAR", lazy=True)
def load_fast_and_clear(m: Machine, instr: Instr) -> Value:
    return m.frame.locals.pop(instr.arg, NULL)


@op("STORE_FAST", lazy=True)
def store_fast(m: Machine, instr: Instr, value: Value) -> None:
    if value is NULL:
        m.frame.locals.pop(instr.arg, None)
    else:
        m.frame.locals[instr.arg] = value


@op("DELETE_FAST", lazy=True)
def delete_fast(m: Machine, instr: Instr) -> None:
    if m.frame.locals.pop(instr.arg, None) is None:
        _unbound(m, instr.arg)


# ---- cells ------------------------------------------------------------------------------------------------------
@op("MAKE_CELL")
def make_cell(m: Machine, instr: Instr) -> None:
    frame = m.frame
    frame.cells[instr.arg] = new_cell(m, instr.arg, frame.locals.pop(instr.arg, None))


@op("COPY_FREE_VARS")
def copy_free_vars(m: Machine, instr: Instr) -> None:
    for name in m.frame.program.original.co_freevars:
        cell_of(m, m.frame, name)


@op("LOAD_CLOSURE")
def load_closure(m: Machine, instr: Instr) -> Value:
    return cell_of(m, m.frame, instr.arg)


@op("LOAD_DEREF", lazy=True)
def load_deref(m: Machine, instr: Instr) -> Value:
    contents: Value | None = m.heap[cell_of(m, m.frame, instr.arg).key]
    if contents is None:
        if instr.arg in m.frame.program.original.co_freevars:
            text = (
                f"cannot access free variable '{instr.arg}' where it is not associated with a value in enclosing scope"
            )
            m.throw(NameError, text)
        _unbound(m, instr.arg)
    return contents


@op("STORE_DEREF", lazy=True)
def store_deref(m: Machine, instr: Instr, value: Value) -> None:
    m.heap.put(cell_of(m, m.frame, instr.arg).key, value)


@op("DELETE_DEREF")
def delete_deref(m: Machine, instr: Instr) -> None:
    load_deref(m, instr)
    m.heap.put(cell_of(m, m.frame, instr.arg).key, None)


# ---- globals ------------------------------------------------------------------------------------------------------
@op("LOAD_GLOBAL", lazy=True)
def load_global(m: Machine, instr: Instr) -> Value:
    callee = m.frame.callee
    found = m.namespace_item(callee.globals, callee.globals_source, instr.arg)
    if found is None:
        found = m.namespace_item(m.builtins, Builtins(), instr.arg)
    if found is None:
        m.throw(NameError, f"name '{instr.arg}' is not defined")
    return found


@op("STORE_GLOBAL", lazy=True)
def store_global(m: Machine, instr: Instr, value: Value) -> None:
    m.write_namespace(m.frame.callee.globals, instr.arg, value)


@op("DELETE_GLOBAL")
def delete_global(m: Machine, instr: Instr) -> None:
    callee = m.frame.callee
    if m.namespace_item(callee.globals, callee.globals_source, instr.arg) is None:
        m.throw(NameError, f"name '{instr.arg}' is not defined")
    m.write_namespace(callee.globals, instr.arg, NULL)


# ---- attributes ------------------------------------------------------------------------------------------------------
@op("LOAD_ATTR")
def load_attr(m: Machine, instr: Instr, owner: Value) -> Value:
    return m.getattr(owner, instr.arg)


@op("LOAD_METHOD")
def load_method(m: Machine, instr: Instr, owner: Value) -> tuple[Value, ...]:
    return m.callable_pair(m.getattr(owner, instr.arg))


@op("STORE_ATTR")
def store_attr(m: Machine, instr: Instr, value: Value, owner: Value) -> None:
    m.realize(owner).setattr(m, instr.arg, value)


@op("DELETE_ATTR")
def delete_attr(m: Machine, instr: Instr, owner: Value) -> None:
    owner.delattr(m, instr.arg)


@op("LOAD_SUPER_ATTR")
def load_super_attr(m: Machine, instr: Instr, function: Value, cls: Value, owner: Value) -> Value | tuple[Value, ...]:
    name, flags = instr.arg
    assert isinstance(function, ClassValue)
    if function.cls is not super or not isinstance(cls, ClassValue):
        function.missing("super")
    found = m.getattr(SuperValue(cls.cls, owner), name)
    return m.callable_pair(found) if flags & 1 else found


@op("LOAD_ASSERTION_ERROR")
def load_assertion_error(m: Machine, instr: Instr) -> Value:
    return ClassValue(AssertionError)


@op("LOAD_BUILD_CLASS")
def load_build_class(m: Machine, instr: Instr) -> Value:
    function = m.builtins["__build_class__"]
    return BuiltinValue(function, source=Known(function))
