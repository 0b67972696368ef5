"""Symbolic values, one family a file. Importing this package fills the table of `wrap`."""

from dynajit.values import (
    builtin,
    cell,
    constant,
    context,
    exception,
    function,
    instance,
    iterator,
    klass,
    mapping,
    module,
    partial,
    sequence,
    sets,
    tensor,
)

__all__ = [
    "builtin",
    "cell",
    "constant",
    "context",
    "exception",
    "function",
    "instance",
    "iterator",
    "klass",
    "mapping",
    "module",
    "partial",
    "sequence",
    "sets",
    "tensor",
]
