"""The frame tests need no torch: where there is none, `dynajit` is a bare package that runs no `__init__`.

DYNAJIT_FRAME_BUILD names a folder made by build_frame.py whose extension is tested instead of the installed one.
"""

import importlib.util
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

BUILD = os.environ.get("DYNAJIT_FRAME_BUILD")
ROOT = Path(BUILD) if BUILD else Path(__file__).parents[2]

if (BUILD or importlib.util.find_spec("torch") is None) and "dynajit" not in sys.modules:
    package = types.ModuleType("dynajit")
    package.__path__ = [str(ROOT / "dynajit")]
    sys.modules["dynajit"] = package


@pytest.fixture(autouse=True)
def _own_settings() -> Iterator[None]:
    """What the rest of the package has told the C module does not concern these tests."""
    from dynajit import frame

    setters = [frame.set_reducer, frame.set_traceback_fixer, frame.set_code_equal, frame.set_observer]
    before = [setter(None) for setter in setters]  # type: ignore[operator]
    yield
    for setter, fn in zip(setters, before, strict=True):
        setter(fn)  # type: ignore[operator]
