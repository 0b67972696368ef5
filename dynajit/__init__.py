"""A compiler for PyTorch code written in notebooks: the public names, nothing else."""

import importlib
from typing import Any

from dynajit.api import (
    allow_in_graph,
    assume_constant_result,
    cache_dir,
    clear_cache,
    compile,
    disable,
    disallow_in_graph,
    edit_kernel,
    explain,
    export,
    graph_break,
    is_compiling,
    mark_dynamic,
    mark_static,
    profile,
    report,
    reset,
    resources,
    run,
    set_stance,
)
from dynajit.errors import CompileError, LoweringError, OptionError, ToolchainError

__version__ = "0.1.0"


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext dynajit` is what people try: it loads kernel_ext."""
    importlib.import_module("kernel_ext").load_ipython_extension(shell)


def unload_ipython_extension(shell: Any) -> None:
    importlib.import_module("kernel_ext").unload_ipython_extension(shell)


__all__ = [
    "CompileError",
    "LoweringError",
    "OptionError",
    "ToolchainError",
    "allow_in_graph",
    "assume_constant_result",
    "cache_dir",
    "clear_cache",
    "compile",
    "disable",
    "disallow_in_graph",
    "edit_kernel",
    "explain",
    "export",
    "graph_break",
    "is_compiling",
    "mark_dynamic",
    "mark_static",
    "profile",
    "report",
    "reset",
    "resources",
    "run",
    "set_stance",
]
