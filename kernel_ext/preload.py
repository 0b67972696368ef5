"""Slow imports, made on a thread once the extension is there, so that the first call is short."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import threading

DELAY = 0.05
STEPS = ("torch", "dynajit", "sympy")  # the last one is for shape rules: a first call need not wait for it


class Preload:
    """A daemon thread that can be told to end after the step it is in; the interpreter waits for that step."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dynajit preload", daemon=True)

    def start(self) -> None:
        self._thread.start()
        atexit.register(self.stop)

    def stop(self) -> None:
        """A thread that is killed inside an import would take the process down with it."""
        self._stop.set()
        atexit.unregister(self.stop)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(30)

    def _run(self) -> None:
        if self._stop.wait(DELAY):
            return
        for name in STEPS:
            if self._stop.is_set():
                return
            with contextlib.suppress(Exception):  # the user's own import will say what is wrong
                importlib.import_module(name)
