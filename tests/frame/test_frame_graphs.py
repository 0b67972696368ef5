"""GraphCall: swapping what is called, and running natively when a pure graph fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from framekit import compiled, entry

from dynajit import frame


def fresh() -> Any:
    namespace: dict[str, Any] = {}
    exec("def fn(x): return ('natively', x)", namespace)
    return namespace["fn"]


def calls_graph(x, graph):
    return graph(x)


def through(graph: frame.GraphCall, replacement: Callable[..., Any] = calls_graph, **kwargs: Any) -> Any:
    return compiled(fresh(), entry(replacement, [(-1, frame.CONST, graph, ())], [0], **kwargs))


def fails(x):
    raise RuntimeError("graph")


def test_forwards_and_counts() -> None:
    graph = frame.GraphCall(lambda *args, **kwargs: (args, kwargs), True, "g")
    assert graph(1, 2, k=3) == ((1, 2), {"k": 3})
    assert (graph.calls, graph.failures, graph.label, graph.pure) == (1, 0, "g", True)
    assert repr(graph) == "<GraphCall g, 1 calls>"


def test_fn_may_be_swapped_while_it_runs() -> None:
    def first(x):
        graph.fn = second
        return ("first", x)

    def second(x):
        return ("second", x)

    graph = frame.GraphCall(first, True)
    del first
    assert [graph(1), graph(1)] == [("first", 1), ("second", 1)]
    with pytest.raises(AttributeError):
        del graph.fn


def test_a_graph_that_fails_is_not_repeated_against_the_will_of_the_observer() -> None:
    frame.set_observer(lambda what, subject, detail: what != "graph raised")
    try:
        graph = frame.GraphCall(fails, True)
        with pytest.raises(RuntimeError, match="graph"):
            through(graph)(1)
    finally:
        frame.set_observer(None)
    assert (graph.calls, graph.failures) == (1, 0)


def test_a_pure_graph_that_fails_is_run_natively() -> None:
    seen = []
    frame.set_observer(lambda *what: seen.append(what))
    try:
        graph = frame.GraphCall(fails, True)
        dispatcher = through(graph)
        assert [dispatcher(1), dispatcher(2)] == [("natively", 1), ("natively", 2)]
    finally:
        frame.set_observer(None)
    assert (graph.calls, graph.failures) == (2, 2)
    told = [("graph raised", graph, "graph"), ("graph failed", graph, "graph")]
    assert [(what, subject, str(error)) for what, subject, error in seen] == told * 2
    assert len(dispatcher.misses) == 1


def test_an_impure_graph_that_fails_raises() -> None:
    graph = frame.GraphCall(fails, False)
    with pytest.raises(RuntimeError, match="graph"):
        through(graph)(1)
    assert graph.failures == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_always_goes_on(error: type[BaseException]) -> None:
    def raises(x):
        raise error

    with pytest.raises(error):
        through(frame.GraphCall(raises, True))(1)


def test_a_graph_outside_of_a_call_just_raises() -> None:
    graph = frame.GraphCall(fails, True)
    with pytest.raises(RuntimeError):
        graph(1)
    assert graph.failures == 0


def test_an_exception_of_user_code_is_not_taken_for_the_graphs() -> None:
    def catches_and_raises(x, graph):
        try:
            graph(x)
        except RuntimeError:
            raise LookupError(x) from None

    def catches(x, graph):
        try:
            return graph(x)
        except RuntimeError:
            return "caught"

    with pytest.raises(LookupError):
        through(frame.GraphCall(fails, True), catches_and_raises)(1)
    assert through(frame.GraphCall(fails, True), catches)(1) == "caught"


def test_deoptimising_a_nested_call_concerns_that_call_only() -> None:
    inner = through(frame.GraphCall(fails, True))

    def outer_replacement(x, inner):
        return ("outer", inner(x))

    outer = compiled(fresh(), entry(outer_replacement, [(-1, frame.CONST, inner, ())], [0], breaks=True))
    assert outer(1) == ("outer", ("natively", 1))

    def native_fails(x):
        raise ZeroDivisionError

    failing = compiled(native_fails, entry(calls_graph, [(-1, frame.CONST, frame.GraphCall(fails, True), ())], [0]))
    outer = compiled(fresh(), entry(outer_replacement, [(-1, frame.CONST, failing, ())], [0], breaks=True))
    with pytest.raises(ZeroDivisionError):
        outer(1)


def test_deoptimising_in_a_resume_function_runs_that_function() -> None:
    def rest(x, y):
        return ("rest natively", x, y)

    def rest_replacement(x, y, graph):
        return graph(x)

    def first(x, resume):
        return resume(x, 2)

    code = rest.__code__
    frame.add(code, entry(rest_replacement, [(-1, frame.CONST, frame.GraphCall(fails, True), ())], [0]))
    dispatcher = compiled(fresh(), entry(first, [(-1, frame.CONST, frame.Resume(code), ())], [0]))
    assert dispatcher(1) == ("rest natively", 1, 2)


def test_keyword_calls_are_deoptimised_as_written() -> None:
    def fn(x, *rest, key=1, **others):
        return ("natively", x, rest, key, others)

    def replacement(x, key, rest, others, graph):
        others["added"] = 1
        return graph(x)

    nodes = [(-1, frame.CONST, frame.GraphCall(fails, True), ())]
    assert compiled(fn, entry(replacement, nodes, [0]))(1, 2, key=3, z=4) == ("natively", 1, (2,), 3, {"z": 4})


def test_interception_is_off_while_a_graph_runs() -> None:
    states = []

    def graph_function(x):
        states.append((frame.is_capturing(), frame.evaluator_installed()))
        return x

    def replacement(x, graph, capturing, installed):
        return capturing(), installed(), graph(x), capturing(), installed()

    values = frame.GraphCall(graph_function, True), frame.is_capturing, frame.evaluator_installed
    nodes = [(-1, frame.CONST, value, ()) for value in values]
    dispatcher = compiled(fresh(), entry(replacement, nodes, [0, 1, 2], breaks=True))
    assert dispatcher(1) == (True, True, 1, True, True)
    assert states == [(False, False)]
