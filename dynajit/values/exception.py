"""Exceptions that are raised and caught inside the frame."""

from __future__ import annotations

import builtins
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.values.base import Emitter, Tracer, Value
from dynajit.values.constant import UNKNOWN, Constant, as_plain
from dynajit.values.instance import InstanceValue
from dynajit.values.klass import ClassValue
from dynajit.values.sequence import TupleValue

_FIELDS = ("__cause__", "__context__", "__suppress_context__", "__traceback__", "__notes__")


@dataclass(frozen=True, eq=False)
class ExceptionValue(InstanceValue):
    """An exception made inside the frame. Contents: its attributes, and `args`."""

    kind = "exception"

    def lookup(self, m: Tracer, name: str) -> Value | None:
        overlay = self.overlay(m)
        if name in overlay:
            return overlay[name]
        if name in ("__cause__", "__context__"):
            return Constant(None)
        if name == "value" and issubclass(self.cls, StopIteration):
            items = self.args(m)
            return items[0] if items else Constant(None)
        if name in _FIELDS or name == "with_traceback":
            raise GraphBreak(reasons.NO_OPERATION, f"{name} of {self.describe()}")
        return super().lookup(m, name)

    def store(self, m: Tracer, name: str, value: Value) -> None:
        if name == "__cause__":
            m.heap.put(self.key, {**self.overlay(m), name: value, "__suppress_context__": Constant(True)})
        elif name in _FIELDS:
            raise GraphBreak(reasons.NO_OPERATION, f"setting {name} of {self.describe()}")
        else:
            super().store(m, name, value)

    def args(self, m: Tracer) -> tuple[Value, ...]:
        found = self.overlay(m)["args"]
        assert isinstance(found, TupleValue)
        return found.items

    def text(self, m: Tracer) -> Value:
        """What str() gives."""
        if "__str__" in _own_names(self.cls):
            raise GraphBreak(reasons.NO_OPERATION, f"str() of {self.describe()}")
        known = as_plain(m, TupleValue(self.args(m)))
        if known is UNKNOWN:
            raise GraphBreak(reasons.NO_OPERATION, f"str() of {self.describe()}")
        base = next(cls for cls in self.cls.__mro__ if cls in _BUILTIN_EXCEPTIONS)
        return Constant(str(base(*known)))

    def truth(self, m: Tracer) -> bool:
        return True

    def reload(self, emit: Emitter) -> None:
        overlay = emit.heap[self.key]
        if any(name in overlay for name in _FIELDS if name not in ("__cause__", "__suppress_context__")):
            raise GraphBreak(reasons.NO_OPERATION, f"rebuilding {self.describe()} with its context")
        items = overlay["args"]
        emit.call(_blank, Constant(self.cls), *items.items)
        for name, value in overlay.items():
            if name != "args":
                emit.instruction("COPY", 1)
                emit.load(value)
                emit.instruction("SWAP", 2)
                emit.instruction("STORE_ATTR", name)


@dataclass(frozen=True, eq=False)
class TracebackValue(Value):
    """The traceback of an exception that exists in the trace only: it can be passed on, and not be looked at."""

    kind = "traceback"

    def python_type(self) -> type:
        return types.TracebackType

    def truth(self, m: Tracer) -> bool:
        return True


def _blank(cls: type[BaseException], *args: Any) -> BaseException:
    made = cls.__new__(cls, *args)
    made.args = args
    return made


def _own_names(cls: type) -> set[str]:
    return {name for base in cls.__mro__ if base not in _BUILTIN_EXCEPTIONS for name in base.__dict__}


_BUILTIN_EXCEPTIONS = frozenset([object, *(cls for cls in vars(builtins).values() if isinstance(cls, type))])


def make_exception(m: Tracer, cls: type[BaseException], args: Sequence[Value]) -> ExceptionValue:
    """`cls.__new__(cls, *args)`."""
    key = m.new_key()
    m.heap.new(key, {"args": TupleValue(tuple(args))}, existing=False)
    return ExceptionValue(key, cls)


def construct(
    m: Tracer, cls: type[BaseException], args: Sequence[Value], kwargs: Mapping[str, Value]
) -> ExceptionValue:
    """`cls(*args, **kwargs)` for builtin exceptions and Python classes derived from them."""
    if "__new__" in _own_names(cls):
        raise GraphBreak(reasons.OPAQUE_CALL, f"making a {cls.__qualname__}")
    value = make_exception(m, cls, args)
    init = value.method(m, "__init__")
    if init is not None:
        m.call(init, [value, *args], kwargs)
    elif kwargs:
        raise GraphBreak(reasons.OPAQUE_CALL, f"making a {cls.__qualname__}")
    return value


def raised(m: Tracer, value: Value) -> Value:
    """The exception that `raise value` raises."""
    if isinstance(value, ClassValue) and issubclass(value.cls, BaseException):
        value = m.realize(m.call(value, [], {}))
    if not isinstance(value, ExceptionValue):
        raise GraphBreak(reasons.UNCAUGHT, f"raise {value.describe()}")
    return value
