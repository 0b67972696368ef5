"""Making and unpacking containers."""

from __future__ import annotations

from dynajit import reasons
from dynajit.bytecode import Instr
from dynajit.errors import GraphBreak
from dynajit.evaluate.machine import Machine
from dynajit.evaluate.op import op
from dynajit.values.base import Value
from dynajit.values.constant import Constant, SliceValue, as_plain, is_known
from dynajit.values.mapping import DictValue, new_dict, pairs, update
from dynajit.values.sequence import LIST_METHODS, ListValue, TupleValue, new_list
from dynajit.values.sets import SET_METHODS, SetValue, new_set


@op("BUILD_TUPLE", pops=lambda instr: int(instr.arg), lazy=True)
def build_tuple(m: Machine, instr: Instr, *items: Value) -> Value:
    return TupleValue(items)


@op("BUILD_LIST", pops=lambda instr: int(instr.arg), lazy=True)
def build_list(m: Machine, instr: Instr, *items: Value) -> Value:
    return new_list(m, items)


@op("BUILD_SET", pops=lambda instr: int(instr.arg))
def build_set(m: Machine, instr: Instr, *items: Value) -> Value:
    return new_set(m, items, in_turn=True)


@op("BUILD_MAP", pops=lambda instr: 2 * int(instr.arg), lazy=True)
def build_map(m: Machine, instr: Instr, *items: Value) -> Value:
    return new_dict(m, list(zip(items[::2], items[1::2], strict=True)))


@op("BUILD_CONST_KEY_MAP", pops=lambda instr: int(instr.arg) + 1, lazy=True)
def build_const_key_map(m: Machine, instr: Instr, *items: Value) -> Value:
    return new_dict(m, list(zip(m.unpack(items[-1]), items[:-1], strict=True)))


@op("BUILD_SLICE", pops=lambda instr: int(instr.arg))
def build_slice(m: Machine, instr: Instr, *parts: Value) -> Value:
    if all(is_known(m, part) for part in parts):
        return Constant(slice(*(as_plain(m, part) for part in parts)))
    return SliceValue((*parts, Constant(None))[:3])


def _at(m: Machine, depth: int) -> Value:
    return m.frame.stack[-depth - 1]  # the popped values still lie on the stack while a handler runs


@op("LIST_APPEND", lazy=True)
def list_append(m: Machine, instr: Instr, item: Value) -> None:
    owner = m.realize(_at(m, instr.arg))
    assert isinstance(owner, ListValue)
    LIST_METHODS["append"](m, owner, item)


@op("LIST_EXTEND")
def list_extend(m: Machine, instr: Instr, items: Value) -> None:
    owner = m.realize(_at(m, instr.arg))
    assert isinstance(owner, ListValue)
    LIST_METHODS["extend"](m, owner, items)


@op("SET_ADD")
def set_add(m: Machine, instr: Instr, item: Value) -> None:
    owner = m.realize(_at(m, instr.arg))
    if owner.source is not None:
        raise GraphBreak(reasons.NO_OPERATION, "adding to a set that a comprehension builds")
    assert isinstance(owner, SetValue)
    SET_METHODS["add"](m, owner, item)


@op("SET_UPDATE")
def set_update(m: Machine, instr: Instr, items: Value) -> None:
    owner = m.realize(_at(m, instr.arg))
    assert isinstance(owner, SetValue)
    SET_METHODS["update"](m, owner, items)


@op("MAP_ADD", pops=lambda instr: 2)
def map_add(m: Machine, instr: Instr, key: Value, value: Value) -> None:
    owner = m.frame.stack[-instr.arg - 2]
    if owner.source is not None:
        raise GraphBreak(reasons.NO_OPERATION, "adding to a dict that a comprehension builds")
    owner.setitem(m, key, value)


@op("DICT_UPDATE")
def dict_update(m: Machine, instr: Instr, other: Value) -> None:
    owner = m.realize(_at(m, instr.arg))
    assert isinstance(owner, DictValue)
    update(m, owner, other)


@op("DICT_MERGE")
def dict_merge(m: Machine, instr: Instr, other: Value) -> None:
    owner = m.realize(_at(m, instr.arg))
    assert isinstance(owner, DictValue)
    for key, value in pairs(m, other):
        if owner.contains(m, key):
            m.throw(TypeError, f"got multiple values for keyword argument {as_plain(m, key)!r}")
        owner.setitem(m, key, value)


@op("LIST_TO_TUPLE")
def list_to_tuple(m: Machine, instr: Instr, items: Value) -> Value:
    return TupleValue(m.unpack(items))


@op("UNPACK_SEQUENCE")
def unpack_sequence(m: Machine, instr: Instr, value: Value) -> tuple[Value, ...]:
    items = m.unpack(value)
    if len(items) < instr.arg:
        m.throw(ValueError, f"not enough values to unpack (expected {instr.arg}, got {len(items)})")
    if len(items) > instr.arg:
        m.throw(ValueError, f"too many values to unpack (expected {instr.arg})")
    return items[::-1]


@op("UNPACK_EX")
def unpack_ex(m: Machine, instr: Instr, value: Value) -> tuple[Value, ...]:
    items = m.unpack(value)
    before, after = instr.arg & 255, instr.arg >> 8
    if len(items) < before + after:
        m.throw(ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
    end = len(items) - after
    return (*items[end:][::-1], new_list(m, items[before:end]), *items[:before][::-1])
