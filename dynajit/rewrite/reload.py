"""Values -> instructions that put the real objects on the stack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any

from dynajit.bytecode import Instr
from dynajit.bytecode import emit as short
from dynajit.errors import GraphBreak
from dynajit.source import Known, Local, Source
from dynajit.values.base import NULL, Handle, Lazy, Value
from dynajit.values.builtin import BuiltinValue, PythonModule
from dynajit.values.constant import Constant
from dynajit.values.heap import Heap
from dynajit.values.klass import ClassValue

_BY_CONSTANT = (BuiltinValue, PythonModule, ClassValue)  # guarded by identity


class NotRebuildable(Exception):
    """A value cannot be made again; `key` is that of its contents, if it has any."""

    def __init__(self, key: int | None, detail: str) -> None:
        super().__init__(detail)
        self.key, self.detail = key, detail


class Reload:
    """Collects instructions. Graph outputs and further inputs are asked for as they are needed.

    outputs: nodes that the graph must return, with the local each is kept in. inputs: sources beyond the arguments,
    with the parameter each arrives in. cells: keys of the cells that are variables of the frame itself.
    """

    def __init__(
        self, heap: Heap, globals_: dict[str, Any], cells: Mapping[int, str], cell_names: frozenset[str]
    ) -> None:
        self._heap, self.globals, self.cells, self.cell_names = heap, globals_, cells, cell_names
        self.out: list[Instr] = []
        self.outputs: dict[Any, str] = {}
        self.inputs: dict[Source, str] = {}
        self.placeholders: dict[Any, Source] = {}
        self._made: dict[Any, str] = {}
        self._in_progress: set[Any] = set()
        self._later: list[Callable[[], None]] = []
        self._last: list[tuple[Callable[..., None], Value, Sequence[Value]]] = []
        self._keep: list[Value] = []

    @property
    def heap(self) -> Heap:
        return self._heap

    # ---- one value ----------------------------------------------------------------------------------------------
    def load(self, value: Value) -> None:
        if value is NULL:
            self.instruction("PUSH_NULL")
        elif isinstance(value, Constant) and not isinstance(value.source, Local):
            self.load_const(value.value)
        elif isinstance(value, _BY_CONSTANT) and value.source is not None:
            value.reload(self)
        elif value.source is not None:
            self.load_source(value.source)
        elif isinstance(value, Handle) and value.key in self.cells:
            self.out += short.load_cell(self.cells[value.key])
        else:
            self._load_made(value)

    def _load_made(self, value: Value) -> None:
        """A value made by the frame: built where it is first needed, kept in a local for the next time."""
        assert not isinstance(value, Lazy)
        name = value.identity() if isinstance(value, Handle) else id(value)
        kept = self._made.get(name)
        if kept is not None:
            self.out += short.load(kept)
            return
        if name in self._in_progress:
            raise NotRebuildable(getattr(value, "key", None), f"{value.describe()} contains itself")
        self._in_progress.add(name)
        try:
            value.reload(self)
        except GraphBreak as error:
            raise NotRebuildable(getattr(value, "key", None), str(error)) from None
        self._in_progress.discard(name)
        if not isinstance(value, Constant) and not _is_tensor(value):
            self._keep.append(value)
            self._made[name] = f"___made{len(self._made)}"
            self.instruction("COPY", 1)
            self.out += short.store(self._made[name])

    # ---- what values ask -------------------------------------------------------------------------------------------
    def load_const(self, obj: Any) -> None:
        self.out += short.const(obj)

    def load_source(self, source: Source) -> None:
        if isinstance(source, Local):
            self.out += short.load_deref(source.name) if source.name in self.cell_names else short.load(source.name)
        elif isinstance(source, Known):
            self.load_const(source.value)
        else:
            self.out += short.load(self.input(source))

    def input(self, source: Source) -> str:
        return self.inputs.setdefault(source, f"___in{len(self.inputs)}")

    def load_node(self, node: Any) -> None:
        if node in self.placeholders:
            self.load_source(self.placeholders[node])
        else:
            self.out += short.load(self.outputs.setdefault(node, f"___out{len(self.outputs)}"))

    def build(self, op: str, count: int) -> None:
        self.instruction(op, count)

    def call(self, fn: Any, *args: Value, kwargs: Mapping[str, Value] | None = None) -> None:
        self.out += short.push_callable(short.const(fn))
        for value in (*args, *(kwargs or {}).values()):
            self.load(value)
        self.out += short.call(len(args) + len(kwargs or {}), tuple(kwargs or ()))

    def make_function(self, flags: int, globals_: dict[str, Any]) -> None:
        """Stack: the parts that MAKE_FUNCTION takes. Functions of other modules keep their globals."""
        if globals_ is self.globals:
            self.instruction("MAKE_FUNCTION", flags)
            return
        count = 1 + flags.bit_count()
        self.build("BUILD_TUPLE", count)
        self.out += short.store("___parts")
        self.out += short.push_callable(short.const(_function_from))
        self.out += short.load("___parts")
        self.load_const(flags)
        self.load_const(globals_)
        self.out += short.call(3)

    def instruction(self, op: str, arg: Any = None) -> None:
        self.out.append(Instr(op, arg))

    def later(self, action: Callable[[], None]) -> None:
        self._later.append(action)

    def last(self, fill: Callable[..., None], owner: Value, parts: Sequence[Value]) -> None:
        """`fill(owner, *parts)` when all objects have their attributes; what the parts contain is filled before."""
        self._last.append((fill, owner, parts))
        for part in parts:
            self.load(part)
            self.instruction("POP_TOP")

    def temporaries(self) -> list[str]:
        """Locals that the user's program does not have."""
        return [*self.inputs.values(), *self.outputs.values(), *self._made.values()]

    def finish(self) -> None:
        """Do what was put off: filling objects that may refer to each other."""
        while self._later:
            self._later.pop(0)()
        while self._last:
            fill, owner, parts = self._last.pop()
            self.call(fill, owner, *parts)
            self.instruction("POP_TOP")


def _is_tensor(value: Value) -> bool:
    return value.kind in ("tensor", "number")


def _function_from(parts: tuple[Any, ...], flags: int, globals_: dict[str, Any]) -> FunctionType:
    """What MAKE_FUNCTION does, with other globals."""
    given = list(parts)
    code: CodeType = given.pop()
    closure = given.pop() if flags & 8 else None
    annotations = given.pop() if flags & 4 else ()
    kwdefaults = given.pop() if flags & 2 else None
    defaults = given.pop() if flags & 1 else None
    made = FunctionType(code, globals_, code.co_name, defaults, closure)
    made.__kwdefaults__ = kwdefaults
    made.__qualname__ = code.co_qualname
    made.__annotations__ = dict(zip(annotations[::2], annotations[1::2], strict=True))
    return made
