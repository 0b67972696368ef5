"""Conditions that a library demands of data: a graph that meets false ones fails, and Python says what is wrong."""

from __future__ import annotations

import torch


class DemandError(ValueError):
    """Seen only where the graph cannot be run again by Python, which would say more."""


def demand(valid: torch.Tensor) -> None:
    if not torch._is_all_true(valid):
        raise DemandError("a parameter of a distribution does not satisfy its constraint")
