"""Test suites of others pass on functions that were decoded and encoded.

A structural round trip does not find what both directions get wrong in the same way; running does.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bodies import ROOT

LANGUAGE = [
    "test_asyncgen",
    "test_augassign",
    "test_contextlib",
    "test_coroutines",
    "test_except_star",
    "test_exception_group",
    "test_exceptions",
    "test_fstring",
    "test_generators",
    "test_genexps",
    "test_grammar",
    "test_keywordonlyarg",
    "test_listcomps",
    "test_named_expressions",
    "test_patma",
    "test_positional_only_arg",
    "test_raise",
    "test_scope",
    "test_super",
    "test_sys_settrace",
    "test_traceback",
    "test_unpack",
    "test_unpack_ex",
    "test_with",
]
LIBRARY = [
    "test_argparse",
    "test_collections",
    "test_contextlib_async",
    "test_copy",
    "test_dataclasses",
    "test_difflib",
    "test_enum",
    "test_functools",
    "test_heapq",
    "test_inspect",
    "test_json",
    "test_re",
    "test_string",
    "test_textwrap",
    "test_typing",
]


def run(mode: str, names: list[str], folder: Path) -> dict:
    report = folder / f"{mode}.json"
    script = Path(__file__).with_name("rewritten.py")
    command = [sys.executable, "-W", "ignore", str(script), str(ROOT / "dynajit"), str(report), mode, *names]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(report.read_text())


@pytest.mark.slow
@pytest.mark.parametrize(("names", "least"), [(LANGUAGE, 1500), (LIBRARY, 3000)], ids=["language", "library"])
def test_foreign_suite(names, least, tmp_path):
    result = run("rewritten", names, tmp_path)
    assert result["tests"] > least
    assert result["functions"] > 3000
    if result["bad"]:  # some tests dislike any hook
        known = run("identity", names, tmp_path)["bad"]
        assert not {name: text for name, text in result["bad"].items() if name not in known}
