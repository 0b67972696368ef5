"""Every canonical instruction is handled, or has a reason why not."""

import importlib.util
import re
from pathlib import Path

import pytest

from dynajit import reasons
from dynajit.bytecode import INSTRUCTIONS
from dynajit.evaluate.op import OPS
from dynajit.evaluate.unsupported import UNSUPPORTED


@pytest.mark.parametrize("name", sorted(INSTRUCTIONS))
def test_instruction(name):
    assert (name in OPS) != (name in UNSUPPORTED)


def test_reasons_say_what_to_try():
    for code, reason in reasons.TABLE.items():
        assert code == reason.code
        assert reason.title
        assert reason.explanation.endswith(".")
        assert reason.hint


def test_the_coverage_page_is_current():
    """Counts may differ between versions of Python and PyTorch; what is listed does not."""
    path = Path(__file__).parents[2] / "docs" / "coverage.py"
    spec = importlib.util.spec_from_file_location("coverage_page", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    listed = [re.sub(r"\d+", "", text) for text in (module.PAGE.read_text(), module.page())]
    assert listed[0] == listed[1], "run: python docs/coverage.py"
