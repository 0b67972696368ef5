"""Printed Triton kernels give eager's values. Without a GPU they run in Triton's interpreter, all in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from triton_rows import CASES

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), str(HERE.parents[1]), environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "ignore", str(HERE / "interpret.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {row["name"]: row["why"] for row in rows}


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_values(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""
