"""Symbolic values: what the evaluator knows of a Python object, and all that a value may ask of the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.reasons import Reason
from dynajit.source import Source
from dynajit.values.heap import Heap


class Tracer(Protocol):
    """The machine as values see it. `evaluate.machine.Machine` implements it."""

    @property
    def heap(self) -> Heap: ...
    def new_key(self) -> int: ...
    def guard(self, source: Source, kind: str, expected: Any = None, name: str = "") -> None: ...
    def wrap(self, obj: Any, source: Source) -> Value: ...
    def realize(self, value: Value) -> Value: ...
    def constant(self, obj: Any) -> Value: ...
    def graph_input(self, obj: Any, source: Source) -> Any: ...
    def tensor_hook(self, owner: Any, hook: Value) -> Value: ...
    def gradients(self) -> Mapping[Any, Value]: ...
    def set_gradient(self, node: Any, value: Value) -> None: ...
    def object_input(self, obj: Any, source: Source) -> Any: ...
    def real_tensor(self, value: Value) -> Any: ...
    def known_handle(self, obj: Any, source: Source) -> Value | None: ...
    def remember_handle(self, obj: Any, value: Value) -> None: ...
    def symbolic_number(self, obj: Any, source: Source) -> Value | None: ...
    def as_subclass(self, tensor: Any, cls: Value) -> Value: ...
    def holds(self, value: Value) -> bool: ...
    def specialise(self, value: Value) -> Value: ...
    def size(self, tensor: Any, dim: int) -> Value: ...
    def shape(self, tensor: Any) -> Value: ...
    def element_count(self, tensor: Any) -> Value: ...
    def compute(self, function: Callable[..., Any], *operands: Value) -> Value: ...
    def record(self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Value: ...
    def asks_class(self, *values: Value) -> bool: ...
    def handled_by_class(self, name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None: ...
    def array(self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Value: ...
    def array_of(self, tensor: Any, kwargs: Mapping[str, Value]) -> Value: ...
    def array_input(self, obj: Any, source: Source) -> Value: ...
    def folded(self, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value: ...
    def record_effect(self, target: Any, args: Sequence[Any], *, writes: bool = False) -> Any: ...
    def call(self, fn: Value, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value: ...
    def inline(self, fn: Value, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value: ...
    def call_method(self, owner: Value, name: str, *args: Value) -> Value: ...
    def call_builtin_method(
        self, owner: Value, name: str, args: Sequence[Value], kwargs: Mapping[str, Value]
    ) -> Value: ...
    def getattr(self, owner: Value, name: str) -> Value: ...
    def is_true(self, value: Value) -> bool: ...
    def iterate(self, value: Value) -> Value: ...
    def next(self, iterator: Value) -> Value | None: ...
    def unpack(self, value: Value) -> tuple[Value, ...]: ...
    def exception(self, value: Value) -> Value: ...
    def throw(self, kind: type[BaseException], *args: Any) -> NoReturn: ...
    def namespace_item(self, namespace: dict[str, Any], source: Source, name: str) -> Value | None: ...
    def write_namespace(self, namespace: dict[str, Any], name: str, value: Value) -> None: ...
    def set_grad_mode(self, on: bool) -> None: ...
    @property
    def grad_mode(self) -> bool: ...
    def binary(self, symbol: str, left: Value, right: Value) -> Value: ...
    def compare(self, symbol: str, left: Value, right: Value) -> Value: ...
    def run_generator(self, state: Any, sent: Value, error: Any = None) -> tuple[Value | None, Any, Value | None]: ...


class Emitter(Protocol):
    """What a value may ask of the rewriter to put itself back on the stack."""

    def load(self, value: Value) -> None: ...
    def load_const(self, obj: Any) -> None: ...
    def load_source(self, source: Source) -> None: ...
    def load_node(self, node: Any) -> None: ...
    def build(self, op: str, count: int) -> None: ...
    def call(self, fn: Any, *args: Value, kwargs: Mapping[str, Value] | None = None) -> None: ...
    def instruction(self, op: str, arg: Any = None) -> None: ...
    def make_function(self, flags: int, globals_: dict[str, Any]) -> None: ...
    def later(self, action: Callable[[], None]) -> None: ...
    def last(self, fill: Callable[..., None], owner: Value, parts: Sequence[Value]) -> None: ...
    @property
    def heap(self) -> Heap: ...


@dataclass(frozen=True, eq=False)
class Value:
    """What is known of one object. Two values are the same only by identity; handles by their key."""

    source: Source | None = field(default=None, kw_only=True)

    kind = "object"

    # ---- what it is -----------------------------------------------------------------------------------------
    def python_type(self) -> type:
        raise GraphBreak(reasons.UNKNOWN_OBJECT, f"the type of {self.describe()}")

    def describe(self) -> str:
        return f"{self.source.text} ({self.kind})" if self.source is not None else f"a {self.kind}"

    def identity(self) -> Any:
        """A hashable that is equal exactly for values that are one object, or None when that is not known."""
        return None

    def bare(self) -> Value:
        """What a builtin operation sees of it that asks none of its methods: of a derived int the int."""
        return self

    # ---- what it does: each kind overrides what it models ------------------------------------------------------
    def missing(self, operation: str) -> NoReturn:
        raise GraphBreak(reasons.NO_OPERATION, f"{operation} of {self.describe()}")

    def getattr(self, m: Tracer, name: str) -> Value:
        self.missing(f"attribute {name!r}")

    def setattr(self, m: Tracer, name: str, value: Value) -> None:
        self.missing(f"setting attribute {name!r}")

    def delattr(self, m: Tracer, name: str) -> None:
        self.missing(f"deleting attribute {name!r}")

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        self.missing("a call")

    def getitem(self, m: Tracer, key: Value) -> Value:
        self.missing("subscript")

    def setitem(self, m: Tracer, key: Value, value: Value) -> None:
        self.missing("setting an item")

    def delitem(self, m: Tracer, key: Value) -> None:
        self.missing("deleting an item")

    def length(self, m: Tracer) -> int:
        self.missing("length")

    def contains(self, m: Tracer, item: Value) -> bool:
        self.missing("`in`")

    def truth(self, m: Tracer) -> bool:
        self.missing("truth")

    def iterate(self, m: Tracer) -> Value:
        self.missing("iteration")

    def next(self, m: Tracer) -> Value | None:
        self.missing("next")

    # ---- how it comes back -------------------------------------------------------------------------------------
    def reload(self, emit: Emitter) -> None:
        """Put the real object on the stack. Called only for values that have no source."""
        raise GraphBreak(reasons.NO_OPERATION, f"rebuilding {self.describe()}")


@dataclass(frozen=True, eq=False)
class Null(Value):
    """The NULL that the interpreter puts beside a callable."""

    kind = "NULL"


NULL = Null()


@dataclass(frozen=True, eq=False)
class Lazy(Value):
    """An object that nothing depends on yet: it has a source and no guard."""

    obj: Any

    kind = "value"

    def identity(self) -> Any:
        return None


@dataclass(frozen=True, eq=False)
class Handle(Value):
    """An object whose contents are in the heap. Two handles with one key are the same object."""

    key: int

    def identity(self) -> Any:
        return ("handle", self.key)


def no_kwargs(name: str, kwargs: Mapping[str, Value]) -> None:
    if kwargs:
        raise GraphBreak(reasons.NO_OPERATION, f"keyword arguments of {name}")


def break_(reason: Reason, detail: str) -> NoReturn:
    raise GraphBreak(reason, detail)
