"""NumPy's functions: of known numbers they are computed, of arrays they become operations of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynajit.evaluate import arrays
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.graph.arrays import FACTS, FUNCTIONS, TYPES
from dynajit.values.base import Value
from dynajit.values.constant import fold


def _function(function: Any) -> None:
    builtin(function)(lambda m, *args, **kwargs: arrays.function(m, function, args, kwargs))


def _fact(function: Any) -> None:
    builtin(function)(lambda m, *args, **kwargs: arrays.fact(m, function, args, kwargs))


for _item in (*FUNCTIONS, *TYPES):
    _function(_item)
for _item in FACTS:
    _fact(_item)


@builtin(np.dtype)
def dtype(m: Machine, *args: Value, **kwargs: Value) -> Value:
    return fold(m, np.dtype, args, kwargs)
