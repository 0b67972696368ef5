"""`%compile bench`: eager and compiled side by side, warmed up, in turns; medians, spread, and a small plot."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from kernel_ext import html, late
from kernel_ext.html import div, esc, span
from kernel_ext.units import count, duration

WARM_UP = 3
ROUND = 0.02
"""Seconds that a round of calls should take, if the user names no number."""
WIDTH = 260


@dataclass(frozen=True)
class Bench:
    """seconds: of one call, in each round, by name of the way. kernels: seconds of one launch, by name."""

    text: str
    calls: int
    seconds: Mapping[str, Sequence[float]]
    kernels: Mapping[str, float] = field(default_factory=dict)

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name])

    @property
    def ratio(self) -> float:
        """How many times faster than eager."""
        return self.median("eager") / self.median("dynajit")

    def __str__(self) -> str:
        rows = [f"{self.text}: {self.ratio:.2f} times the speed of eager ({count(self.calls, 'call')} a round)"]
        for name, seconds in self.seconds.items():
            rows.append(f"  {name:<14}{duration(self.median(name)):>9}   {duration(min(seconds))} to "
                        f"{duration(max(seconds))}")  # fmt: skip
        whole = self.median("dynajit")
        for name, taken in self.kernels.items():
            rows.append(f"    {name:<32}{duration(taken):>9} {100 * taken / whole:5.0f}%")
        return "\n".join(rows)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        longest = max(max(seconds) for seconds in self.seconds.values())
        rows: list[tuple[dict[str, object], list[str]]] = [({}, self._cells(name, longest)) for name in self.seconds]
        title = f"<b>{esc(self.text)}</b> {self.ratio:.2f} times the speed of eager"
        return div(title, "padding:2px 0") + html.table(
            f"medians of {len(self.seconds['eager'])} rounds of {count(self.calls, 'call')}",
            ["", "median", "spread", ""],
            rows,
        )

    def _cells(self, name: str, longest: float) -> list[str]:
        seconds = self.seconds[name]
        colour = {"eager": "139,148,158", "dynajit": "46,160,67"}.get(name, "31,111,235")
        width = max(2, WIDTH * self.median(name) / longest)
        low, high = WIDTH * min(seconds) / longest, WIDTH * max(seconds) / longest
        bar = span(
            "", f"position:absolute;left:0;top:.2em;height:.8em;width:{width:.0f}px;background:rgba({colour},.6)"
        )
        line = span("", f"position:absolute;left:{low:.0f}px;top:.55em;height:2px;width:{max(1, high - low):.0f}px;"
                        "background:rgba(128,128,128,.9)")  # fmt: skip
        plot = span(bar + line, f"display:inline-block;position:relative;width:{WIDTH}px;height:1.2em")
        spread = f"{duration(min(seconds))} to {duration(max(seconds))}"
        return [esc(name), duration(self.median(name)), esc(spread), plot]


@dataclass(frozen=True)
class Way:
    """around: a context that a whole round of calls is made in."""

    call: Callable[[], Any]
    around: Callable[[], AbstractContextManager[Any]] = nullcontext


def bench(text: str, ways: Mapping[str, Way], calls: int | None, rounds: int) -> Bench:
    """All ways take turns, so that what disturbs one disturbs all."""
    slowest = 0.0
    for way in ways.values():
        _round(way, WARM_UP)
        slowest = max(slowest, _round(way, 1))
    number = calls or max(1, min(10_000, round(ROUND / max(slowest, 1e-7))))
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(_round(way, number) / number)
    return Bench(text, number, found)


def _round(way: Way, number: int) -> float:
    call = way.call
    with way.around():
        _wait()
        started = time.perf_counter()
        for _ in range(number):
            call()
        _wait()
        return time.perf_counter() - started


def _wait() -> None:
    """Launches on a GPU return before they are done."""
    cuda = late.torch().cuda
    if cuda.is_initialized():
        cuda.synchronize()


def eagerly(call: Callable[[], Any]) -> Way:
    """The same call with everything that is compiled switched off."""
    return Way(call, lambda: late.compiler().set_stance("force_eager"))


def plain(thing: Any) -> Any:
    """The function or module as it was before it was compiled."""
    if late.is_module(thing):
        thing = copy.deepcopy(thing)
        thing.__dict__.pop("forward", None)
        return thing
    return getattr(thing, "__wrapped__", thing)
