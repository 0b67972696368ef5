"""The evaluator: which frames it takes, which it leaves alone, and that it goes away again."""

from __future__ import annotations

import contextlib
import inspect
import sys
import traceback
from types import FunctionType
from typing import Any

import pytest
from framekit import OPTIONS, Misses, compiled, entry

from dynajit import frame


@pytest.fixture(autouse=True)
def _is_gone_afterwards() -> Any:
    yield
    assert frame.evaluator_users() == 0
    assert not frame.evaluator_installed()
    assert not frame.is_capturing()


def leaf(x):
    return ("leaf", x)


def fresh(fn: Any = leaf) -> Any:
    return FunctionType(fn.__code__.replace(), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


def asked_about(dispatcher: Any) -> list[str]:
    """The names of the functions it missed on."""
    return [code.co_name for code, _ in dispatcher.misses]


def call(fn, *args, **kwargs):
    return fn(*args, **kwargs)


def running(body: Any, *args: Any, answers: Any = (), **kwargs: Any) -> tuple[Any, Any]:
    """Run a body natively under a Dispatcher, so that its callees are intercepted."""
    frame.clear(body.__code__)
    dispatcher = compiled(body, None, *answers)
    return dispatcher(*args, **kwargs), dispatcher


def test_frames_of_callees_are_asked_about_once_each_call() -> None:
    inner = fresh()
    result, dispatcher = running(call, inner, 3)
    assert result == ("leaf", 3)
    assert dispatcher.misses == [(call.__code__, (inner, (3,), {})), (inner.__code__, (3,))]


def test_an_entry_is_used_for_a_callee() -> None:
    inner = fresh()
    frame.add(inner.__code__, entry(lambda x: ("replaced", x)))
    result, dispatcher = running(call, inner, 3)
    assert result == ("replaced", 3)
    assert asked_about(dispatcher) == ["call"]
    assert inner(3) == ("leaf", 3)


def test_an_entry_with_other_options_is_not() -> None:
    inner = fresh()
    frame.add(inner.__code__, entry(lambda x: ("replaced", x), options=object()))
    assert running(call, inner, 3)[0] == ("leaf", 3)


def test_arguments_of_all_kinds_arrive_in_slots() -> None:
    def many(a, b=2, *args, c, d=4, **kwargs):
        cell = [a, args]
        return (lambda: (a, b, args, c, d, kwargs, cell))()

    def replaced(a, b, c, d, args, kwargs):
        return a, b, c, d, args, kwargs

    def body():
        return many(1, c=3), many(1, 20, 5, 6, c=30, z=7)

    frame.add(many.__code__, entry(replaced))
    assert running(body)[0] == ((1, 2, 3, 4, (), {}), (1, 20, 30, 4, (5, 6), {"z": 7}))
    frame.clear(many.__code__)
    assert running(body)[0] == body()


def test_callees_of_callees_are_intercepted_and_missed_frames_run_on() -> None:
    def one(x):
        return two(x) + 1

    def two(x):
        return three(x) + 1

    def three(x):
        return x + 1

    result, dispatcher = running(one, 0)
    assert result == 3
    assert asked_about(dispatcher) == ["one", "two", "three"]


def test_a_replacement_that_breaks_has_its_callees_intercepted_and_another_has_not() -> None:
    inner = fresh()
    for breaks in (False, True):
        dispatcher = compiled(
            fresh(), entry(lambda x, inner: inner(x), [(-1, frame.CONST, inner, ())], [0], breaks=breaks)
        )
        assert dispatcher(1) == ("leaf", 1)
        assert asked_about(dispatcher) == ["leaf"] * (1 + breaks)


def test_a_guarded_skip_in_a_callee() -> None:
    def middle(x):
        return leaf(x)

    frame.add(middle.__code__, entry(None))
    result, dispatcher = running(call, middle, 1)
    assert result == ("leaf", 1)
    assert asked_about(dispatcher) == ["call", "leaf"]


def test_skipped_code_is_left_alone_and_its_callees_are_not() -> None:
    def middle(x):
        return leaf(x)

    frame.skip(middle.__code__)
    result, dispatcher = running(call, middle, 1)
    assert result == ("leaf", 1)
    assert asked_about(dispatcher) == ["call", "leaf"]


def test_on_miss_may_answer_for_a_callee() -> None:
    inner = fresh()
    result, dispatcher = running(lambda: [inner(1), inner(2)], answers=[entry(lambda x: ("replaced", x))])
    assert result == [("replaced", 1), ("replaced", 2)]
    assert len(dispatcher.misses) == 2


def test_on_miss_itself_is_not_intercepted() -> None:
    states = []

    def note(func, slots, options):
        states.append((frame.is_capturing(), frame.evaluator_installed(), leaf(1)))

    running(call, fresh(), 1, answers=[note])
    assert states == [(False, False, ("leaf", 1))]


def test_checks_are_not_intercepted() -> None:
    inner = fresh()
    frame.add(inner.__code__, entry(lambda x: "replaced", [(-1, frame.LOCAL, 0, ((frame.PREDICATE, helper),))]))
    result, dispatcher = running(call, inner, 1)
    assert result == "replaced"
    assert asked_about(dispatcher) == ["call"]


def helper(x):
    return leaf(x) is not None


def test_a_compiled_function_inside_uses_its_own_options_and_misses() -> None:
    inner = compiled(fresh(), entry(lambda x: ("inner", x), options="inner"), options="inner")
    result, dispatcher = running(lambda: (inner(1), leaf(2)))
    assert result == (("inner", 1), ("leaf", 2))
    assert len(inner.misses) == 1
    assert asked_about(dispatcher) == ["<lambda>", "leaf"]


# ---- frames that are left alone ----


def test_generators_and_coroutines() -> None:
    def generator(n):
        try:
            for i in range(n):
                got = yield leaf(i)
                if got:
                    yield ("got", got)
        finally:
            leaf("closed")

    async def coroutine():
        return leaf("c")

    def body():
        one = generator(3)
        values = [next(one), one.send("hello"), next(one)]
        with contextlib.suppress(LookupError):
            one.throw(LookupError)
        two = generator(1)
        next(two)
        two.close()
        three = generator(2)
        next(three)
        del three
        running = coroutine()
        try:
            running.send(None)
        except StopIteration as stop:
            values.append(stop.value)
        values.extend(leaf(i) for i in range(2))
        return values

    result, dispatcher = running(body)
    assert result == body()
    assert not {"generator", "coroutine", "<genexpr>"} & set(asked_about(dispatcher))
    assert "leaf" in asked_about(dispatcher)


def test_a_generator_suspended_inside_and_closed_outside() -> None:
    closed = []

    def generator():
        try:
            yield 1
        finally:
            closed.append(leaf(1))

    def body():
        one = generator()
        next(one)
        return one

    one = running(body)[0]
    del one
    assert closed == [("leaf", 1)]


def test_class_bodies_and_modules() -> None:
    def body():
        namespace: dict[str, Any] = {}
        exec("class A:\n    x = [i for i in range(3)]\n    def f(self): return self.x\nresult = A().f()", namespace)

        class Local:
            y = leaf(1)

        return namespace["result"], Local.y, eval("leaf(2)", {"leaf": leaf})

    result, dispatcher = running(body)
    assert result == ([0, 1, 2], ("leaf", 1), ("leaf", 2))
    assert not {"<module>", "A", "Local"} & set(asked_about(dispatcher))


def test_callbacks_from_c() -> None:
    def key(x):
        return -x

    result, dispatcher = running(lambda: sorted([1, 3, 2], key=key))
    assert result == [3, 2, 1]
    assert asked_about(dispatcher).count("key") == 3


# ---- exceptions ----


def test_exceptions_pass_through_frames_of_all_kinds() -> None:
    def fails(x):
        raise LookupError(x)

    replaced = fresh(fails)
    frame.add(replaced.__code__, entry(fails))

    def body():
        seen = []
        for fn in (fails, replaced):
            try:
                fn(1)
            except LookupError as error:
                seen.append([one.name for one in traceback.extract_tb(error.__traceback__)])
        return seen

    result, _ = running(body)
    assert result == [["body", "fails"], ["body", "fails"]]


def test_tracebacks_and_frames_look_as_without_us() -> None:
    def fails():
        frames = [one.function for one in inspect.stack(0)]
        raise LookupError(frames[:3])

    def middle():
        return fails()

    def names(fn: Any) -> Any:
        try:
            fn()
        except LookupError as error:
            return [one.name for one in traceback.extract_tb(error.__traceback__)], error.args

    expected = names(middle)
    frame.add(fails.__code__, entry(fails.__code__.replace()))
    assert names(compiled(middle)) == expected


def test_the_traceback_fixer_is_called_once_for_hidden_frames() -> None:
    seen = []

    def hidden():
        raise LookupError

    def inner():
        hidden()

    inner_compiled = compiled(inner)

    def outer():
        inner_compiled()

    def plain():
        raise LookupError

    frame.hide(hidden.__code__)
    frame.set_traceback_fixer(lambda error: seen.append(error.with_traceback(None)))
    try:
        assert frame.is_hidden(hidden.__code__)
        with pytest.raises(LookupError) as caught:
            compiled(outer)()
        assert len(seen) == 1
        assert caught.value is seen[0]
        assert len(traceback.extract_tb(caught.value.__traceback__)) == 1
        with pytest.raises(LookupError):
            compiled(plain)()
        assert len(seen) == 1
        frame.hide(hidden.__code__, False)
        with pytest.raises(LookupError):
            compiled(outer)()
        assert len(seen) == 1
    finally:
        frame.set_traceback_fixer(None)


# ---- switching off ----


def test_off_and_with_interception_off() -> None:
    def body():
        with frame.off():
            with frame.off():
                first = frame.is_capturing(), leaf(1)
            second = frame.is_capturing(), leaf(2)
        third = frame.is_capturing(), leaf(3)
        installed = frame.with_interception_off(frame.evaluator_installed), frame.evaluator_installed()
        return first, second, third, frame.with_interception_off(leaf, x=4), frame.is_capturing(), installed

    result, dispatcher = running(body)
    assert result == ((False, ("leaf", 1)), (False, ("leaf", 2)), (True, ("leaf", 3)), ("leaf", 4), True, (False, True))
    assert asked_about(dispatcher) == ["body", "leaf"]
    assert dispatcher.misses[1][1] == (3,)


def test_a_compiled_call_inside_off_intercepts_its_own_callees() -> None:
    inner = compiled(call)

    def body():
        with frame.off():
            return inner(leaf, 1)

    frame.clear(call.__code__)
    running(body)
    assert asked_about(inner) == ["call", "leaf"]


def test_off_left_open_does_not_outlive_the_call() -> None:
    def body():
        frame.off().__enter__()
        return leaf(1)

    running(body)
    with frame.off():
        pass
    assert asked_about(running(call, leaf, 1)[1]) == ["call", "leaf"]


# ---- tracing ----


def test_a_traced_call_is_the_original() -> None:
    dispatcher = compiled(fresh(), entry(lambda x: "replaced"))
    lines = []

    def trace(one: Any, event: str, arg: object) -> Any:
        lines.append((one.f_code.co_name, event))
        return trace

    assert dispatcher(1) == "replaced"
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert dispatcher(1) == ("leaf", 1)
    finally:
        sys.settrace(before)
    assert ("leaf", "line") in lines
    sys.setprofile(lambda *args: None)
    try:
        assert dispatcher(1) == ("leaf", 1)
    finally:
        sys.setprofile(None)
    assert dispatcher(1) == "replaced"


def test_tracing_begun_inside_is_respected() -> None:
    inner = fresh()
    frame.add(inner.__code__, entry(lambda x: "replaced"))

    def body():
        before = sys.gettrace()
        sys.settrace(lambda *args: None)
        try:
            return inner(1)
        finally:
            sys.settrace(before)

    assert running(body)[0] == ("leaf", 1)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is of 3.12")
def test_a_monitored_call_is_the_original() -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    dispatcher = compiled(fresh(), entry(lambda x: "replaced"))
    other = compiled(fresh(), entry(lambda x: "replaced"))
    assert dispatcher(1) == other(1) == "replaced"
    monitoring.use_tool_id(3, "test")
    try:
        monitoring.set_events(3, monitoring.events.PY_START)
        assert dispatcher(1) == ("leaf", 1)
        monitoring.set_events(3, 0)
        assert dispatcher(1) == "replaced"
        monitoring.set_local_events(3, dispatcher.__code__, monitoring.events.LINE)
        assert dispatcher(1) == ("leaf", 1)
        assert other(1) == "replaced"
        monitoring.set_local_events(3, dispatcher.__code__, 0)
        assert dispatcher(1) == "replaced"
    finally:
        monitoring.free_tool_id(3)


# ---- depth ----


def test_recursion_of_a_compiled_function_ends_in_recursion_error() -> None:
    namespace: dict[str, Any] = {}
    exec("def down(n): return again(n + 1)", namespace)
    namespace["again"] = dispatcher = compiled(namespace["down"])
    with pytest.raises(RecursionError):
        dispatcher(0)
    frame.skip(namespace["down"].__code__)
    with pytest.raises(RecursionError):
        dispatcher(0)


def test_recursion_in_callees_ends_in_recursion_error() -> None:
    def down(n):
        return down(n + 1)

    with pytest.raises(RecursionError):
        running(down, 0)


def test_recursion_goes_as_deep_as_without_us() -> None:
    def depth_of(n):
        return 0 if n == 0 else 1 + depth_of(n - 1)

    frame.skip(depth_of.__code__)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(60_000)
    try:
        expected = depth_of(50_000)
        assert compiled(lambda: depth_of(50_000))() == expected == 50_000
        frame.skip(depth_of.__code__, False)
        dispatcher = frame.Dispatcher(lambda: depth_of(50_000), OPTIONS, lambda *args: None)  # type: ignore[arg-type]
        assert dispatcher() == 50_000
    finally:
        sys.setrecursionlimit(before)


def test_a_compiled_recursion_with_a_high_limit_does_not_crash() -> None:
    namespace: dict[str, Any] = {}
    exec("def down(n): return 0 if n == 0 else 1 + again(n - 1)", namespace)
    fn = namespace["down"]
    namespace["again"] = dispatcher = frame.Dispatcher(fn, OPTIONS, Misses())
    frame.add(fn.__code__, entry(fn.__code__.replace()))
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000_000)
    try:
        assert dispatcher(300) == 300
        with pytest.raises(RecursionError):
            dispatcher(1_000_000)
        assert dispatcher(300) == 300
    finally:
        sys.setrecursionlimit(before)
