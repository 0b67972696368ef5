"""Printed Triton kernels compile for GPUs that are not here: registers, spills, the arithmetic that was asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
QUICK = ("light", "light_bf16", "softmax", "layer_norm", "functions", "nan", "gaps", "one_sum")
SLOW = ("softmax_long", "softmax_columns", "sums", "sum_all_dims", "double", "integers", "any_all", "broadcast")


def ahead(target: str, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    pytest.importorskip("triton")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("TRITON_INTERPRET", None)
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), str(HERE.parents[1]), environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "ignore", str(HERE / "ahead.py"), target, *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return {row["name"]: row for line in done.stdout.splitlines() if line.startswith("{") for row in [json.loads(line)]}


def assert_good(row: dict[str, Any]) -> None:
    assert row["error"] == ""
    assert row["spills"] == 0
    assert row["registers"] <= 128
    assert not row["approximate"], "approximate division, square root or flushed denormals"
    assert not row["fused"], "a multiplication and an addition in one rounding"


@pytest.fixture(scope="module")
def hopper() -> dict[str, dict[str, Any]]:
    return ahead("sm_90", QUICK)


@pytest.mark.parametrize("name", QUICK)
def test_hopper(name: str, hopper: dict[str, dict[str, Any]]) -> None:
    assert_good(hopper[name])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90", "sm_80"])
def test_all_kernels(target: str) -> None:
    for row in ahead(target, SLOW).values():
        assert_good(row)


@pytest.mark.slow
def test_amd() -> None:
    for row in ahead("gfx942", ("light", "softmax", "layer_norm")).values():
        assert row["error"] == ""
        assert row["spills"] == 0
