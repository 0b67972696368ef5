"""Handlers of the canonical instructions, grouped as the manual of `dis` groups them. Importing fills the table."""

from dynajit.evaluate.ops import (
    calls,
    containers,
    exceptions,
    formatting,
    functions,
    generators,
    imports,
    iteration,
    jumps,
    match,
    operators,
    stack,
    variables,
    with_,
)

__all__ = [
    "calls",
    "containers",
    "exceptions",
    "formatting",
    "functions",
    "generators",
    "imports",
    "iteration",
    "jumps",
    "match",
    "operators",
    "stack",
    "variables",
    "with_",
]
