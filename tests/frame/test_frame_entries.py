"""Entries: hits and misses, their order, what is kept with a code object and for how long."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
from framekit import OPTIONS, compiled, entry

from dynajit import frame

LOCAL, EQUALS, TYPE_IS = frame.LOCAL, frame.EQUALS, frame.TYPE_IS


def fresh() -> FunctionType:
    """A function with a code object of its own."""
    namespace: dict[str, Any] = {}
    exec("def fn(x, y=0):\n    'adds'\n    return x + y", namespace)
    result = namespace["fn"]
    assert isinstance(result, FunctionType)
    return result


def answer(text: str) -> Callable[..., Any]:
    """Replacement code that returns `text`."""
    namespace: dict[str, Any] = {}
    exec(f"def {text}(x, y): return {text!r}", namespace)
    result: Callable[..., Any] = namespace[text]
    return result


def when(value: object, text: str, **kwargs: Any) -> frame.Entry:
    return entry(answer(text), [(-1, LOCAL, 0, ((EQUALS, value),))], **kwargs)


def test_a_miss_asks_once_and_a_hit_does_not() -> None:
    fn = fresh()
    dispatcher = compiled(fn, when(1, "one"), when(2, "two"))
    assert [dispatcher(1), dispatcher(2), dispatcher(1), dispatcher(2)] == ["one", "two", "one", "two"]
    assert len(dispatcher.misses) == 2
    assert sorted(e.hits for e in frame.entries(fn.__code__)) == [2, 2]


def test_none_runs_the_original() -> None:
    dispatcher = compiled(fresh())
    assert dispatcher(1, 2) == 3
    assert dispatcher(1, 2) == 3
    assert len(dispatcher.misses) == 2


def test_an_entry_without_code_runs_the_original_without_asking_again() -> None:
    fn = fresh()
    dispatcher = compiled(fn, entry(None))
    assert [dispatcher(1, 2), dispatcher(3, 4)] == [3, 7]
    assert len(dispatcher.misses) == 1
    assert frame.entries(fn.__code__)[0].hits == 2


def test_entries_stand_most_recently_hit_first() -> None:
    fn = fresh()
    made = [when(i, f"v{i}") for i in range(6)]
    for one in made:
        frame.add(fn.__code__, one)
    dispatcher = compiled(fn)
    assert frame.entries(fn.__code__) == made[::-1]
    assert dispatcher(2) == "v2"
    assert frame.entries(fn.__code__) == [made[i] for i in (2, 5, 4, 3, 1, 0)]
    assert dispatcher(0) == "v0"
    assert frame.entries(fn.__code__) == [made[i] for i in (0, 2, 5, 4, 3, 1)]
    assert not dispatcher.misses


def test_add_is_idempotent_and_remove_says_what_it_did() -> None:
    code = fresh().__code__
    one = when(1, "one")
    frame.add(code, one)
    frame.add(code, one)
    assert frame.entries(code) == [one]
    assert frame.remove(code, one) is True
    assert frame.remove(code, one) is False
    assert frame.entries(code) == []
    frame.add(code, one)
    frame.clear(code)
    frame.clear(fresh().__code__)
    assert frame.entries(code) == []


def test_an_entry_made_by_on_miss_is_kept_whether_on_miss_added_it_or_not() -> None:
    fn = fresh()

    def adding(func, slots, options):
        made = when(1, "one")
        frame.add(func.__code__, made)
        return made

    dispatcher = compiled(fn, adding)
    assert [dispatcher(1), dispatcher(1)] == ["one", "one"]
    assert len(frame.entries(fn.__code__)) == 1


def test_an_entry_that_does_not_fit_its_call_runs_the_original_and_is_reported() -> None:
    seen = []
    frame.set_observer(lambda *what: seen.append(what))
    try:
        made = when(2, "two")
        assert compiled(fresh(), made)(1, 5) == 6
    finally:
        frame.set_observer(None)
    assert seen == [("entry does not fit", made, (1, 5))]


def test_options_are_compared_by_identity() -> None:
    fn = fresh()
    first, second = [1], [1]
    one = compiled(fn, when(1, "one", options=first), options=first)
    two = compiled(fn, when(1, "two", options=second), options=second)
    assert [one(1), two(1), one(1), two(1)] == ["one", "two", "one", "two"]
    assert len(one.misses) == len(two.misses) == 1


def test_code_objects_are_told_apart_by_identity() -> None:
    first, second = fresh(), fresh()
    assert first.__code__ == second.__code__
    frame.add(first.__code__, when(1, "one"))
    assert frame.entries(second.__code__) == []
    assert frame.entries(first.__code__.replace()) == []


def test_skip_runs_natively_without_asking() -> None:
    fn = fresh()
    dispatcher = compiled(fn, when(1, "one"))
    assert not frame.is_skipped(fn.__code__)
    frame.skip(fn.__code__)
    assert frame.is_skipped(fn.__code__)
    assert dispatcher(1) == 1
    assert not dispatcher.misses
    frame.skip(fn.__code__, on=False)
    assert dispatcher(1) == "one"
    frame.skip(fresh().__code__, False)


def test_entries_die_with_the_code_object() -> None:
    class Owner:
        pass

    owner = Owner()
    alive = weakref.ref(owner)
    fn = fresh()
    frame.add(fn.__code__, when(1, "one", owner=owner))
    del owner
    gc.collect()
    assert alive() is not None
    del fn
    gc.collect()
    assert alive() is None


def test_what_an_entry_says() -> None:
    check = frame.Check([])
    code = answer("a").__code__
    owner = object()
    made = frame.Entry(check, code, OPTIONS, True, owner)
    assert (made.check, made.code, made.options, made.breaks, made.owner, made.hits) == (
        check,
        code,
        OPTIONS,
        True,
        owner,
        0,
    )
    made.hits = 7
    assert repr(made) == "<Entry a, 7 hits>"
    with pytest.raises(AttributeError):
        made.breaks = False  # type: ignore[misc]


def test_replacements_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must take 3 arguments \(2 slots, 1 inputs\), not 2"):
        frame.add(fresh().__code__, entry(lambda a, b: 0, [(-1, LOCAL, 0, ())], [0]))
    with pytest.raises(ValueError, match="positional arguments only"):
        entry(lambda *args: 0)
    with pytest.raises(ValueError, match="positional arguments only"):
        entry(lambda a: (yield))
    with pytest.raises(TypeError, match="code object or None"):
        frame.Entry(frame.Check([]), 3, OPTIONS)  # type: ignore[arg-type]
    x = 1
    with pytest.raises(ValueError, match="free variables"):
        frame.add(fresh().__code__, entry(lambda a, b: x))
    with pytest.raises(TypeError, match="Entry or None"):
        compiled(fresh(), 3)(1)
    with pytest.raises(ValueError, match="other options"):
        compiled(fresh(), when(1, "one", options=[]))(1)


def test_on_miss_may_raise() -> None:
    def fails(func, slots, options):
        raise LookupError("no")

    dispatcher = compiled(fresh(), fails)
    with pytest.raises(LookupError, match="no"):
        dispatcher(1)
    assert dispatcher(1) == 1


def test_a_compiled_function_called_while_compiling_runs_natively() -> None:
    inner = compiled(fresh(), when(1, "one"))

    def asks(func, slots, options):
        assert inner(1) == 1
        return None

    outer = compiled(fresh(), asks)
    outer(5)
    assert not inner.misses
    assert inner(1) == "one"


def test_the_list_may_change_while_it_is_searched() -> None:
    fn = fresh()
    code = fn.__code__

    def clears(value):
        frame.clear(code)
        frame.add(code, when(1, "late"))
        return False

    for i in range(3):
        frame.add(code, when(i + 10, f"v{i}"))
    frame.add(code, entry(answer("never"), [(-1, LOCAL, 0, ((frame.PREDICATE, clears),))]))
    assert compiled(fn)(1) == "late"


def test_a_closure_is_passed_to_the_replacement() -> None:
    def outer(n):
        def inner(x):
            return x + n

        return inner

    def outer_replacement(n):
        def inner(x, extra):
            return ("replaced", x + n, extra)

        return inner

    code = outer_replacement(0).__code__
    first, second = outer(1), outer(2)
    one, two = compiled(first, entry(code, [(-1, frame.CONST, "in", ())], [0])), compiled(second)
    for _ in range(3):
        assert one(10) == ("replaced", 11, "in")
        assert two(10) == ("replaced", 12, "in")
    assert not two.misses


def test_the_replacement_has_globals_builtins_and_name_of_the_original() -> None:
    namespace = {"value": "of the original", "__builtins__": {"len": lambda x: "my len"}, "__name__": "elsewhere"}
    exec("def fn(x): return value", namespace)
    other: dict[str, Any] = {"value": "of the replacement"}
    exec("def replacement(x): return value, len(x)", other)
    fn: Any = namespace["fn"]
    assert compiled(fn, entry(other["replacement"]))("abc") == ("of the original", "my len")


def test_reassigning_code_is_noticed() -> None:
    fn = fresh()
    dispatcher = compiled(fn, when(1, "one"))
    assert dispatcher(1) == "one"
    fn.__code__ = (lambda x, y: "new").__code__
    assert dispatcher(1) == "new"
    dispatcher.__code__ = (lambda x, y: "newer").__code__
    assert fn(1) == dispatcher(1) == "newer"


# ---- the Dispatcher as an object ----


def test_it_looks_like_the_function() -> None:
    fn = fresh()
    fn.mark = "m"  # type: ignore[attr-defined]
    dispatcher = compiled(fn)
    assert dispatcher.__wrapped__ is fn
    assert dispatcher.__name__ == dispatcher.__qualname__ == "fn"
    assert dispatcher.__doc__ == "adds"
    assert dispatcher.__module__ == fn.__module__
    assert dispatcher.__code__ is fn.__code__
    assert dispatcher.mark == "m"
    assert inspect.signature(dispatcher) == inspect.signature(fn)
    assert repr(dispatcher) == "<dynajit.compiled fn>"
    assert dispatcher.__dynajit_options__ is OPTIONS
    with pytest.raises(AttributeError, match="nowhere"):
        dispatcher.nowhere  # noqa: B018


def test_attributes_written_are_its_own() -> None:
    fn = fresh()
    dispatcher = compiled(fn)
    dispatcher.note = 1
    dispatcher.__doc__ = "new"
    dispatcher.__name__ = "other"
    assert (dispatcher.note, dispatcher.__doc__, dispatcher.__name__) == (1, "new", "other")
    assert not hasattr(fn, "note")
    assert fn.__doc__ == "adds"
    assert dispatcher.__dict__["note"] == 1
    del dispatcher.note
    del dispatcher.__doc__
    assert dispatcher.__doc__ == "adds"
    assert not hasattr(dispatcher, "note")


def test_weak_references_and_hash() -> None:
    dispatcher = compiled(fresh())
    alive = weakref.ref(dispatcher)
    assert {dispatcher: 1}[dispatcher] == 1
    assert dispatcher != compiled(fresh())
    del dispatcher
    gc.collect()
    assert alive() is None


def remake(fn: FunctionType) -> Any:
    return compiled(fn)


def a_global_function(x):
    return x


def test_pickle_and_copy_go_through_the_reducer() -> None:
    dispatcher = compiled(a_global_function)
    with pytest.raises(TypeError, match="set_reducer"):
        pickle.dumps(dispatcher)
    frame.set_reducer(lambda d: (remake, (d.__wrapped__,)))
    try:
        again = pickle.loads(pickle.dumps(dispatcher))
        assert again.__wrapped__ is a_global_function
        assert copy.deepcopy(dispatcher).__wrapped__ is a_global_function
        assert copy.copy(dispatcher)(3) == 3
    finally:
        frame.set_reducer(None)


def test_only_functions_are_wrapped() -> None:
    with pytest.raises(TypeError):
        frame.Dispatcher(len, OPTIONS, lambda *args: None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="on_miss"):
        frame.Dispatcher(fresh(), OPTIONS, 3)  # type: ignore[arg-type]
