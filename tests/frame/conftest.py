"""The frame tests need no torch: where there is none, `dynajit` is a bare package that runs no `__init__`.

DYNAJIT_FRAME_BUILD names a folder made by build_frame.py whose extension is tested instead of the installed one.
"""

import importlib.util
import os
import sys
import types
from pathlib import Path

BUILD = os.environ.get("DYNAJIT_FRAME_BUILD")
ROOT = Path(BUILD) if BUILD else Path(__file__).parents[2]

if (BUILD or importlib.util.find_spec("torch") is None) and "dynajit" not in sys.modules:
    package = types.ModuleType("dynajit")
    package.__path__ = [str(ROOT / "dynajit")]
    sys.modules["dynajit"] = package
