"""numpy's functions of known numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.values.base import Value
from dynajit.values.sequence import structure

_FUNCTIONS: list[Any] = [function for function in vars(np).values() if isinstance(function, np.ufunc)]
_FUNCTIONS += [np.prod, np.sum, np.mean, np.max, np.min, np.round, np.clip, np.isscalar]
_TYPES = [np.float64, np.float32, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_]


def _register(function: Any) -> None:
    def run(m: Machine, *args: Value, **kwargs: Value) -> Value:
        values = [structure(m, value) for value in args]
        named = {name: structure(m, value) for name, value in kwargs.items()}
        try:
            with np.errstate(all="raise"):
                return m.constant(function(*values, **named))
        except Exception as error:  # Python raises or warns
            raise GraphBreak(reasons.OPAQUE_CALL, f"numpy.{function.__name__}: {error}") from None

    builtin(function)(run)


for _function in dict.fromkeys([*_FUNCTIONS, *_TYPES]):
    _register(_function)
