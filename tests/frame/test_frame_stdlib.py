"""CPython's own tests, with every function replaced by a copy of itself, or missed: they pass as without us."""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

MODULES = """asyncgen call collections contextlib copy coroutines dataclasses decorators enum extcall functools
generators heapq keywordonlyarg listcomps positional_only_arg raise scope super sys_settrace traceback unpack with
yield_from""".split()

PROGRAM = """
import io, sys, types, unittest
sys.path.insert(0, {folder!r})
package = types.ModuleType("dynajit")
package.__path__ = {path!r}
sys.modules["dynajit"] = package
from framekit import OPTIONS, flat
from dynajit import frame

mode, *names = sys.argv[1:]

def on_miss(func, slots, options):
    if mode == "missed":
        return None
    return frame.Entry(frame.Check([]), flat(func.__code__), options, True)

def main():
    for name in names:
        tests = unittest.defaultTestLoader.loadTestsFromName("test.test_" + name)
        result = unittest.TextTestRunner(stream=io.StringIO()).run(tests)
        for test, _ in result.failures + result.errors:
            print("failed:", test)

if mode != "plain":
    main = frame.Dispatcher(main, OPTIONS, on_miss)
main()
print("ended:", frame.evaluator_users(), frame.evaluator_installed())
"""


@functools.cache
def failures(mode: str) -> set[str]:
    """The tests that fail."""
    program = PROGRAM.format(folder=str(Path(__file__).parent), path=list(sys.modules["dynajit"].__path__))
    command = [sys.executable, "-X", "faulthandler", "-c", program, mode, *MODULES]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "ended: 0 False" in done.stdout
    return {line for line in done.stdout.splitlines() if line.startswith("failed:")}


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("test.test_json") is None, reason="this Python has no tests of its own")
@pytest.mark.parametrize("mode", ["replaced", "missed"])
def test_the_tests_of_cpython_pass(mode: str) -> None:
    assert failures(mode) <= failures("plain")
