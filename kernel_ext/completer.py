"""Tab knows the options, their values, the sub-commands and the names of what is compiled."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from IPython.core.completer import SimpleCompletion, context_matcher

from kernel_ext.arguments import BACKENDS, DYNAMIC, MODES, OPTIONS, TABS, VIEWS
from kernel_ext.collapse import NAMED
from kernel_ext.names import kernel_labels
from kernel_ext.panels.passes import STEPS, stages_of
from kernel_ext.subcommands import SUBCOMMANDS, TAKES_CALL, TAKES_NAME, WORDS

if TYPE_CHECKING:
    from kernel_ext.session import Session

VALUES = {"--backend": BACKENDS, "--mode": tuple(MODES), "--dynamic": tuple(DYNAMIC), "--view": VIEWS, "--tab": TABS}
VALUE_WORDS = {
    "--lang": ("c", "triton"),
    "--ahead": ("sm_80", "sm_90", "gfx942"),
    "--level": NAMED,
    "--pass": tuple(STEPS),
}
_LONG = {flag: option.flags[-1] for option in OPTIONS for flag in option.flags}
_DEFINITION = re.compile(r"^(?:async\s+)?(?:def|class)\s+(\w+)|^(\w+)\s*=", re.MULTILINE)


class Matcher:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.match = self._matcher()

    def _matcher(self) -> Any:
        @context_matcher(identifier="kernel_ext.compile")  # type: ignore[untyped-decorator]
        def match(context: Any) -> Any:
            line, text = context.line_with_cursor[: context.cursor_position], context.full_text
            found = self.words(line, text)
            if found is None:
                return {"completions": [], "suppress": False}
            start = context.token if context.token and line.endswith(context.token) else re.split(r"[\s=]", line)[-1]
            full = re.split(r"[\s=]", line)[-1]
            head = full[: len(full) - len(start)] if full.endswith(start) else ""
            hits = [word[len(head) :] for word in found if word.startswith(full)]
            return {"completions": [SimpleCompletion(text=hit, type="param") for hit in hits], "suppress": True}

        return match

    def words(self, line: str, text: str) -> list[str] | None:
        """All words that may stand at the end of a line, None if the line is not ours."""
        stripped = line.lstrip()
        before = re.split(r"\s+", stripped)[:-1]
        if stripped.startswith("%%compile ") and text.lstrip().startswith("%%compile"):
            return self._cell_words(stripped, before[1:], text)
        if re.match(r"%compile\s", stripped):
            return self._line_words(before[1:])
        return None

    def _cell_words(self, line: str, before: list[str], text: str) -> list[str]:
        last = re.split(r"\s+", line)[-1]
        flag, equals, _ = last.partition("=")
        option = _LONG.get(flag if equals else (before[-1] if before else ""), "")
        if option in VALUES:
            return list(VALUES[option])
        flags = [flag for option_row in OPTIONS for flag in option_row.flags if flag.startswith("--") or last == "-"]
        names = [a or b for a, b in _DEFINITION.findall(text)]
        return flags if last.startswith("-") else [*dict.fromkeys(names), *flags]

    def _line_words(self, before: list[str]) -> list[str]:
        if not before:
            return list(SUBCOMMANDS)
        names = self.session.magics.names() if before[0] in (*TAKES_NAME, *TAKES_CALL) and len(before) == 1 else []
        return [*names, *self._values(before), *([] if before[-1] in VALUE_WORDS else WORDS.get(before[0], ()))]

    def _values(self, before: list[str]) -> list[str]:
        """What may follow the last word: the value of an option, a kernel, an entry or a pass."""
        if before[-1] in VALUE_WORDS:
            return list(VALUE_WORDS[before[-1]])
        if len(before) < 2 or before[0] not in ("kernels", "diff"):
            return []
        try:
            report = self.session.magics.report(before[1])
        except Exception:
            return []
        if before[0] == "kernels":
            return list(dict.fromkeys(kernel_labels(report).values())) if len(before) == 2 else []
        entries = [str(entry.index) for entry in report.entries]
        return [*entries, *(name for graph in report.graphs[:1] for name, _ in stages_of(graph))]
