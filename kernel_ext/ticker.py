"""A thread that lives while something is compiled: it keeps cards moving when the cell takes long."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernel_ext.targets import Target

PERIOD = 0.2
AFTER = 0.3
"""Seconds that a compile may take in silence."""
QUIET = 0.5
"""Seconds without an event after which a card is drawn anew."""
IDLE = 3.0


class Ticker:
    """refresh() draws cards anew; progress(target, text) puts one line on a card."""

    def __init__(self, refresh: Callable[[], None], progress: Callable[[Target, str], None]) -> None:
        self._refresh, self._progress = refresh, progress
        self._active: dict[str, tuple[Target, float, str]] = {}
        self._last = 0.0
        self._is_dirty = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def heard(self, target: Target, kind: str, stage: str) -> None:
        """An event of the compiler, on its thread."""
        self._last = time.monotonic()
        if kind == "CaptureStarted":
            self._active[target.name] = (target, self._last, "")
        elif kind == "StageEnded" and target.name in self._active:
            _, since, done = self._active[target.name]
            self._active[target.name] = (target, since, f"{done}{stage} ✓ ")
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
        for target, since, done in tuple(self._active.values()):
            if now - since > AFTER:
                self._progress(target, f"compiling: {done}… {now - since:.1f} s (interrupt the kernel to cancel)")
        if self._is_dirty and not self._active and now - self._last > QUIET:
            self._is_dirty = False
            self._refresh()
