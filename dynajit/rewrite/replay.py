"""Changes of existing objects -> instructions that do them to the real ones, in program order."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from contextvars import ContextVar
from typing import Any

from dynajit import reasons
from dynajit.bytecode import Instr
from dynajit.errors import GraphBreak
from dynajit.rewrite.reload import Reload
from dynajit.source import FreeCell
from dynajit.trace import Trace
from dynajit.values.ambient import TorchContext
from dynajit.values.base import NULL, Value
from dynajit.values.builtin import NamespaceValue
from dynajit.values.cell import CellValue
from dynajit.values.constant import Constant
from dynajit.values.container_instance import parts_of, set_items_of_list
from dynajit.values.context import GradContext
from dynajit.values.contextvar import ContextVarValue
from dynajit.values.deque import DequeValue
from dynajit.values.instance import DELETED, InstanceValue, raw_attr
from dynajit.values.keys import keyed_by_methods
from dynajit.values.mapping import DictValue, Items, put_last, set_items_of_dict
from dynajit.values.module import ModuleValue
from dynajit.values.sequence import Appended, ListValue
from dynajit.values.sets import SetValue, set_items_of_set


def replay(trace: Trace, emit: Reload) -> None:
    for key in trace.heap.changed():
        value = trace.handles[key]
        _replay_one(emit, value, trace.heap.initial(key), trace.heap[key])


def _replay_one(emit: Reload, value: Value, before: Any, after: Any) -> None:
    if isinstance(value, ListValue) and isinstance(after, Appended):
        emit.load(value)
        for item in after:
            emit.load(item)
        emit.build("BUILD_TUPLE", len(after))
        emit.instruction("LIST_EXTEND", 1)
        emit.instruction("POP_TOP")
    elif isinstance(value, ListValue) and value.cls is not list:  # its own methods were evaluated already
        emit.call(set_items_of_list, value, *after)
        emit.instruction("POP_TOP")
    elif isinstance(value, ListValue):
        for item in after:
            emit.load(item)
        emit.build("BUILD_LIST", len(after))
        emit.load(value)
        emit.load_const(slice(None))
        emit.instruction("STORE_SUBSCR")
    elif isinstance(value, DequeValue):
        emit.call(_set_items_of_deque, value, *after)
        emit.instruction("POP_TOP")
    elif isinstance(value, DictValue):
        _replay_dict(emit, value, before, after)
    elif isinstance(value, SetValue):
        emit.call(set_items_of_set, value, *after.values())
        emit.instruction("POP_TOP")
    elif isinstance(value, InstanceValue):
        _replay_attributes(emit, value, before, after)
    elif isinstance(value, CellValue):
        _replay_cell(emit, value, after)
    elif isinstance(value, NamespaceValue):
        _replay_namespace(emit, value, after)
    elif isinstance(value, ContextVarValue):
        if after is NULL:
            raise GraphBreak(reasons.NO_OPERATION, "clearing a context variable")
        emit.call(_set_variable, value, after)
        emit.instruction("POP_TOP")
    elif isinstance(value, TorchContext):
        return  # entered already
    elif isinstance(value, GradContext):
        _store_attr(emit, value, "prev", Constant(after))
    else:
        raise GraphBreak(reasons.NO_OPERATION, f"repeating a change of {value.describe()}")


def _set_items_of_deque(target: deque[Any], *items: Any) -> None:
    target.clear()
    target.extend(items)


def _set_variable(variable: ContextVar[Any], value: Any) -> None:
    variable.set(value)


def _replay_dict(emit: Reload, value: DictValue, before: Items, after: Items) -> None:
    if value.cls not in (dict, OrderedDict, defaultdict):  # its own __setitem__ was evaluated already
        emit.call(set_items_of_dict, value, *parts_of(value, after))
        emit.instruction("POP_TOP")
        return
    if keyed_by_methods([*before, *after]):
        put_last(emit, value, after)
        return
    kept = [name for name in before if name in after]
    in_order = list(after)[: len(kept)] == kept
    if in_order:
        for name, (key, _) in before.items():
            if name not in after:
                emit.load(value)
                emit.load(key)
                emit.instruction("DELETE_SUBSCR")
    else:
        emit.load(value)
        emit.instruction("LOAD_METHOD", "clear")
        emit.instruction("CALL", (0, ()))
        emit.instruction("POP_TOP")
    for name, (key, item) in after.items():
        if not in_order or name not in before or before[name][1] is not item:
            emit.load(item)
            emit.load(value)
            emit.load(key)
            emit.instruction("STORE_SUBSCR")


def _replay_attributes(emit: Reload, value: InstanceValue, before: dict[str, Value], after: dict[str, Value]) -> None:
    plain = raw_attr(value.cls, "__setattr__") is object.__setattr__ or isinstance(value, ModuleValue)
    for name, item in after.items():
        if before.get(name) is item:
            continue
        if item is DELETED:
            emit.load(value)
            emit.instruction("DELETE_ATTR", name)
        elif plain:
            _store_attr(emit, value, name, item)
        else:
            emit.call(object.__setattr__, value, Constant(name), item)
            emit.instruction("POP_TOP")


def _store_attr(emit: Reload, value: Value, name: str, item: Value) -> None:
    emit.load(item)
    emit.load(value)
    emit.instruction("STORE_ATTR", name)


def _replay_cell(emit: Reload, value: CellValue, after: Value | None) -> None:
    if isinstance(value.source, FreeCell):
        if after is None:
            emit.instruction("DELETE_DEREF", value.source.name)
        else:
            emit.load(after)
            emit.instruction("STORE_DEREF", value.source.name)
    elif after is None:
        emit.load(value)
        emit.instruction("DELETE_ATTR", "cell_contents")
    else:
        _store_attr(emit, value, "cell_contents", after)


def _replay_namespace(emit: Reload, value: NamespaceValue, after: dict[str, Value]) -> None:
    own = value.namespace is emit.globals
    for name, item in after.items():
        if item is NULL and name not in value.namespace:
            continue  # it came and went
        if own:
            emit.out += [Instr("DELETE_GLOBAL", name)] if item is NULL else _stored_global(emit, name, item)
            continue
        if item is not NULL:
            emit.load(item)
        emit.load_const(value.namespace)
        emit.load_const(name)
        emit.instruction("DELETE_SUBSCR" if item is NULL else "STORE_SUBSCR")


def _stored_global(emit: Reload, name: str, item: Value) -> list[Instr]:
    emit.load(item)
    return [Instr("STORE_GLOBAL", name)]
