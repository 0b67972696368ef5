"""What happens, as values that observers may hear. The compiler emits; it never imports a viewer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any


@dataclass(frozen=True)
class Event:
    """code: the code object it is about."""

    code: CodeType


@dataclass(frozen=True)
class CaptureStarted(Event):
    pass


@dataclass(frozen=True)
class StageStarted(Event):
    """stage: one of capture, lowering, building, guards."""

    stage: str
    detail: str = ""


@dataclass(frozen=True)
class StageEnded(Event):
    stage: str
    seconds: float = 0.0
    detail: str = ""


@dataclass(frozen=True)
class GraphBroke(Event):
    """reason_code: a key of `reasons.TABLE`; line: where in the user's source."""

    reason_code: str
    detail: str
    line: int | None


@dataclass(frozen=True)
class FrameSkipped(Event):
    reason_code: str
    detail: str


@dataclass(frozen=True)
class EntryAdded(Event):
    """count: entries now kept for this code object; record: the `CacheEntry`."""

    count: int
    record: Any


@dataclass(frozen=True)
class GraphFailed(Event):
    """A graph raised `error`, so Python runs the frame from its start; what it raises then is what the user sees."""

    error: str


@dataclass(frozen=True)
class GuardFailed(Event):
    """words: the guard that failed, in words; why the function is compiled again."""

    words: str


@dataclass(frozen=True)
class LimitReached(Event):
    limit: int
    words: str


_SUBSCRIBERS: list[Callable[[Event], None]] = []


def subscribe(observer: Callable[[Event], None]) -> Callable[[], None]:
    """Call `observer` with each event until the returned function is called."""
    _SUBSCRIBERS.append(observer)

    def unsubscribe() -> None:
        with contextlib.suppress(ValueError):
            _SUBSCRIBERS.remove(observer)

    return unsubscribe


@contextlib.contextmanager
def subscribed(observer: Callable[[Event], None]) -> Iterator[None]:
    unsubscribe = subscribe(observer)
    try:
        yield
    finally:
        unsubscribe()


def are_heard() -> bool:
    return bool(_SUBSCRIBERS)


def emit(event: Event) -> None:
    for observer in tuple(_SUBSCRIBERS):
        observer(event)
