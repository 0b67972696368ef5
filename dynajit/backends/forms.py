"""The forms in which one graph was compiled, by the kind of its inputs: a call that fits none makes another."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from dynajit.errors import CompileError

MISS: Any = object()  # what a form returns whose kernels do not fit the arguments
Form = Callable[..., tuple[Any, ...]]
LIMIT = 8  # forms of one graph; beyond, arguments that fit none run the graph as it stands
REMEMBERED = 4096  # kinds of arguments


class Forms:
    """make: compile the graph for inputs like these, given the list in which kernels note that they did not fit.

    owned: forms take their arguments in a list that they may empty; `call_owned` is called the same way.
    """

    def __init__(self, whole: Form, make: Callable[[Sequence[Any], list[str]], Form], owned: bool = False) -> None:
        self.whole: Form = (lambda arguments: whole(*arguments)) if owned else whole
        self.make, self.owned = make, owned
        self.forms: list[Form] = []
        self.chosen: dict[Any, int] = {}
        self.missed: list[str] = []
        self.current = self.whole

    def adopt(self, kind: Any, form: Form) -> None:
        """One more form, for arguments of this kind. From another thread, too: the last store is what calls see."""
        self.forms.append(form)
        self._choose(kind, len(self.forms) - 1)

    def call(self, *args: Any) -> tuple[Any, ...]:
        results = self.current(*args)
        if results is MISS:
            return self._search(args)
        if self.missed:  # some kernel was replaced on the spot; the next such call shall have one that fits
            self.missed.clear()
            self._extend(args)
        return results

    def call_owned(self, arguments: list[Any]) -> tuple[Any, ...]:
        results = self.current(arguments)
        if results is MISS:  # then nothing was let go
            return self._search(tuple(arguments))
        self.missed.clear()  # what it would take to make another form is gone
        return results

    def _run(self, form: Form, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return form(list(args)) if self.owned else form(*args)

    def _search(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        known = self.chosen.get(kind_of(args))
        for position in [known] if known is not None else range(len(self.forms)):
            results = self._run(self.forms[position], args)
            if results is not MISS:
                self._choose(kind_of(args), position)
                return results
        if known is None and self._extend(args):
            results = self._run(self.current, args)
        return self._run(self.whole, args) if results is MISS else results

    def _extend(self, args: tuple[Any, ...]) -> bool:
        if len(self.forms) >= LIMIT or kind_of(args) in self.chosen:
            return False
        try:
            self.adopt(kind_of(args), self.make(args, self.missed))
        except CompileError:
            self.adopt(kind_of(args), self.whole)
        return True

    def sample(self, launches: Mapping[str, str], count: int) -> dict[str, list[float]]:
        """The seconds of the next `count` launches, by name of the kernel, and under "" of whole calls; they come in
        while the program runs, and then nothing is left in the way. launches: name of a launch -> name of its kernel.
        """
        times: dict[str, list[float]] = {}
        for scope in [
            form.__globals__ for form in self.forms if form is not self.whole and hasattr(form, "__globals__")
        ]:
            for name in launches.keys() & scope.keys():
                _sample(scope, name, times.setdefault(launches[name], []), count)
        _sample(vars(self), "current", times.setdefault("", []), count)
        return times

    def _choose(self, kind: Any, position: int) -> None:
        if len(self.chosen) < REMEMBERED:
            self.chosen[kind] = position
        self.current = self.forms[position]


def _sample(scope: dict[str, Any], name: str, times: list[float], count: int) -> None:
    """Put a stopwatch before the function `scope[name]` until it has `count` times."""
    function = getattr(scope[name], "sampled", scope[name])

    def call(*args: Any) -> Any:
        _wait(args)
        started = time.perf_counter()
        results = function(*args)
        _wait(args)
        times.append(time.perf_counter() - started)
        if len(times) >= count and scope[name] is call:
            scope[name] = function
        return results

    call.sampled = function  # type: ignore[attr-defined]
    scope[name] = call


def _wait(args: Sequence[Any]) -> None:
    """Launches on a GPU return before they are done."""
    if any(isinstance(x, torch.Tensor) and x.is_cuda for x in args):
        torch.cuda.synchronize()


def kind_of(args: Sequence[Any]) -> Any:
    """All that a compiled form may depend on."""
    return tuple((x.shape, x.stride(), x.dtype) if isinstance(x, torch.Tensor) else type(x) for x in args)
