"""Tail calls: a replacement hands the rest of the function to the dispatch loop, and nothing grows."""

from __future__ import annotations

import gc
import os
import resource
import sys
import weakref
from types import CodeType
from typing import Any

import pytest
from framekit import compiled, entry

from dynajit import frame

CONST, LOCAL, EQUALS, PREDICATE = frame.CONST, frame.LOCAL, frame.EQUALS, frame.PREDICATE


def countdown(n, seen):
    raise AssertionError("never run natively here")


def rest(n, seen):
    """The resume function, when it is run as it is."""
    return ("natively", n, seen)


def step(n, seen, resume):
    return resume(n - 1, seen + 1)


def stop(n, seen):
    return ("stopped", n, seen)


def fresh(fn: Any) -> Any:
    """The function with a code object of its own."""
    return type(fn)(fn.__code__.replace(), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


GOING_ON = (frame.IS_NOT, 0)  # small integers are the same object everywhere


def resuming(code: CodeType, replacement: Any, **kwargs: Any) -> frame.Entry:
    """An entry whose replacement gets, behind its slots, a Resume of `code`; not for n == 0."""
    return entry(replacement, [(-1, CONST, frame.Resume(code), ()), (-1, LOCAL, 0, (GOING_ON,))], [0], **kwargs)


def loop(**kwargs: Any) -> Any:
    """A Dispatcher whose replacements go round until n is 0."""
    code = rest.__code__.replace()
    frame.add(code, resuming(code, step, **kwargs))
    frame.add(code, entry(stop, [(-1, LOCAL, 0, ((EQUALS, 0),))]))
    return compiled(fresh(countdown), resuming(code, step, **kwargs))


@pytest.mark.parametrize("breaks", [False, True])
def test_a_hundred_thousand_turns(breaks: bool) -> None:
    dispatcher = loop(breaks=breaks)
    assert dispatcher(1000, 0) == ("stopped", 0, 1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert dispatcher(100_000, 0) == ("stopped", 0, 100_000)
    if "DYNAJIT_FRAME_ASAN" not in os.environ:  # the address sanitizer keeps freed memory
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2048  # KiB
    assert len(dispatcher.misses) == 1
    assert not frame.evaluator_installed()


@pytest.mark.parametrize("breaks", [False, True])
def test_the_turns_do_not_nest(breaks: bool) -> None:
    depths = []

    def depth(value: object) -> bool:
        depth, one = 0, sys._getframe()
        while one is not None:
            depth, one = depth + 1, one.f_back  # type: ignore[assignment]
        depths.append(depth)
        return True

    code = rest.__code__.replace()
    nodes = [(-1, CONST, frame.Resume(code), ()), (-1, LOCAL, 0, (GOING_ON, (PREDICATE, depth)))]
    frame.add(code, entry(step, nodes, [0], breaks=breaks))
    frame.add(code, entry(stop, [(-1, LOCAL, 0, ((EQUALS, 0),))]))
    assert compiled(fresh(countdown), entry(step, nodes, [0], breaks=breaks))(50, 0) == ("stopped", 0, 50)
    assert len(depths) == 50
    assert len(set(depths)) == 1


def test_a_resume_function_that_misses_asks_with_its_own_function() -> None:
    code = rest.__code__.replace()
    dispatcher = compiled(fresh(countdown), resuming(code, step))
    assert dispatcher(5, 0) == ("natively", 4, 1)
    assert [asked for asked, _ in dispatcher.misses] == [dispatcher.__code__, code]
    assert dispatcher.misses[1] == (code, (4, 1))


def test_the_function_on_a_resume_miss_has_the_original_name_and_globals() -> None:
    seen: list[Any] = []

    def note(func, slots, options):
        seen.append(func)

    fn = fresh(countdown)
    fn.__name__, fn.__qualname__ = "short", "a.long.name"
    code = rest.__code__.replace()
    compiled(fn, resuming(code, step), note)(5, 0)
    (func,) = seen
    assert (func.__name__, func.__qualname__, func.__module__) == ("short", "a.long.name", fn.__module__)
    assert func.__globals__ is fn.__globals__
    assert func.__code__ is code


def test_a_resume_function_may_be_skipped_or_compiled_late() -> None:
    code = rest.__code__.replace()
    dispatcher = compiled(fresh(countdown), resuming(code, step), entry(stop))
    assert dispatcher(5, 0) == ("stopped", 4, 1)
    assert dispatcher(5, 0) == ("stopped", 4, 1)
    assert len(dispatcher.misses) == 2
    frame.skip(code)
    assert dispatcher(5, 0) == ("natively", 4, 1)


def test_cells_are_handed_over() -> None:
    def outer():
        total = 0

        def fn(n):
            nonlocal total
            total += n
            return total

        return fn

    def outer_rest():
        total = 0

        def fn(n, m):
            nonlocal total
            total += m
            return ("rest", n, total)

        return fn

    def outer_replacement():
        total = 0

        def fn(n, cell, resume):
            nonlocal total
            total += 100
            return resume(cell, n, 5)

        return fn

    fn, code = outer(), outer_rest().__code__
    nodes = [(-1, frame.FREE, 0, ()), (-1, CONST, frame.Resume(code), ())]
    dispatcher = compiled(fn, entry(outer_replacement().__code__, nodes, [0, 1]))
    assert dispatcher(1) == ("rest", 1, 105)
    assert dispatcher(1) == ("rest", 1, 210)
    assert fn(0) == 210


class Big:
    """Something whose death can be watched."""


def test_the_arguments_of_a_turn_die_before_the_next_one_runs() -> None:
    alive: list[Any] = []

    def make(value: object) -> Big:
        big = Big()
        alive.append(weakref.ref(big))
        return big

    def first(n, seen, resume, big):
        return resume(n, big)

    def again(n, seen, resume, big):
        return resume(n - 1, big)

    def check(value: object) -> bool:
        assert sum(one() is not None for one in alive) <= 1
        return True

    code = rest.__code__.replace()
    # The check of a turn runs before the turn makes its own object: only the one handed over is alive.
    nodes = [
        (-1, CONST, frame.Resume(code), ()),
        (-1, LOCAL, 0, (GOING_ON, (PREDICATE, check))),
        (1, frame.CALL, make, ()),
    ]
    frame.add(code, entry(again, nodes, [0, 2]))
    frame.add(code, entry(stop, [(-1, LOCAL, 0, ((EQUALS, 0),))]))
    compiled(fresh(countdown), entry(first, nodes, [0, 2]))(20, 0)
    assert len(alive) == 21


def test_a_tail_through_the_evaluator() -> None:
    code = rest.__code__.replace()
    inner = fresh(countdown)
    frame.add(code, resuming(code, step))
    frame.add(code, entry(stop, [(-1, LOCAL, 0, ((EQUALS, 0),))]))
    frame.add(inner.__code__, resuming(code, step))

    def outer(fn, n):
        return [fn(n, 0), fn(n, 1)]

    dispatcher = compiled(outer)
    assert dispatcher(inner, 3) == [("stopped", 0, 3), ("stopped", 0, 4)]
    assert [asked for asked, _ in dispatcher.misses] == [outer.__code__]


def test_an_exception_in_a_later_turn() -> None:
    def fails(n, seen):
        raise LookupError(n, seen)

    code = rest.__code__.replace()
    frame.add(code, entry(fails))
    dispatcher = compiled(fresh(countdown), resuming(code, step))
    with pytest.raises(LookupError) as caught:
        dispatcher(5, 0)
    assert caught.value.args == (4, 1)


def test_what_a_resume_says_and_refuses() -> None:
    resume = frame.Resume(rest.__code__, "owner")
    assert (resume.code, resume.owner, repr(resume)) == (rest.__code__, "owner", "<Resume rest>")
    assert type(resume(1, 2)) is frame.Tail
    with pytest.raises(TypeError, match="takes 0 cells and 2 arguments, 1 were given"):
        resume(1)
    with pytest.raises(TypeError, match="takes 0 cells"):
        resume(1, 2, seen=3)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="positional arguments only"):
        frame.Resume((lambda *args: 0).__code__)
    x = 1
    with pytest.raises(TypeError, match="must be a cell, not int"):
        frame.Resume((lambda: x).__code__)(1)
    with pytest.raises(TypeError):
        frame.Tail()


def test_nothing_is_left_behind() -> None:
    dispatcher = loop()
    dispatcher(10, 0)
    gc.collect()
    before = [sum(type(one) is kind for one in gc.get_objects()) for kind in (frame.Tail, type(fresh))]
    for _ in range(100):
        assert dispatcher(100, 0) == ("stopped", 0, 100)
    after = [sum(type(one) is kind for one in gc.get_objects()) for kind in (frame.Tail, type(fresh))]
    assert before == after
