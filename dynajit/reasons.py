"""Every reason to break a graph or to skip a frame: one row each. Panels and docs are generated from this table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """code: stable name shown to users. title: one line. explanation: why. hint: what to try."""

    code: str
    title: str
    explanation: str
    hint: str


TABLE: dict[str, Reason] = {}


def _row(code: str, title: str, explanation: str, hint: str) -> Reason:
    reason = Reason(code, title, explanation, hint)
    TABLE[code] = reason
    return reason
