"""Symbolic evaluation of a frame: from bytecode and arguments to a `Trace`."""

from dynajit.evaluate import builtins, ops
from dynajit.evaluate.machine import Machine

__all__ = ["Machine", "builtins", "ops"]
