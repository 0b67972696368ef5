"""Operators, comparisons and subscripts."""

from __future__ import annotations

from dynajit.bytecode import Instr
from dynajit.evaluate import operators
from dynajit.evaluate.machine import Machine
from dynajit.evaluate.op import op
from dynajit.values.base import Value
from dynajit.values.constant import Constant


@op("BINARY_OP")
def binary_op(m: Machine, instr: Instr, left: Value, right: Value) -> Value:
    return operators.binary(m, instr.arg, left, right)


@op("COMPARE_OP")
def compare_op(m: Machine, instr: Instr, left: Value, right: Value) -> Value:
    return operators.compare(m, instr.arg, left, right)


@op("IS_OP")
def is_op(m: Machine, instr: Instr, left: Value, right: Value) -> Value:
    return Constant(operators.is_same(m, left, right) != bool(instr.arg))


@op("CONTAINS_OP")
def contains_op(m: Machine, instr: Instr, item: Value, container: Value) -> Value:
    return Constant(operators.contains(m, item, container) != bool(instr.arg))


@op("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT")
def unary(m: Machine, instr: Instr, value: Value) -> Value:
    return operators.unary(m, instr.op, value)


@op("UNARY_NOT")
def unary_not(m: Machine, instr: Instr, value: Value) -> Value:
    return Constant(not m.is_true(value))


@op("TO_BOOL")
def to_bool(m: Machine, instr: Instr, value: Value) -> Value:
    return Constant(m.is_true(value))


@op("BINARY_SUBSCR")
def binary_subscr(m: Machine, instr: Instr, owner: Value, key: Value) -> Value:
    return owner.getitem(m, key)


@op("STORE_SUBSCR")
def store_subscr(m: Machine, instr: Instr, value: Value, owner: Value, key: Value) -> None:
    owner.setitem(m, key, value)


@op("DELETE_SUBSCR")
def delete_subscr(m: Machine, instr: Instr, owner: Value, key: Value) -> None:
    owner.delitem(m, key)
