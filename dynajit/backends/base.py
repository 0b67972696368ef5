"""What a backend is, what it returns, and how one is found by name."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch.fx import GraphModule

from dynajit.errors import OptionError
from dynajit.options import Options

ENTRY_POINTS = "dynajit.backends"
FROM_CACHE = "from the cache"


class Observer(Protocol):
    """Hears of each stage of a backend when it begins (seconds is None) and when it has ended: its name, what it is
    about, how long it took. A building stage whose kernels were there already ends with the detail `FROM_CACHE`.
    """

    def __call__(self, stage: str, detail: str, seconds: float | None) -> None: ...


@dataclass(frozen=True)
class KernelInfo:
    """One generated kernel, as a reader wants it.

    language: "c" or "triton". source: the text, of this kernel alone. launched: False for text that is shown but never
    run on this machine. lines: (line of `source`, origin) pairs, where an origin is what the graph's nodes carried as
    `meta["position"]`. places: (line of `source`, name of a node) pairs; nodes: the graph's nodes that it
    computes. ops: the user's operations in program order. reads, writes: bytes for the example sizes.
    """

    name: str
    language: str
    source: str
    launched: bool
    lines: tuple[tuple[int, Any], ...] = ()
    ops: tuple[str, ...] = ()
    reads: int = 0
    writes: int = 0
    seconds: float = 0.0
    cache_hit: bool = False
    note: str = ""
    places: tuple[tuple[int, str], ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CompiledGraph:
    """fn takes the placeholders' values and returns a tuple. notes: what a user should know (fallbacks and why).

    schedule: every decision to fuse or not, one sentence each. wrapper: the Python text that calls the kernels.
    passes: (title, text) of the program after each step from the graph to the kernels. sample: given a number, the
    seconds of as many launches of each kernel as they happen, by its name, and of whole calls under "".
    edit: run a kernel by another text; raises ToolchainError if that cannot be built. ahead: what the Triton text of a
    kernel becomes on a GPU that need not be here (`runtime.ahead`).
    """

    fn: Callable[..., tuple[Any, ...]]
    kernels: tuple[KernelInfo, ...] = ()
    backend: str = ""
    notes: tuple[str, ...] = ()
    key: str = ""
    schedule: tuple[str, ...] = ()
    wrapper: str = field(default="", repr=False)
    passes: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    sample: Callable[[int], dict[str, list[float]]] | None = field(default=None, repr=False)
    edit: Callable[[str, str], None] | None = field(default=None, repr=False)
    ahead: Callable[[str, str], tuple[Any, ...]] | None = field(default=None, repr=False)


Backend = Callable[[GraphModule, Sequence[Any], Options, "Observer | None"], CompiledGraph]

_TABLE: dict[str, Backend] = {}


def backend(name: str) -> Callable[[Backend], Backend]:
    """Register a backend under a name."""

    def register(function: Backend) -> Backend:
        _TABLE[name] = function
        return function

    return register


def names() -> list[str]:
    """Every name `resolve` knows, those of installed packages included."""
    return sorted({*_TABLE, *(point.name for point in importlib.metadata.entry_points(group=ENTRY_POINTS))})


def exists(name: str) -> bool:
    """Whether `resolve` knows the name. Installed packages are looked through only for names that are not ours."""
    return name in _TABLE or name in names()


def resolve(choice: str | Callable[..., Any], options: Options) -> Backend:
    """The backend for a name, or for a callable as torch.compile takes it. `options` may come to decide, too."""
    if not isinstance(choice, str):
        return _foreign(choice)
    if choice in _TABLE:
        return _TABLE[choice]
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        if point.name == choice:
            loaded: Backend = point.load()
            return _TABLE.setdefault(choice, loaded)
    raise OptionError(f"unknown backend {choice!r}; there are {', '.join(map(repr, names()))}")


def compile_graph(
    gm: GraphModule, example_inputs: Sequence[Any], options: Options, observer: Observer | None = None
) -> CompiledGraph:
    """Compile a captured graph with the backend that `options` names."""
    return resolve(options.backend, options)(gm, example_inputs, options, observer)


def _foreign(function: Callable[..., Any]) -> Backend:
    """A callable `(GraphModule, example_inputs) -> callable`, whose results may be a list, a tuple or one value."""

    def compile_with(
        gm: GraphModule, example_inputs: Sequence[Any], options: Options, observer: Observer | None
    ) -> CompiledGraph:
        compiled = function(gm, list(example_inputs))
        return CompiledGraph(as_tuple(compiled), backend=getattr(function, "__name__", repr(function)))

    return compile_with


def as_tuple(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """`function` with its list or tuple of results as a tuple."""

    def call(*args: Any) -> tuple[Any, ...]:
        results = function(*args)
        return tuple(results) if isinstance(results, (tuple, list)) else (results,)

    return call
