"""One architecture of each kind, evaluation and training; tests/measures/architectures.py has all of them."""

import os
import sys
from pathlib import Path

import pytest

os.environ["DYNAJIT_STRICT"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1] / "measures"))
import architectures

KINDS = ["modernbert", "llama", "t5", "mixtral", "mamba", "swin", "whisper"]


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_one_graph_and_eager_s_results(name, train):
    equal, breaks, _ = architectures.check(name, train)
    assert equal
    assert breaks == [""]
