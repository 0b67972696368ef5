"""The bytecode tests need no torch: where there is none, `dynajit` is a bare package that runs no `__init__`."""

import importlib.util
import sys
import types
from pathlib import Path

if importlib.util.find_spec("torch") is None and "dynajit" not in sys.modules:
    package = types.ModuleType("dynajit")
    package.__path__ = [str(Path(__file__).parents[2] / "dynajit")]
    sys.modules["dynajit"] = package
