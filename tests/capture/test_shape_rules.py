"""The shape rules that stand in for PyTorch's say what those say, or nothing."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from dynajit.graph import pointwise

META = torch.device("meta")
INPUTS = [
    torch.empty(4, 6, device=META),
    torch.empty(2, 3, 6, device=META, dtype=torch.float16),
    torch.empty(4, 6, device=META, requires_grad=True),
    torch.empty(6, 4, device=META).t(),
    torch.empty(4, 1, 6, device=META)[:, :, ::2],
    torch.empty(4, 6, device=META, dtype=torch.int64),
    torch.empty((), device=META),
    torch.empty(0, 6, device=META),
]
WEIGHTS = [
    None,
    torch.empty(6, device=META),
    torch.empty(6, device=META, requires_grad=True),
    torch.empty(6, device=META, dtype=torch.float64),
    torch.empty(12, device=META)[::2],
]


def _same(found: torch.Tensor | None, function: Any, *args: Any) -> bool:
    """Whether a rule had an answer, which then is PyTorch's."""
    if found is None:
        return False
    wanted = function(*args)
    facts = [(x.shape, x.stride(), x.dtype, x.device, x.requires_grad, x.is_leaf) for x in (found, wanted)]
    assert facts[0] == facts[1]
    return True


def test_layer_norm() -> None:
    known = 0
    for x, weight, bias, shape in itertools.product(
        INPUTS, WEIGHTS, WEIGHTS[:3], [(6,), [6], (4, 6), (3, 6), (5,), ()]
    ):
        found = pointwise.result("layer_norm", (x, shape, weight, bias), {})
        known += _same(found, F.layer_norm, x, shape, weight, bias)
    assert known > 20
    assert pointwise.result("layer_norm", (INPUTS[0], (6,)), {"eps": 1e-3}) is not None
    assert pointwise.result("layer_norm", (INPUTS[0], 6), {}) is None
    assert pointwise.result("layer_norm", (INPUTS[0],), {"normalized_shape": (6,)}) is None
    assert pointwise.result("layer_norm", (INPUTS[0], (6,), None), {"weight": None}) is None
    assert pointwise.result("layer_norm", (), {"input": INPUTS[0], "normalized_shape": (6,)}) is None


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(name: str) -> None:
    function = getattr(torch, name)
    known = sum(
        _same(pointwise.result(name, (x, dim), {}), function, x, dim)
        for x, dim in itertools.product(INPUTS, [-3, -1, 0, 1, 2])
    )
    assert known > 8
    assert pointwise.result(name, (INPUTS[0], 0, torch.float64), {}) is None
    assert pointwise.result(name, (INPUTS[0], 0), {"dtype": torch.float64}) is None


def test_without_grad_mode() -> None:
    with torch.no_grad():
        found = pointwise.result("softmax", (INPUTS[2], -1), {})
    assert found is not None
    assert not found.requires_grad
