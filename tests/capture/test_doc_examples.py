"""Examples of PyTorch's documentation: some of them here, all of them by tests/measures/doc_examples.py."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "measures"))
import doc_examples  # noqa: E402

EXAMPLES = [pair for pair in doc_examples.docstrings() if doc_examples.is_written(pair[0])]


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("part", range(4))
@pytest.mark.filterwarnings("ignore")
def test_as_they_are_written(part, backend):
    ran = 0
    for name, text in EXAMPLES[3 * part + (backend == "native") :: 60]:
        found = doc_examples.usable(text, name)
        if found is not None:
            differs, _ = doc_examples.check(*found, backend)
            assert not differs, f"{name}: {differs}"
            ran += 1
    assert ran > 5
