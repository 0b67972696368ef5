"""Backends: a captured graph in, a fast callable out. A table of names, filled by decorator and by entry points."""

from dynajit.backends import eager as _eager
from dynajit.backends import inductor as _inductor
from dynajit.backends import native as _native
from dynajit.backends.base import (
    FROM_CACHE,
    CompiledGraph,
    KernelInfo,
    Observer,
    backend,
    compile_graph,
    exists,
    names,
    resolve,
)

__all__ = [
    "FROM_CACHE",
    "CompiledGraph",
    "KernelInfo",
    "Observer",
    "backend",
    "compile_graph",
    "exists",
    "names",
    "resolve",
]

del _eager, _inductor, _native  # imported for the rows they add to the table
