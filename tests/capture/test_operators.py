"""Operators of PyTorch's own list through compiled functions: some of them here, all of them by the script."""

import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "measures"))
import op_db  # noqa: E402
import op_sizes  # noqa: E402

warnings.simplefilter("ignore")
CASES = list(op_db.cases(samples=1, every=12))


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)])
@pytest.mark.filterwarnings("ignore")
def test_one_graph_and_the_same_result(case):
    outcome, breaks = op_db.check(*case, backend="eager")
    assert outcome in ("right", "raises")
    if outcome == "right":
        assert breaks == [""]


SIZES = [case for case in op_db.cases(samples=1, every=17) if "empty" not in case[0]]


@pytest.mark.parametrize("case", SIZES, ids=[f"{i}-{case[0]}" for i, case in enumerate(SIZES)])
@pytest.mark.filterwarnings("ignore")
def test_sizes_that_change(case):
    _, function, sample = case
    right, wrong = op_sizes.check(function, sample, backend="eager")
    assert not wrong
    assert right
