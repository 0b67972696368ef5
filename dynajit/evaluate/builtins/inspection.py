"""Looking at objects: types, attributes, identity; and making instances of classes."""

from __future__ import annotations

import abc
import builtins
import dataclasses
import inspect
import sys
import types
import typing
import weakref
from typing import Any

import torch
from torch import nn

from dynajit import reasons
from dynajit.errors import GraphBreak, Raised
from dynajit.evaluate import construction
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.frame import MISSING
from dynajit.guards.explain import current
from dynajit.source import Attr, Known, Source
from dynajit.values.base import Value
from dynajit.values.constant import Constant, plain
from dynajit.values.exception import ExceptionValue, TracebackValue
from dynajit.values.function import FunctionValue, MethodValue
from dynajit.values.instance import InstanceValue, SuperValue, raw_attr
from dynajit.values.klass import ClassValue, lookup
from dynajit.values.module import ModuleValue
from dynajit.values.sequence import TupleValue
from dynajit.values.tensor import TensorValue, type_name
from dynajit.values.weak import MadeReference


@builtin(type)
def type_(m: Machine, value: Value, *rest: Value) -> Value:
    if rest:
        raise GraphBreak(reasons.CLASS_STATEMENT, "type() with three arguments")
    cls = value.python_type()
    return ClassValue(cls, source=Known(cls))


def _classes(m: Machine, value: Value) -> tuple[type, ...]:
    value = m.realize(value)
    if isinstance(value, TupleValue):
        return tuple(cls for item in value.items for cls in _classes(m, item))
    if isinstance(value, ClassValue):
        return (value.cls,)
    known = getattr(value, "obj", None)
    if isinstance(known, types.UnionType):
        return typing.get_args(known)
    raise GraphBreak(reasons.NO_OPERATION, f"isinstance with {value.describe()}")


@builtin(weakref.ref)
def weak_reference(m: Machine, target: Value, *callback: Value) -> Value:
    """Of objects with an identity that can be referred to weakly. What a callback does comes at a time of its own."""
    if callback and not (isinstance(callback[0], Constant) and callback[0].value is None):
        raise GraphBreak(reasons.OPAQUE_CALL, "weakref.ref with a callback")
    cls = target.python_type()
    referable = isinstance(target, (InstanceValue, ModuleValue, FunctionValue)) and target.identity() is not None
    kept = cls.__weakrefoffset__ and raw_attr(cls, "__del__") is MISSING and m.holds(target)
    if not referable or not kept:
        raise GraphBreak(reasons.OPAQUE_CALL, f"weakref.ref of {target.describe()}")
    return MadeReference(target)


@builtin(isinstance)
def isinstance_(m: Machine, value: Value, classes: Value) -> Value:
    cls = value.python_type()
    return Constant(any(_is_of_type(value, cls, wanted) for wanted in _classes(m, classes)))


def _is_of_type(value: Value, cls: type, wanted: type) -> bool:
    if isinstance(value, TensorValue) and isinstance(wanted, type(torch.FloatTensor)):  # it looks at dtype and device
        return type_name(value.meta.dtype, value.device) == f"{wanted.__module__}.{wanted.__name__}"
    return _is_subclass(cls, wanted)


def _is_subclass(cls: type, wanted: type) -> bool:
    """As isinstance for an object of exactly this type. `nn.Parameter` asks about a flag (torch/nn/parameter.py)."""
    if wanted in (nn.Parameter, nn.Buffer):
        return cls is wanted
    if wanted is torch.autograd.Variable:  # every tensor is one (torch/autograd/variable.py)
        return issubclass(cls, torch.Tensor)
    own_rule = raw_attr(type(wanted), "__instancecheck__")
    if wanted is not torch.Tensor and own_rule not in (type.__dict__["__instancecheck__"], _ABC_RULE):
        raise GraphBreak(reasons.NO_OPERATION, f"isinstance with {wanted.__qualname__}")  # it may look at the object
    return issubclass(cls, wanted)


_ABC_RULE = abc.ABCMeta.__dict__["__instancecheck__"]


@builtin(issubclass)
def issubclass_(m: Machine, cls: Value, classes: Value) -> Value:
    if not isinstance(cls, ClassValue):
        raise GraphBreak(reasons.NO_OPERATION, f"issubclass of {cls.describe()}")
    return Constant(any(_is_subclass(cls.cls, wanted) for wanted in _classes(m, classes)))


@builtin(getattr)
def getattr_(m: Machine, owner: Value, name: Value, *default: Value) -> Value:
    text = plain(m, name)
    try:
        return m.getattr(owner, text)
    except Raised as error:
        if default and issubclass(error.value.python_type(), AttributeError):
            return default[0]
        raise


@builtin(hasattr)
def hasattr_(m: Machine, owner: Value, name: Value) -> Value:
    text = plain(m, name)
    known = isinstance(owner, TensorValue) and (hasattr(owner.meta, text) or text in _OWN_TENSOR_NAMES)
    if known and not m.asks_class(owner):
        return Constant(True)
    try:
        m.getattr(owner, text)
    except Raised as error:
        if issubclass(error.value.python_type(), AttributeError):
            return Constant(False)
        raise
    return Constant(True)


_OWN_TENSOR_NAMES = frozenset(dir(torch.Tensor))


@builtin(setattr)
def setattr_(m: Machine, owner: Value, name: Value, value: Value) -> None:
    owner.setattr(m, plain(m, name), value)


@builtin(delattr)
def delattr_(m: Machine, owner: Value, name: Value) -> None:
    owner.delattr(m, plain(m, name))


@builtin(callable)
def callable_(m: Machine, value: Value) -> Value:
    return Constant(lookup(m, value.python_type(), "__call__") is not MISSING)


@builtin(id)
def id_(m: Machine, value: Value) -> Value:
    """The object must be this very one again."""
    known = value.identity()
    if known is not None and known[0] in ("object", "is"):
        return Constant(known[1])
    if value.source is None or isinstance(value, Constant):
        raise GraphBreak(reasons.NO_OPERATION, "id()")
    found = current(value.source, m.function, tuple(m.args))
    m.guard(value.source, "IS", found)
    return Constant(id(found))


@builtin(sys.exc_info)
def exc_info(m: Machine) -> Value:
    """Class, exception and traceback of what is being handled; nobody can ask for the traceback."""
    for frame in reversed(m.frames):
        if frame.handled and isinstance(m.realize(frame.handled[-1]), ExceptionValue):
            error = m.realize(frame.handled[-1])
            return TupleValue((ClassValue(error.python_type()), error, TracebackValue()))
    if sys.exc_info() != _NO_ERROR:
        raise GraphBreak(reasons.INTROSPECTION, "sys.exc_info()")
    m.guard(Known(sys.exc_info), "STATE", ((sys.exc_info, _NO_ERROR),))
    return m.constant(_NO_ERROR)


_NO_ERROR = (None, None, None)


@builtin(sys.exception)
def exception(m: Machine) -> Value:
    return m.unpack(exc_info(m))[1]


@builtin(super)
def super_(m: Machine, *args: Value) -> Value:
    if len(args) == 2:
        if not isinstance(args[0], ClassValue):
            raise GraphBreak(reasons.NO_OPERATION, "super() of an unknown class")
        return SuperValue(args[0].cls, args[1])
    frame = m.frame  # super() finds the class in the cell `__class__` and self in the first local
    code = frame.program.original
    if "__class__" not in code.co_freevars or not code.co_varnames:
        raise GraphBreak(reasons.INTROSPECTION, "super()")
    from_cell = m.heap[frame.cells["__class__"].key]
    cls = m.realize(from_cell)
    name = code.co_varnames[0]
    owner = frame.locals.get(name)
    if owner is None and name in frame.cells:
        owner = m.heap[frame.cells[name].key]
    if not isinstance(cls, ClassValue) or owner is None:
        raise GraphBreak(reasons.INTROSPECTION, "super()")
    return SuperValue(cls.cls, m.realize(owner))


@builtin(vars)
def vars_(m: Machine, *owner: Value) -> Value:
    if not owner:
        raise GraphBreak(reasons.INTROSPECTION, "vars()")
    return m.getattr(owner[0], "__dict__")


_LOOKS_AT_FRAMES: tuple[Any, ...] = (locals, globals, dir, eval, exec, compile, builtins.__build_class__)
_SHOWS: tuple[Any, ...] = (print, input, open, breakpoint)

for _function in _LOOKS_AT_FRAMES:
    builtin(_function)(lambda m, *args, function=_function, **kwargs: _introspection(function))


def _introspection(function: Any) -> Value:
    reason = reasons.CLASS_STATEMENT if function is builtins.__build_class__ else reasons.INTROSPECTION
    raise GraphBreak(reason, f"{function.__name__}()")


for _function in _SHOWS:
    builtin(_function)(lambda m, *args, function=_function, **kwargs: _visible(function))


def _visible(function: Any) -> Value:
    raise GraphBreak(reasons.PRINT, f"{function.__name__}()")


@builtin(dataclasses.fields)
def fields(m: Machine, owner: Value) -> Value:
    cls = owner.cls if isinstance(owner, ClassValue) else owner.python_type()
    if not dataclasses.is_dataclass(cls):
        m.throw(TypeError, "must be called with a dataclass type or instance")
    lookup(m, cls, "__dataclass_fields__")
    return TupleValue(tuple(Constant(field) for field in dataclasses.fields(cls)))


@builtin(inspect.signature)
def signature(m: Machine, function: Value) -> Value:
    plain_function = function.function if isinstance(function, MethodValue) else function
    if not isinstance(plain_function, FunctionValue):
        raise GraphBreak(reasons.OPAQUE_CALL, "inspect.signature")
    m.guard(*_defaults_guard(plain_function))
    found = inspect.signature(plain_function.fn)
    if isinstance(function, MethodValue):
        found = found.replace(parameters=list(found.parameters.values())[1:])
    return Constant(found)


def _defaults_guard(function: FunctionValue) -> tuple[Source, str, Any]:
    assert function.source is not None
    return Attr(function.source, "__defaults__"), "IS", function.fn.__defaults__


@builtin(object)
def object_(m: Machine) -> Value:
    return construction.blank(m, object)


@builtin(object.__new__)
def object_new(m: Machine, cls: Value, *args: Value, **kwargs: Value) -> Value:
    """Arguments are ignored where the class has an `__init__` of its own, else an error (Objects/typeobject.c)."""
    if not isinstance(cls, ClassValue):
        raise GraphBreak(reasons.OPAQUE_CALL, "object.__new__")
    if (args or kwargs) and raw_attr(cls.cls, "__init__") is object.__init__:
        raise GraphBreak(reasons.UNCAUGHT, f"TypeError: {cls.cls.__qualname__}() takes no arguments")
    return construction.blank(m, cls.cls)


@builtin(types.MethodType)
def method(m: Machine, function: Value, owner: Value) -> Value:
    if isinstance(owner, Constant) and owner.value is None:
        m.throw(TypeError, "self must not be None")
    return MethodValue(function, owner)


@builtin(type.__call__)
def type_call(m: Machine, cls: Value, *args: Value, **kwargs: Value) -> Value:
    if not isinstance(cls, ClassValue):
        raise GraphBreak(reasons.OPAQUE_CALL, "type.__call__")
    return construction.make(m, cls.cls, args, kwargs)


@builtin(object.__init__)
def object_init(m: Machine, owner: Value, *args: Value, **kwargs: Value) -> None:
    if args or kwargs:
        raise GraphBreak(reasons.UNCAUGHT, "TypeError: object.__init__() takes exactly one argument")


@builtin(object.__setattr__)
def object_setattr(m: Machine, owner: Value, name: Value, value: Value) -> None:
    if not isinstance(owner, InstanceValue):
        owner.missing("object.__setattr__")
    owner.store(m, plain(m, name), value)


@builtin(object.__getattribute__)
def object_getattribute(m: Machine, owner: Value, name: Value) -> Value:
    found = owner.lookup(m, plain(m, name)) if isinstance(owner, InstanceValue) else None
    if found is None:
        m.throw(AttributeError, plain(m, name))
    return found


@builtin(nn.Module.__setattr__)
def module_setattr(m: Machine, owner: Value, name: Value, value: Value) -> None:
    if isinstance(owner, ModuleValue):
        owner.assign(m, plain(m, name), value)
    else:  # made inside
        m.inline(_SETATTR, [owner, name, value], {})


@builtin(nn.Module.__getattr__)
def module_getattr(m: Machine, owner: Value, name: Value) -> Value:
    return owner.getattr(m, plain(m, name)) if isinstance(owner, ModuleValue) else m.inline(_GETATTR, [owner, name], {})


_set: Any = nn.Module.__setattr__
_get: Any = nn.Module.__getattr__
_SETATTR, _GETATTR = FunctionValue(_set, source=Known(_set)), FunctionValue(_get, source=Known(_get))


_EXCEPTIONS = [cls for cls in vars(builtins).values() if isinstance(cls, type) and issubclass(cls, BaseException)]


@builtin(*dict.fromkeys(cls.__init__ for cls in _EXCEPTIONS))
def exception_init(m: Machine, owner: Value, *args: Value) -> None:
    assert isinstance(owner, ExceptionValue)
    m.heap.put(owner.key, {**owner.overlay(m), "args": TupleValue(args)})
