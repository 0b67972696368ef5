"""Numbers from the generator of Python's `random`, as functions that a printed graph can name."""

from __future__ import annotations

import random
from typing import Any

MODULE: Any = random._inst


def draw_random() -> float:
    drawn: float = MODULE.random()
    return drawn


def draw_uniform(low: float, high: float) -> float:
    drawn: float = MODULE.uniform(low, high)
    return drawn


def draw_gauss(mean: float, deviation: float) -> float:
    drawn: float = MODULE.gauss(mean, deviation)
    return drawn


def draw_normalvariate(mean: float, deviation: float) -> float:
    drawn: float = MODULE.normalvariate(mean, deviation)
    return drawn


def draw_randint(low: int, high: int) -> int:
    drawn: int = MODULE.randint(low, high)
    return drawn
