"""What the frame tests share: replacements made by hand, and Dispatchers that count their misses."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any

from dynajit import frame

OPTIONS = object()
Nodes = Sequence[tuple[int, int, Any, Sequence[tuple[Any, ...]]]]


def flat(code: CodeType) -> CodeType:
    """The same body, taking its slots as positional arguments: what a replacement looks like."""
    varargs, varkw = bool(code.co_flags & inspect.CO_VARARGS), bool(code.co_flags & inspect.CO_VARKEYWORDS)
    slots = code.co_argcount + code.co_kwonlyargcount + varargs + varkw
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    return code.replace(co_argcount=slots, co_kwonlyargcount=0, co_posonlyargcount=0, co_flags=flags)


def entry(
    code: CodeType | Callable[..., Any] | None,
    nodes: Nodes = (),
    inputs: Sequence[int] = (),
    *,
    breaks: bool = False,
    options: object = OPTIONS,
    owner: object = None,
) -> frame.Entry:
    """An entry; without nodes its check always passes."""
    if isinstance(code, FunctionType):
        code = code.__code__
    assert code is None or isinstance(code, CodeType)
    return frame.Entry(frame.Check(nodes, inputs), code, options, breaks, owner)


class Misses(list[tuple[Any, ...]]):
    """An on_miss that records what it was asked and answers from a list, then with None."""

    def __init__(self, *answers: frame.Entry | Callable[..., frame.Entry | None] | None) -> None:
        super().__init__()
        self.answers = list(answers)

    def __call__(self, func: FunctionType, slots: tuple[Any, ...], options: object) -> frame.Entry | None:
        self.append((func.__code__, slots))
        answer = self.answers.pop(0) if self.answers else None
        return answer(func, slots, options) if isinstance(answer, FunctionType) else answer


def compiled(fn: FunctionType | Callable[..., Any], *answers: Any, options: object = OPTIONS) -> Any:
    """A Dispatcher; its misses are `result.misses`."""
    assert isinstance(fn, FunctionType)
    misses = Misses(*answers)
    result = frame.Dispatcher(fn, options, misses)
    result.misses = misses
    return result


def calling(nodes: Nodes, *slots: Any, inputs: Sequence[int] = (), func: Any = None) -> tuple[Any, ...] | None:
    """Run a check on its own."""
    return frame.Check(nodes, inputs).run(func if func is not None else compiled, slots)


def fetch(accessor: int, arg: Any, obj: Any) -> Any:
    """What an accessor finds in `obj`."""
    found = calling([(-1, frame.CONST, obj, ()), (0, accessor, arg, ())], inputs=[1])
    assert found is not None
    return found[0]


def holds(value: Any, *test: Any) -> bool:
    """Whether a test passes on `value`."""
    return calling([(-1, frame.CONST, value, (test,))]) is not None
