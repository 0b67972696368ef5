"""Context variables: read, set and reset inside the frame."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.frame import MISSING
from dynajit.source import Call, Source
from dynajit.values.base import NULL, Emitter, Handle, Tracer, Value
from dynajit.values.wrap import kind


@dataclass(frozen=True, eq=False)
class ContextVarValue(Handle):
    """Contents: the value in this context, NULL if it has none."""

    obj: Any = None

    kind = "context variable"

    def python_type(self) -> type:
        return ContextVar

    def getattr(self, m: Tracer, name: str) -> Value:
        if name in _METHODS:
            return ContextVarMethod(self, name)
        self.missing(f"attribute {name!r}")


@dataclass(frozen=True, eq=False)
class TokenValue(Value):
    """What `set` returns. before: the contents to go back to."""

    owner: ContextVarValue
    before: Value
    born: int

    kind = "token"

    def identity(self) -> Any:
        return ("token", id(self))

    def reload(self, emit: Emitter) -> None:
        raise GraphBreak(reasons.NO_OPERATION, "a context variable's token")

    @property
    def key(self) -> int:
        return self.born


@dataclass(frozen=True, eq=False)
class ContextVarMethod(Value):
    owner: ContextVarValue
    name: str

    kind = "method"

    def python_type(self) -> type:
        return types.BuiltinMethodType

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return _METHODS[self.name](m, self.owner, *args)

    def reload(self, emit: Emitter) -> None:
        emit.load(self.owner)
        emit.instruction("LOAD_ATTR", self.name)


def _get(m: Tracer, owner: ContextVarValue, *default: Value) -> Value:
    now: Value = m.heap[owner.key]
    if now is not NULL:
        return now
    if default:
        return default[0]
    m.throw(LookupError, owner)


def _set(m: Tracer, owner: ContextVarValue, value: Value) -> Value:
    token = TokenValue(owner, m.heap[owner.key], m.new_key())
    m.heap.put(owner.key, value)
    return token


def _reset(m: Tracer, owner: ContextVarValue, token: Value) -> Value:
    token = m.realize(token)
    if not isinstance(token, TokenValue) or token.owner is not owner:
        raise GraphBreak(reasons.NO_OPERATION, "reset with a token from elsewhere")
    m.heap.put(owner.key, token.before)
    return m.constant(None)


_METHODS: dict[str, Callable[..., Value]] = {"get": _get, "set": _set, "reset": _reset}


def current(variable: ContextVar[Any]) -> Any:
    """The value in the current context, MISSING if there is none (or a default alone, which `get` would return)."""
    return variable.get(MISSING)


@kind(ContextVar)
def wrap_context_variable(m: Tracer, obj: ContextVar[Any], source: Source) -> Value:
    known = m.known_handle(obj, source)
    if known is not None:
        return known
    m.guard(source, "IS", obj)
    now = current(obj)
    where = Call(source, current)
    contents: Value = NULL
    if now is MISSING:
        m.guard(where, "ABSENT")
        try:
            contents = m.constant(obj.get())  # the default that it was made with
        except LookupError:
            contents = NULL
    else:
        contents = m.wrap(now, where)
    key = m.new_key()
    m.heap.new(key, contents, existing=True)
    value = ContextVarValue(key, obj, source=source)
    m.remember_handle(obj, value)
    return value
