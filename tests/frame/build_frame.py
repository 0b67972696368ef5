"""Build dynajit.frame._hook for the running Python into a folder, with gcc or clang and nothing else.

    python tests/frame/build_frame.py FOLDER [flags for the compiler]

The tests use it for a build with the address sanitizer, and for Pythons that have no setuptools.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build(folder: Path, flags: tuple[str, ...] = ()) -> Path:
    """Sources and flags are those of pyproject.toml. Returns the folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (extension,) = [e for e in project["tool"]["setuptools"]["ext-modules"] if e["name"] == "dynajit.frame._hook"]
    target = folder / "dynajit" / "frame"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "dynajit" / "frame" / "__init__.py", target)
    library = target / f"_hook{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", *extension["extra-compile-args"], *flags]
    command += [f"-I{sysconfig.get_path('include')}", *(str(ROOT / source) for source in extension["sources"])]
    subprocess.run([*command, "-o", str(library)], check=True)
    return folder


if __name__ == "__main__":
    build(Path(sys.argv[1]), tuple(sys.argv[2:]))
