"""The torch-free tests again, with a build that checks each memory access."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from build_frame import build

FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-g", "-O1")


def library(name: str) -> str | None:
    """Where the compiler keeps one of its run-time libraries."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return None
    path = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
    return path if Path(path).is_absolute() and Path(path).exists() else None


@pytest.mark.slow
@pytest.mark.skipif("DYNAJIT_FRAME_ASAN" in os.environ, reason="this is the inner run")
def test_the_frame_tests_touch_no_memory_that_is_not_theirs(tmp_path: Path) -> None:
    libraries = [library("libasan.so"), library("libubsan.so")]
    if None in libraries:
        pytest.skip("no address sanitizer")
    build(tmp_path, FLAGS)
    environment = {
        **os.environ,
        "DYNAJIT_FRAME_BUILD": str(tmp_path),
        "DYNAJIT_FRAME_ASAN": "1",
        "LD_PRELOAD": " ".join(one for one in libraries if one),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    here = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", str(here), f"--confcutdir={here}", "-q", "-x", "-p", "no:cacheprovider"]
    ignored = [f"--ignore={here / 'test_frame_tensors.py'}", "-p", "no:hypothesispytest", "-p", "no:randomly"]
    done = subprocess.run([*command, *ignored], env=environment, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
