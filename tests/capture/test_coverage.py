"""Every canonical instruction is handled, or has a reason why not."""

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
