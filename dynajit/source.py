"""Where a value came from: how the guards find it again from the bound arguments of a call.

A source is a path: a root (an argument, the globals, a cell, a known object) and steps from there. It prints as the
expression a user would write, and names the accessor by which `frame.Check` walks to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dynajit import frame


@dataclass(frozen=True)
class Source:
    """Base of all sources. `parent` is None for roots."""

    @property
    def parent(self) -> Source | None:
        return None

    @property
    def accessor(self) -> tuple[int, Any]:
        """(accessor constant of `dynajit.frame`, its argument)."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text

    @property
    def root(self) -> Source:
        here = self
        while here.parent is not None:
            here = here.parent
        return here


@dataclass(frozen=True)
class Local(Source):
    """The bound argument in `slot` of the frame's layout."""

    name: str
    slot: int

    @property
    def accessor(self) -> tuple[int, Any]:
        return frame.LOCAL, self.slot

    @property
    def text(self) -> str:
        return self.name


@dataclass(frozen=True)
class Globals(Source):
    """The globals dict of the compiled function."""

    @property
    def accessor(self) -> tuple[int, Any]:
        return frame.GLOBALS, None

    @property
    def text(self) -> str:
        return "globals()"


@dataclass(frozen=True)
class Builtins(Source):
    """The builtins dict of the compiled function."""

    @property
    def accessor(self) -> tuple[int, Any]:
        return frame.BUILTINS, None

    @property
    def text(self) -> str:
        return "builtins"


@dataclass(frozen=True)
class Known(Source):
    """An object found while tracing and kept by identity (a class, another module's globals)."""

    value: Any

    @property
    def accessor(self) -> tuple[int, Any]:
        return frame.CONST, self.value

    @property
    def text(self) -> str:
        name = getattr(self.value, "__qualname__", None) or getattr(self.value, "__name__", None)
        if isinstance(self.value, dict) and isinstance(self.value.get("__name__"), str):
            return str(self.value["__name__"])
        return name if isinstance(name, str) else type(self.value).__name__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True)
class FreeCell(Source):
    """The cell object of the free variable number `index`."""

    name: str
    index: int

    @property
    def accessor(self) -> tuple[int, Any]:
        return frame.FREE, self.index

    @property
    def text(self) -> str:
        return f"cell({self.name})"


@dataclass(frozen=True)
class Step(Source):
    base: Source

    @property
    def parent(self) -> Source | None:
        return self.base


@dataclass(frozen=True)
class CellContents(Step):
    @property
    def accessor(self) -> tuple[int, Any]:
        return frame.CELL, None

    @property
    def text(self) -> str:
        return self.base.name if isinstance(self.base, FreeCell) else f"{self.base.text}.cell_contents"


@dataclass(frozen=True)
class Attr(Step):
    """An attribute read with getattr. Only for objects whose attribute access runs no user code."""

    name: str

    @property
    def accessor(self) -> tuple[int, Any]:
        return frame.ATTR, self.name

    @property
    def text(self) -> str:
        return f"{self.base.text}.{self.name}"


@dataclass(frozen=True)
class InstanceAttr(Attr):
    """The entry of the instance's own dict."""

    @property
    def accessor(self) -> tuple[int, Any]:
        return frame.INSTANCE, self.name


@dataclass(frozen=True)
class SlotAttr(Attr):
    """A `__slots__` member."""

    @property
    def accessor(self) -> tuple[int, Any]:
        return frame.SLOT, self.name


@dataclass(frozen=True)
class ClassAttr(Attr):
    """The attribute that a lookup along the MRO of the type `base` finds."""

    @property
    def accessor(self) -> tuple[int, Any]:
        return frame.TYPE_ATTR, self.name


@dataclass(frozen=True)
class DictOf(Step):
    """The instance's `__dict__`."""

    @property
    def accessor(self) -> tuple[int, Any]:
        return frame.DICT, None

    @property
    def text(self) -> str:
        return f"{self.base.text}.__dict__"


@dataclass(frozen=True)
class TypeOf(Step):
    @property
    def accessor(self) -> tuple[int, Any]:
        return frame.TYPE, None

    @property
    def text(self) -> str:
        return f"type({self.base.text})"


@dataclass(frozen=True)
class Item(Step):
    """`base[key]` of an exact list, tuple or dict (or a subclass that keeps their storage)."""

    key: Any

    @property
    def accessor(self) -> tuple[int, Any]:
        return frame.ITEM, self.key

    @property
    def text(self) -> str:
        base = self.base
        if isinstance(base, Globals):
            return str(self.key)
        if isinstance(base, Known) and isinstance(base.value, dict):
            return f"{base.text}.{self.key}"
        if isinstance(base, InstanceAttr) and base.name in ("_parameters", "_buffers", "_modules"):
            return f"{base.base.text}.{self.key}"
        return f"{base.text}[{self.key!r}]"

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Item) and self.base == other.base
        return same and type(self.key) is type(other.key) and self.key == other.key  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.base, self.key))


@dataclass(frozen=True)
class Size(Step):
    """The size of a tensor's dimension `dim`."""

    dim: int

    @property
    def accessor(self) -> tuple[int, Any]:
        return frame.SIZE, self.dim

    @property
    def text(self) -> str:
        return f"{self.base.text}.shape[{self.dim}]"


@dataclass(frozen=True)
class Call(Step):
    """What a function of the compiler returns for the object."""

    function: Callable[[Any], Any]

    @property
    def accessor(self) -> tuple[int, Any]:
        return frame.CALL, self.function

    @property
    def text(self) -> str:
        return f"{self.function.__name__}({self.base.text})"


def global_name(name: str) -> Source:
    return Item(Globals(), name)


def builtin_name(name: str) -> Source:
    return Item(Builtins(), name)
