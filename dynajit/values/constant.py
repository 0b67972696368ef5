"""Immutable Python values that the program's meaning may depend on: numbers, strings, dtypes, ranges, enum members."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import string
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.frame import MissingType
from dynajit.source import Attr, Call, Known, Source
from dynajit.symbol import Symbol, is_number
from dynajit.values.base import Emitter, Tracer, Value
from dynajit.values.unknown import demand_known
from dynajit.values.wrap import kind, rule

NUMBERS = (int, float, bool, complex)
PLAIN = (
    *NUMBERS, str, bytes, type(None), type(Ellipsis), type(NotImplemented),
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch._C._SDPBackend,
)  # fmt: skip


# Objects of the standard library that nobody changes once they are made: their attributes are facts.
TRUSTED = (dataclasses.Field, inspect.Signature, inspect.Parameter, torch.finfo, torch.iinfo, types.CodeType,
           re.Pattern, re.Match)  # fmt: skip


# Kinds of which equal objects are one object.
SINGLETONS = (type(None), type(Ellipsis), type(NotImplemented), bool, enum.Enum, MissingType, torch.dtype, torch.layout,
              torch.memory_format)  # fmt: skip


# Kinds whose attributes are constants, too, or methods.
_SELF_CONTAINED = (str, bytes, int, float, complex, range, slice, type(None), torch.dtype, torch.device, np.generic,
                   np.dtype)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Constant(Value):
    """An object that is known and cannot change."""

    value: Any

    kind = "constant"

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return repr(self.value)

    def identity(self) -> Any:
        return ("is", id(self.value)) if isinstance(self.value, SINGLETONS) or is_typing(self.value) else None

    def getattr(self, m: Tracer, name: str) -> Value:
        value = self.value
        if isinstance(value, _SELF_CONTAINED):
            try:
                found = getattr(value, name)
            except AttributeError as error:
                m.throw(AttributeError, *error.args)
            if callable(found) and not isinstance(found, type):
                return ConstantMethod(value, name)
            return m.constant(found)
        if isinstance(value, TRUSTED) or is_typing(value):
            try:
                found = getattr(value, name)
            except AttributeError as error:
                m.throw(AttributeError, *error.args)
            if isinstance(found, types.MappingProxyType):
                found = dict(found)
            if isinstance(value, (re.Pattern, re.Match)) and callable(found):
                return ConstantMethod(value, name)
            return (
                m.wrap(found, Known(found))
                if not is_plain(found) and not isinstance(found, dict)
                else m.constant(found)
            )
        if isinstance(value, enum.Enum) and name in ("value", "name", "_value_", "_name_") and is_plain(value.value):
            return m.constant(value.name if "name" in name else value.value)
        self.missing(f"attribute {name!r}")

    def getitem(self, m: Tracer, key: Value) -> Value:
        if isinstance(self.value, (str, bytes, range, re.Match)) or is_typing(self.value):
            return fold(m, lambda v, k: v[k], [self, key.bare()])
        self.missing("subscript")

    def length(self, m: Tracer) -> int:
        if isinstance(self.value, (str, bytes, range, frozenset)):
            return len(self.value)
        m.throw(TypeError, f"object of type '{type(self.value).__name__}' has no len()")

    def contains(self, m: Tracer, item: Value) -> bool:
        result = fold(m, lambda v, k: k in v, [self, item])
        assert isinstance(result, Constant)
        return bool(result.value)

    def truth(self, m: Tracer) -> bool:
        return bool(self.value)

    def reload(self, emit: Emitter) -> None:
        if isinstance(self.value, re.Match):  # a new one each time
            self.missing("rebuilding")
        emit.load_const(self.value)


@dataclass(frozen=True, eq=False)
class ConstantMethod(Value):
    """A bound method of a constant, such as `"{}".format`."""

    owner: Any
    name: str

    kind = "method"

    def python_type(self) -> type:
        return types.BuiltinMethodType

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        method = getattr(self.owner, self.name)
        if isinstance(self.owner, str) and self.name == "join" and len(args) == 1:
            return fold(m, lambda *items: method(items), [m.realize(item).bare() for item in m.unpack(args[0])])
        if isinstance(self.owner, str) and self.name == "format":
            given = [*args, *kwargs.values()]
            if any(as_plain(m, m.specialise(m.realize(value))) is UNKNOWN for value in given):
                return self._format(m, args, kwargs)
        return fold(m, lambda *a, **k: method(*a, **k), args, kwargs)

    def _format(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        """`text.format(...)` with fields that are whole arguments."""
        parts: list[Value] = []
        places = iter(range(len(args)))
        named: dict[Any, Value] = {**dict(enumerate(args)), **kwargs}
        for literal, field, spec, conversion in string.Formatter().parse(self.owner):
            parts.append(Constant(literal))
            if field is None:
                continue
            place = next(places, None) if not field else int(field) if field.isdigit() else field
            found = named.get(place)
            if found is None or "{" in (spec or "") or conversion not in (None, "r", "s"):
                self.missing("a call with these fields")
            if conversion is not None:
                convert: Any = repr if conversion == "r" else str
                found = m.call(m.wrap(convert, Known(convert)), [found], {})
            parts.append(m.call(m.wrap(format, Known(format)), [found, Constant(spec or "")], {}))
        return fold(m, lambda *texts: "".join(texts), parts)

    def reload(self, emit: Emitter) -> None:
        emit.load_const(getattr(self.owner, self.name))


def is_typing(obj: Any) -> bool:
    """Whether an object is one that only annotations are made of: `list[int]`, `int | None`, `typing.Union`."""
    return type(obj) in (types.GenericAlias, types.UnionType) or type(obj).__module__ == "typing"


def is_plain(obj: Any) -> bool:
    """Whether an object is immutable and modelled as a constant, containers included."""
    if type(obj) in PLAIN or isinstance(obj, (enum.Enum, np.generic, np.dtype)) or is_typing(obj):
        return True
    if type(obj) in (tuple, frozenset, torch.Size):
        return all(map(is_plain, obj))
    if type(obj) is range:
        return True
    return type(obj) is slice and all(map(is_plain, (obj.start, obj.stop, obj.step)))


def plain(m: Tracer, value: Value) -> Any:
    """The Python object of a value that is fully known; breaks the graph otherwise."""
    value = m.specialise(m.realize(value))
    known = as_plain(m, value)
    if known is UNKNOWN:
        demand_known(value)
        raise GraphBreak(reasons.NO_OPERATION, f"the Python value of {value.describe()}")
    return known


UNKNOWN = object()  # the answer of `as_plain` for a value that is not fully known


def as_plain(m: Tracer, value: Value) -> Any:
    value = m.realize(value)
    convert = getattr(value, "as_plain", None)
    if isinstance(value, Constant):
        return value.value
    return convert(m) if convert is not None else UNKNOWN


def is_known(m: Tracer, value: Value) -> bool:
    return as_plain(m, value) is not UNKNOWN


def fold(m: Tracer, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value] | None = None) -> Value:
    """Compute with known values now. What Python raises, the program raises."""
    values = [plain(m, value) for value in args]
    named = {name: plain(m, value) for name, value in (kwargs or {}).items()}
    try:
        result = function(*values, **named)
    except Exception as error:
        m.throw(type(error), *error.args)
    return m.constant(result)


@kind(*PLAIN)
def wrap_constant(m: Tracer, obj: Any, source: Source) -> Value:
    if is_number(obj):
        symbolic = m.symbolic_number(obj, source)
        if symbolic is not None:
            return symbolic
    m.guard(source, "EQUALS", obj)
    return Constant(obj, source=source)


@kind(MissingType)
def wrap_missing(m: Tracer, obj: MissingType, source: Source) -> Value:
    """What a resume function is handed for a variable without a value."""
    m.guard(source, "IS", obj)
    return Constant(obj, source=source)


@kind(range, frozenset)
def wrap_frozen(m: Tracer, obj: Any, source: Source) -> Value:
    if isinstance(obj, frozenset) and not is_plain(obj):
        m.guard(source, "IS", obj)
        return KnownSet(obj, source=source)
    m.guard(source, "EQUALS", obj)
    return Constant(obj, source=source)


@dataclass(frozen=True, eq=False)
class KnownSet(Value):
    """A frozenset that holds other objects than constants. Only what is told by identity can be looked for."""

    obj: frozenset[Any]

    kind = "frozenset"

    def python_type(self) -> type:
        return frozenset

    def length(self, m: Tracer) -> int:
        return len(self.obj)

    def truth(self, m: Tracer) -> bool:
        return bool(self.obj)

    def contains(self, m: Tracer, item: Value) -> bool:
        item = m.realize(item)
        known = item.identity()
        if known is not None and known[0] == "object":
            return any(id(element) == known[1] for element in self.obj)
        return plain(m, item) in self.obj

    def iterate(self, m: Tracer) -> Value:
        self.missing("iteration")


@kind(slice)
def wrap_slice(m: Tracer, obj: slice, source: Source) -> Value:
    m.guard(source, "TYPE_IS", slice)
    parts = [m.realize(m.wrap(getattr(obj, name), Attr(source, name))) for name in ("start", "stop", "step")]
    if all(isinstance(part, Constant) for part in parts):
        return Constant(obj, source=source)
    return SliceValue(tuple(parts), source=source)


@rule(13, is_typing)
def wrap_typing(m: Tracer, obj: Any, source: Source) -> Value:
    m.guard(source, "IS", obj)
    return Constant(obj, source=source)


@kind(re.Pattern)
def wrap_pattern(m: Tracer, obj: re.Pattern[Any], source: Source) -> Value:
    m.guard(source, "IS", obj)
    return Constant(obj, source=source)


@kind(torch.torch_version.TorchVersion)
def wrap_version(m: Tracer, obj: torch.torch_version.TorchVersion, source: Source) -> Value:
    m.guard(source, "IS", obj)
    return Constant(obj, source=source)


@rule(12, lambda obj: isinstance(obj, np.generic))
def wrap_numpy_scalar(m: Tracer, obj: np.generic, source: Source) -> Value:
    m.guard(source, "TYPE_IS", type(obj))
    symbolic = m.symbolic_number(obj, source) if is_number(obj) else None
    if symbolic is not None:
        return symbolic
    m.guard(Call(source, np.generic.tobytes), "EQUALS", obj.tobytes())
    return Constant(obj, source=source)


@rule(11, lambda obj: isinstance(obj, np.dtype) and obj.isbuiltin == 1)
def wrap_numpy_dtype(m: Tracer, obj: Any, source: Source) -> Value:
    m.guard(source, "IS", obj)
    return Constant(obj, source=source)


@rule(10, lambda obj: isinstance(obj, enum.Enum))
def wrap_enum(m: Tracer, obj: enum.Enum, source: Source) -> Value:
    m.guard(source, "IS", obj)
    return Constant(obj, source=source)


@dataclass(frozen=True, eq=False)
class SliceValue(Value):
    """A slice whose bounds are not all constants."""

    parts: tuple[Value, ...]

    kind = "slice"

    def python_type(self) -> type:
        return slice

    def getattr(self, m: Tracer, name: str) -> Value:
        if name in ("start", "stop", "step"):
            return self.parts[("start", "stop", "step").index(name)]
        self.missing(f"attribute {name!r}")

    def as_plain(self, m: Tracer) -> Any:
        """The slice, its bounds guarded by value."""
        bounds = [as_plain(m, m.specialise(m.realize(part))) for part in self.parts]
        return UNKNOWN if UNKNOWN in bounds else slice(*bounds)

    def reload(self, emit: Emitter) -> None:
        for part in self.parts:
            emit.load(part)
        emit.build("BUILD_SLICE", 3)


@dataclass(frozen=True, eq=False)
class SymbolicNumber(Value):
    """A Python number that the graph is given or computes.

    node: its place in the graph. symbol: what is known of it.
    """

    node: Any
    symbol: Symbol

    kind = "number"

    @property
    def example(self) -> Any:
        """Its value in the call that is compiled."""
        return self.symbol.example

    def python_type(self) -> type:
        return type(self.example)

    def getattr(self, m: Tracer, name: str) -> Value:
        return m.specialise(self).getattr(m, name)

    def length(self, m: Tracer) -> int:
        return m.specialise(self).length(m)

    def reload(self, emit: Emitter) -> None:
        emit.load_node(self.node)
