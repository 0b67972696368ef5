"""The options of `%%compile`, and how a line is cut into words: expressions keep their blanks, brackets and quotes."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

VIEWS = ("card", "open", "text", "widget", "none")
TABS = ("source", "graph", "guards", "kernels", "timeline", "passes")
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "fast": {"build": "async"},
    "max": {"numerics": "fast"},
}
"""What `--mode` means to the compiler."""

DYNAMIC = {"auto": None, "on": True, "off": False}
BACKENDS = ("auto", "native", "eager")
"""Offered by completion; the compiler knows whether there are more."""


class UsageFault(Exception):
    """One line for the user: what is wrong with the options."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageFault(message)


@dataclass(frozen=True)
class CellOptions:
    """What the first line of a cell says."""

    names: tuple[str, ...] = ()
    backend: str = "auto"
    mode: str = "default"
    dynamic: str = "auto"
    fullgraph: bool = False
    warm: tuple[str, ...] = ()
    check: bool = False
    view: str = "card"
    tab: str = "source"
    out: str = ""
    force: bool = False

    def compiler(self) -> dict[str, Any]:
        """The same as keywords of `dynajit.compile`, without those that are as usual."""
        chosen: dict[str, Any] = dict(MODES[self.mode])
        if self.backend != "auto":
            chosen["backend"] = self.backend
        if self.dynamic != "auto":
            chosen["dynamic"] = DYNAMIC[self.dynamic]
        if self.fullgraph:
            chosen["fullgraph"] = True
        return chosen


@dataclass(frozen=True)
class _Option:
    flags: tuple[str, ...]
    keywords: dict[str, Any] = field(default_factory=dict)


OPTIONS = (
    _Option(("-b", "--backend"), {"metavar": "B"}),
    _Option(("-m", "--mode"), {"choices": tuple(MODES)}),
    _Option(("-d", "--dynamic"), {"choices": tuple(DYNAMIC)}),
    _Option(("-F", "--fullgraph"), {"action": "store_true"}),
    _Option(("-w", "--warm"), {"action": "append", "metavar": "EXPR"}),
    _Option(("-c", "--check"), {"action": "store_true"}),
    _Option(("-v", "--view"), {"choices": VIEWS}),
    _Option(("-q", "--quiet"), {"action": "store_const", "const": "none", "dest": "view"}),
    _Option(("-t", "--tab"), {"choices": TABS}),
    _Option(("-o", "--out"), {"metavar": "NAME"}),
    _Option(("-f", "--force"), {"action": "store_true"}),
)


def _parser() -> _Parser:
    parser = _Parser(prog="%%compile", add_help=False, allow_abbrev=False)
    parser.add_argument("names", nargs="*", metavar="NAME")
    for option in OPTIONS:
        parser.add_argument(*option.flags, default=argparse.SUPPRESS, **option.keywords)
    return parser


def parse(line: str, view: str = "card") -> CellOptions:
    """Raises `UsageFault`. `view`: the one to take if the line names none."""
    words = split(line)
    _reject_unknown(words)
    found = vars(_parser().parse_intermixed_args(words))
    found["names"] = tuple(found.get("names") or ())
    found["warm"] = tuple(unquoted(text) for text in found.get("warm", ()))
    for name in [*found["names"], *([found["out"]] if "out" in found else [])]:
        if not all(part.isidentifier() for part in name.split(".")):
            raise UsageFault(f"{name!r} is not a name")
    return CellOptions(**{"view": view, **found})


def _reject_unknown(words: Sequence[str]) -> None:
    known = [flag for option in OPTIONS for flag in option.flags]
    takes = {flag for option in OPTIONS for flag in option.flags if "action" not in option.keywords}
    takes |= {"-w", "--warm"}
    skip = False
    for word in words:
        if skip or not word.startswith("-"):
            skip = False
            continue
        flag = word.partition("=")[0]
        if flag not in known:
            close = difflib.get_close_matches(flag, known, 1)
            raise UsageFault(f"there is no option {flag}" + (f"; did you mean {close[0]}?" if close else ""))
        skip = flag in takes and "=" not in word


def split(line: str) -> list[str]:
    """Words are parted by blanks outside of brackets and quotes: `-w f(x, "a  b")` is two words."""
    words: list[str] = []
    current, depth, quote, escaped = "", 0, "", False
    for char in line:
        if quote:
            quote = "" if char == quote and not escaped else quote
            escaped = char == "\\" and not escaped
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char.isspace() and depth <= 0:
            if current:
                words.append(current)
            current = ""
            continue
        current += char
    if quote or depth:
        raise UsageFault(f"{'a quote' if quote else 'a bracket'} is not closed")
    return [*words, current] if current else words


def unquoted(text: str) -> str:
    """An expression may be written in quotes as a whole."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" and text[0] not in text[1:-1]:
        return text[1:-1]
    return text
