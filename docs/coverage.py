"""Writes coverage.md beside it: what the capture models, read from its tables. `python docs/coverage.py`"""

from __future__ import annotations

import sys
import textwrap
from collections import defaultdict
from pathlib import Path
from typing import Any

from dynajit import reasons
from dynajit.bytecode import INSTRUCTIONS
from dynajit.evaluate.calls import BUILTINS
from dynajit.evaluate.op import OPS
from dynajit.evaluate.torch_calls import RECORDED
from dynajit.evaluate.unsupported import UNSUPPORTED
from dynajit.graph.sizes import EXACT, SPATIAL
from dynajit.values.wrap import BY_TYPE

PAGE = Path(__file__).with_name("coverage.md")
INTRODUCTION = """\
<!-- Written by docs/coverage.py. Change the tables of the package, then run it. -->
# What is captured

Generated from the tables that the evaluator itself uses. What is not listed breaks the graph where it is met, with a
reason from the last section: Python runs it, and the rest is captured.
"""


def page() -> str:
    """The whole page. What differs between versions of Python and PyTorch is counted, not listed."""
    return "\n".join([INTRODUCTION, *instructions(), *kinds(), *functions(), *sizes(), *breaks(), ""])


def instructions() -> list[str]:
    handled = sorted(name for name in INSTRUCTIONS if name in OPS)
    rows = [f"| `{name}` | {reason.title} ({reason.code}) |" for name, reason in sorted(UNSUPPORTED.items())]
    return [
        f"## Instructions\n\n{len(handled)} canonical instructions are evaluated:\n",
        paragraph(f"`{name}`" for name in handled),
        "\nPython executes these:\n\n| instruction | because it is |\n|---|---|",
        *rows,
    ]


def kinds() -> list[str]:
    """Objects by the module of their class."""
    head = "\n## Objects\n\nBesides instances of Python classes, those derived from containers, text and numbers:\n"
    return [head, *by_module(BY_TYPE)]


def functions() -> list[str]:
    return [
        "\n## Functions\n\nCalls that the evaluator answers itself. Other Python functions are followed into.\n",
        *by_module(BUILTINS),
        f"\nOf PyTorch, {len(RECORDED) // 100 * 100} functions and every tensor method become operations of the graph.",
    ]


def by_module(table: Any) -> list[str]:
    found: dict[str, set[str]] = defaultdict(set)
    for obj in table:
        owner = getattr(obj, "__objclass__", None) or getattr(obj, "__self__", None)
        module = getattr(obj, "__module__", None) or getattr(owner, "__module__", None) or type(owner).__module__
        found[str(module).split(".")[0].lstrip("_")].add(getattr(obj, "__name__", str(obj)).lstrip("_"))
    return [f"- {module}: {len(names)}" for module, names in sorted(found.items()) if module != "types"]


def sizes() -> list[str]:
    return [
        "\n## Symbolic sizes\n\nOperations whose result's sizes follow from those that went in (the others'"
        " are known when the program runs):\n",
        paragraph(f"`{name}`" for name in sorted({*EXACT, *SPATIAL})),
    ]


def breaks() -> list[str]:
    rows = [f"| {r.code} | {r.title} | {r.explanation} | {r.hint} |" for r in reasons.TABLE.values()]
    return ["\n## Reasons\n\n| code | what | why | what to try |\n|---|---|---|---|", *rows]


def paragraph(words: Any) -> str:
    return textwrap.fill(" ".join(words), 118, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"{PAGE.name} written\n")
