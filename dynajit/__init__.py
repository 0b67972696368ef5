"""A compiler for PyTorch code written in notebooks: the public names, nothing else."""

from dynajit.api import compile, disable, explain, graph_break, is_compiling, report, reset
from dynajit.errors import CompileError, LoweringError, OptionError, ToolchainError

__version__ = "0.1.0"

__all__ = [
    "CompileError",
    "LoweringError",
    "OptionError",
    "ToolchainError",
    "compile",
    "disable",
    "explain",
    "graph_break",
    "is_compiling",
    "report",
    "reset",
]
