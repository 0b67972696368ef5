"""The samples of PyTorch's own operator database through the native backend, single operations made kernels, too.

DYNAJIT_OP_DB=all takes every operation and more samples and dtypes of each; otherwise it is every fourth operation.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from against_eager import every_kernel
from torch.testing._internal.common_methods_invocations import op_db

import dynajit

ALL = os.environ.get("DYNAJIT_OP_DB") == "all"
DTYPES = (
    (torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.float64) if ALL else (torch.float32, torch.int64)
)
SAMPLES = 4 if ALL else 1
SHARDS = 8
TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 2e-3, torch.float64: 1e-12}


def _backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    return every_kernel(gm, inputs).fn


def _samples(op: Any) -> Iterator[Any]:
    for dtype in DTYPES:
        if dtype in op.supported_dtypes("cpu"):
            found = list(op.sample_inputs("cpu", dtype, requires_grad=False))
            yield from found[len(found) // 2 :: max(len(found) // SAMPLES, 1)][:SAMPLES]


def _same(result: Any, wanted: Any) -> bool:
    if isinstance(wanted, torch.Tensor):
        if type(result) is not type(wanted) or result.dtype != wanted.dtype or result.shape != wanted.shape:
            return False
        if wanted.layout != torch.strided:
            return repr(result) == repr(wanted)
        if wanted.numel() and result.stride() != wanted.stride():
            return False
        wide = torch.complex128 if wanted.is_complex() else torch.float64
        bound = TOLERANCE.get(wanted.dtype, 1e-5)
        return torch.allclose(result.to(wide), wanted.to(wide), rtol=bound, atol=bound / 4, equal_nan=True)
    if isinstance(wanted, (list, tuple)):
        return len(result) == len(wanted) and all(map(_same, result, wanted))
    return bool(result == wanted or (result != result and wanted != wanted))


def _attempt(function: Any, sample: Any) -> tuple[Any, BaseException | None]:
    arguments = [copy.deepcopy(part) for part in (sample.input, sample.args, sample.kwargs)]
    torch.manual_seed(1)
    try:
        return function(*arguments), None
    except Exception as error:
        return None, error


@pytest.mark.parametrize("shard", range(SHARDS))
def test_samples(shard: int) -> None:
    wrong: list[str] = []
    for op in op_db[shard :: SHARDS if ALL else 4 * SHARDS]:
        if "empty" in op.name or op.name.startswith("sparse."):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for sample in _samples(op):

                def call(x: Any, args: Any, kwargs: Any, op: Any = op.op) -> Any:
                    return op(x, *args, **kwargs)

                compiled = dynajit.compile(call, backend=_backend)
                wanted, raised = _attempt(call, sample)
                for _ in range(2):
                    result, error = _attempt(compiled, sample)
                    if type(error) is not type(raised) or (error is None and not _same(result, wanted)):
                        wrong.append(f"{op.name} {op.variant_test_name}: {sample} {error!r}"[:300])
                dynajit.reset()
    assert not wrong, "\n".join(wrong)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [x for part in value for x in _tensors(part)] if isinstance(value, (list, tuple)) else []


def _with_gradients(function: Any, sample: Any) -> Any:
    """Results and gradients, of numbers that are the same in every run."""
    arguments = [copy.deepcopy(part) for part in (sample.input, sample.args, sample.kwargs)]
    inputs = [x for x in _tensors(arguments) if x.requires_grad]
    torch.manual_seed(1)
    results = _tensors(function(*arguments))
    outs = [x for x in results if x.requires_grad]
    given = [torch.linspace(-1, 1, x.numel()).reshape(x.shape).to(x.dtype) for x in outs]
    gradients = torch.autograd.grad(outs, inputs, given, allow_unused=True) if outs else ()
    return [x.detach() for x in results], gradients


def _near(result: torch.Tensor | None, wanted: torch.Tensor | None) -> bool:
    """Gradients are judged by the largest one: eager's own error is of that kind."""
    if result is None or wanted is None or wanted.layout != torch.strided:
        return (result is None) == (wanted is None)
    if result.shape != wanted.shape or result.dtype != wanted.dtype:
        return False
    wide = torch.complex128 if wanted.is_complex() else torch.float64
    largest = wanted.to(wide).abs().nan_to_num(0, 0, 0).max().item() if wanted.numel() else 0.0
    return torch.allclose(result.to(wide), wanted.to(wide), rtol=2e-4, atol=1e-5 * max(largest, 1), equal_nan=True)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_gradients_of_samples(shard: int) -> None:
    wrong: list[str] = []
    for op in op_db[shard :: SHARDS if ALL else 6 * SHARDS]:
        if "empty" in op.name or op.name.startswith("sparse.") or not op.supports_autograd:
            continue
        if torch.float32 not in op.supported_dtypes("cpu"):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            samples = list(op.sample_inputs("cpu", torch.float32, requires_grad=True))
            for sample in samples[len(samples) // 2 :: max(len(samples) // SAMPLES, 1)][:SAMPLES]:

                def call(x: Any, args: Any, kwargs: Any, op: Any = op.op) -> Any:
                    return op(x, *args, **kwargs)

                try:
                    wanted, expected = _with_gradients(call, sample)
                except Exception:
                    continue  # eager has none
                compiled = dynajit.compile(call, backend=_backend)
                for _ in range(2):
                    results, gradients = _with_gradients(compiled, sample)
                    pairs = [*zip(results, wanted, strict=True), *zip(gradients, expected, strict=True)]
                    if not all(_near(a, b) for a, b in pairs):
                        wrong.append(f"{op.name} {op.variant_test_name}: {sample}"[:300])
                dynajit.reset()
    assert not wrong, "\n".join(wrong)
