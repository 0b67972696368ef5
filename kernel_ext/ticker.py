"""A thread that lives while something is compiled: it keeps cards moving when the cell takes long."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernel_ext.units import duration

if TYPE_CHECKING:
    from kernel_ext.targets import Target

PERIOD = 0.2
"""Seconds between updates: at most five a second."""
AFTER = 0.25
"""Seconds that a compile may take in silence."""
QUIET = 0.5
"""Seconds without an event after which a card is drawn anew."""
IDLE = 3.0
STEPS = 8


@dataclass
class Work:
    """A function that is being compiled. done: stages that have ended, in words; stage: the one that runs."""

    target: Target
    since: float
    done: list[str] = field(default_factory=list)
    stage: str = ""
    stage_since: float = 0.0

    def text(self, now: float) -> str:
        """`capture ✓ 12 ms → lowering ✓ 2 kernels → building k0_gelu, k1_max ▇▇▇▇░░░░ 1.4 s`."""
        spent = now - self.stage_since
        blocks = 1 + int(spent / PERIOD) % STEPS
        bar = "▇" * blocks + "░" * (STEPS - blocks)
        running = f"{self.stage} {bar} {now - self.since:.1f} s (interrupt the kernel to cancel)"
        return " → ".join([*self.done, running])


class Ticker:
    """refresh() draws cards anew; progress(target, text, seconds) puts one line on a card, so long after the start."""

    def __init__(self, refresh: Callable[[], None], progress: Callable[[Target, str, float], None]) -> None:
        self._refresh, self._progress = refresh, progress
        self.after = AFTER
        self._active: dict[str, Work] = {}
        self._last = 0.0
        self._is_dirty = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def heard(self, target: Target, event: Any) -> None:
        """An event of the compiler, on its thread."""
        kind = type(event).__name__
        self._last = now = time.monotonic()
        work = self._active.get(target.name)
        if kind == "CaptureStarted":
            self._active[target.name] = Work(target, work.since if work is not None else now)
        elif kind == "StageStarted" and work is not None:
            work.stage, work.stage_since = _named(event.stage, event.detail), now
        elif kind == "StageEnded" and work is not None:
            work.done.append(f"{event.stage} ✓ {event.detail or duration(event.seconds)}")
        elif kind == "StageEnded":  # kernels that were built beside the program
            self._is_dirty = True
        elif kind in ("EntryAdded", "FrameSkipped", "LimitReached"):
            self._active.pop(target.name, None)
            self._is_dirty = True
        if self._thread is None or not self._thread.is_alive():
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="dynajit cards", daemon=True)
            self._thread.start()

    def clear(self) -> None:
        """The cell is over: what is still open was given up."""
        self._active.clear()
        self._is_dirty = False

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(2)

    def _run(self) -> None:
        while (not self._stop.wait(PERIOD) and time.monotonic() - self._last < IDLE) or self._active:
            with contextlib.suppress(Exception):  # a card that cannot be drawn now is drawn after the cell
                self._tick(time.monotonic())
            if self._stop.is_set():
                return

    def _tick(self, now: float) -> None:
        for work in tuple(self._active.values()):
            if now - work.since > self.after:
                self._progress(work.target, work.text(now), now - work.since)
        if self._is_dirty and not self._active and now - self._last > QUIET:
            self._is_dirty = False
            self._refresh()


def _named(stage: str, detail: str) -> str:
    """Of a building stage, the kernels: all of a graph are built at once."""
    kernels = detail.split(", ") if detail else []
    if len(kernels) < 2:
        return " ".join([stage, *kernels])
    return f"{stage} {len(kernels)} kernels ({', '.join(kernels[:3])}{', …' if len(kernels) > 3 else ''})"
