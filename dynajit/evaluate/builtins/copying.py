"""copy.copy and copy.deepcopy of what is modelled."""

from __future__ import annotations

import copy
import types
from typing import Any

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.frame import MISSING
from dynajit.values.base import Handle, Lazy, Value
from dynajit.values.builtin import BuiltinValue, PythonModule
from dynajit.values.constant import Constant, SymbolicNumber, is_plain
from dynajit.values.function import FunctionValue, NestedFunction
from dynajit.values.instance import InstanceDict, InstanceValue, new_instance, raw_attr
from dynajit.values.klass import ClassValue, lookup
from dynajit.values.mapping import DictValue, new_dict
from dynajit.values.sequence import ListValue, TupleValue, new_list
from dynajit.values.sets import SetValue
from dynajit.values.tensor import TensorValue

_AS_THEY_ARE = (Constant, SymbolicNumber, ClassValue, BuiltinValue, PythonModule, FunctionValue, NestedFunction)
_OWN_RULES = ("__deepcopy__", "__copy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__slots__",
              "__getnewargs__", "__getnewargs_ex__", "__new__")  # fmt: skip


@builtin(copy.copy)
def copy_copy(m: Machine, value: Value) -> Value:
    if value.kind in ("list", "dict", "set"):
        return m.call_method(value, "copy")
    if isinstance(value, (*_AS_THEY_ARE, TupleValue)):
        return value
    if isinstance(value, InstanceValue) and type(value) is InstanceValue:
        return _instance(m, value, "__copy__", lambda attribute: attribute, ())
    raise GraphBreak(reasons.OPAQUE_CALL, f"copy.copy of {value.describe()}")


@builtin(copy.deepcopy)
def copy_deepcopy(m: Machine, value: Value, memo: Value | None = None) -> Value:
    if memo is not None and not (isinstance(memo, Constant) and memo.value is None):
        raise GraphBreak(reasons.OPAQUE_CALL, "copy.deepcopy with a memo")
    if isinstance(value, TensorValue):
        made = m.record("call_function", copy.deepcopy, (value,), {})
        return made.of_class(value.cls) if isinstance(made, TensorValue) else made
    return _deep(m, value, {})


def _deep(m: Machine, value: Value, memo: dict[Any, Value]) -> Value:
    """One object. memo: copies by the identity of the original."""
    if isinstance(value, Lazy) and (is_plain(value.obj) or isinstance(value.obj, (type, types.FunctionType))):
        return value  # nothing depends on what it is
    value = m.realize(value)
    if isinstance(value, _AS_THEY_ARE):
        return value
    if isinstance(value, TupleValue):
        return TupleValue(tuple(_deep(m, item, memo) for item in value.items), value.cls)
    if isinstance(value, InstanceDict):
        return _deep(m, value.copied(m), memo)
    if not isinstance(value, Handle):
        raise GraphBreak(reasons.OPAQUE_CALL, f"copy.deepcopy of {value.describe()}")
    known = memo.get(value.key)
    if known is not None:
        return known
    return _deep_handle(m, value, memo)


def _deep_handle(m: Machine, value: Handle, memo: dict[Any, Value]) -> Value:
    if isinstance(value, ListValue):
        made_list = memo[value.key] = new_list(m, ())
        m.heap.put(made_list.key, tuple(_deep(m, item, memo) for item in value.items_now(m)))
        return made_list
    if isinstance(value, DictValue):
        made_dict = memo[value.key] = new_dict(m, (), value.cls, value.default_factory)
        for key, item in list(value.items_now(m).values()):
            made_dict.setitem(m, _deep(m, key, memo), _deep(m, item, memo))
        return made_dict
    if isinstance(value, SetValue):
        return memo.setdefault(value.key, m.call_method(value, "copy"))  # its elements are constants and classes
    if type(value) is InstanceValue:
        return _instance(m, value, "__deepcopy__", lambda attribute: _deep(m, attribute, memo), memo)
    raise GraphBreak(reasons.OPAQUE_CALL, f"copy.deepcopy of {value.describe()}")


def _instance(m: Machine, value: InstanceValue, rule: str, copied: Any, memo: Any) -> Value:
    """An instance that is copied as `object.__reduce_ex__` says: a new one with copies of the attributes."""
    cls = value.cls
    for name in _OWN_RULES:
        own = raw_attr(cls, name)
        if own is not MISSING and own is not raw_attr(object, name):
            raise GraphBreak(reasons.OPAQUE_CALL, f"copying {value.describe()}, which has {name}")
    lookup(m, cls, rule)
    made = new_instance(m, cls)
    if isinstance(memo, dict):
        memo[value.key] = made
    for name, attribute in InstanceDict(value).entries(m).items():
        made.put(m, name, copied(attribute))
    return made
