"""A shared library of kernels, loaded: where each kernel is."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

from dynajit.runtime.mathlib import address

_LOADED: list[ctypes.CDLL] = []  # machine code that launches point into is never unloaded


def load(path: Path, entries: Sequence[str], symbols: Sequence[str]) -> list[int]:
    """Addresses of the functions `entries`, after handing over the mathematical functions they call."""
    library = ctypes.CDLL(str(path))
    if symbols:
        table = (ctypes.c_void_p * len(symbols))(*map(address, symbols))
        library.bind(table)
        library.table = table  # type: ignore[attr-defined]  # the library keeps a pointer to it
    _LOADED.append(library)
    return [ctypes.cast(getattr(library, entry), ctypes.c_void_p).value or 0 for entry in entries]
