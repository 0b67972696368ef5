"""What JupyterLab leaves of an output in a notebook that is not trusted, as far as a card is concerned."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_DROPPED_WITH_CONTENT = {"script", "style", "svg"}
_KEPT = {"class", "title", "style", "open", "alt", "src", "scope", "href"}
_VOID = {"img", "br"}


class _Sanitiser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.out: list[str] = []
        self.skipping = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _DROPPED_WITH_CONTENT:
            self.skipping += 1
        if self.skipping:
            return
        kept = "".join(f' {name}="{_style(value or "") if name == "style" else value or ""}"'
                       for name, value in attrs if name in _KEPT)  # fmt: skip
        self.out.append(f"<{tag}{kept}>")

    def handle_endtag(self, tag: str) -> None:
        if tag in _DROPPED_WITH_CONTENT:
            self.skipping -= 1
        elif not self.skipping and tag not in _VOID:
            self.out.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self.skipping:
            self.out.append(data)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")


def _style(text: str) -> str:
    declarations = [part for part in text.split(";") if not re.search(r"var\(|color-mix\(|currentColor", part)]
    return ";".join(declarations)


def sanitised(html: str) -> str:
    parser = _Sanitiser()
    parser.feed(html)
    return "".join(parser.out)


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.out: list[str] = []
        self.skipping = 0
        self.open: list[str] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self.open.append(tag)
        self.skipping += tag in _DROPPED_WITH_CONTENT

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes nothing")
        self.skipping -= tag in _DROPPED_WITH_CONTENT

    def handle_data(self, data: str) -> None:
        if not self.skipping:
            self.out.append(data)


def text_of(html: str) -> str:
    """What a reader sees, and a check that the tags are balanced."""
    parser = _Text()
    parser.feed(html)
    assert parser.faults == []
    assert parser.open == []
    return "".join(parser.out)
