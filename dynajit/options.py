"""What a user may choose, as one frozen value. Two calls of `compile` with equal options share one `Options` object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dynajit.errors import OptionError

NUMERICS = ("eager", "fast")


@dataclass(frozen=True)
class Options:
    """All of it is part of the key of a cache entry.

    backend: a registered name (`"auto"`, `"native"`, `"eager"` ...) or a callable
        `(GraphModule, example_inputs) -> callable`.
    fullgraph: a graph break is an error.
    dynamic: whether sizes of tensors and Python numbers are symbolic, so that one entry serves many of them: None
        (those that change, from the second distinct value on), True (those of the arguments at once), False (never:
        each value is compiled for). Sizes of 0 and 1 are always compiled for.
    numerics: `"eager"` keeps eager's bits as far as decisions allow, `"fast"` lifts that for speed.
    build: `"sync"` waits for kernels, `"async"` runs the captured graph by eager kernels while they are built.
    limit: how many entries a code object may collect before it runs eagerly.
    """

    backend: str | Callable[..., Any] = "auto"
    fullgraph: bool = False
    dynamic: bool | None = None
    numerics: str = "eager"
    build: str = "sync"
    limit: int = 16

    def __post_init__(self) -> None:
        if not (isinstance(self.backend, str) or callable(self.backend)):
            raise OptionError(f"backend must be a name or a callable, not {self.backend!r}")
        if self.numerics not in NUMERICS:
            raise OptionError(f"numerics must be one of {', '.join(map(repr, NUMERICS))}, not {self.numerics!r}")
        if self.build not in ("sync", "async"):
            raise OptionError(f"build must be 'sync' or 'async', not {self.build!r}")
        if self.dynamic not in (None, True, False):
            raise OptionError(f"dynamic must be None, True or False, not {self.dynamic!r}")


_INTERNED: dict[Options, Options] = {}


def intern(options: Options) -> Options:
    """The one object for these options: the frame hook compares options by identity."""
    return _INTERNED.setdefault(options, options)
