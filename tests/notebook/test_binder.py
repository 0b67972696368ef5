"""The environment for Binder: the Dockerfile that is made of it, without Docker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("runtime.txt", "requirements.txt", "apt.txt", "postBuild", "start")


def test_dockerfile(tmp_path: Path) -> None:
    """In a copy: the tool takes the whole folder, and this one may hold virtual environments."""
    command = Path(sys.executable).with_name("jupyter-repo2docker")
    if not command.exists():
        pytest.skip("jupyter-repo2docker is not installed")
    for name in ("binder", "notebooks"):
        shutil.copytree(ROOT / name, tmp_path / "repo" / name)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path / "repo" / name)
    done = subprocess.run(
        [str(command), "--no-build", "--debug", str(tmp_path / "repo")], capture_output=True, text=True, timeout=120
    )
    text = done.stdout + done.stderr
    assert done.returncode == 0, text[-3000:]
    assert "FROM " in text
    assert re.search(r"python.*3\.11|3\.11", text)
    assert "binder/requirements.txt" in text
    assert "gcc" in text
    assert "binder/postBuild" in text
    assert "binder/start" in text


def test_scripts_are_executable_and_well_formed() -> None:
    for name in ("postBuild", "start"):
        path = ROOT / "binder" / name
        assert os.access(path, os.X_OK)
        subprocess.run(["bash", "-n", str(path)], check=True)
    assert {path.name for path in (ROOT / "binder").iterdir()} == set(FILES)


def test_torch_is_the_cpu_build_that_the_project_allows() -> None:
    lines = (ROOT / "binder" / "requirements.txt").read_text().split()
    pin = next(line for line in lines if line.startswith("torch=="))
    assert pin.endswith("+cpu")
    assert "." in lines
    assert '"torch>=2.11,<2.14"' in (ROOT / "pyproject.toml").read_text()
