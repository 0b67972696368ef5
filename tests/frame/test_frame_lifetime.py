"""Lifetime: nothing leaks, cycles are collected, and the interpreter may end at any moment."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
from framekit import OPTIONS, Misses, compiled, entry, flat

from dynajit import frame

LOCAL, CONST = frame.LOCAL, frame.CONST


class Watched:
    """Something whose death can be watched."""


def fresh(source: str = "def fn(x): return x", **names: Any) -> Any:
    """A function in a namespace of its own."""
    namespace = dict(names)
    exec(source, namespace)
    return namespace["fn"]


# ---- cycles ----


def test_a_compiled_function_that_refers_to_itself_is_collected() -> None:
    fn = fresh("def fn(n): return me(n - 1) if n else watched", watched=Watched())
    alive = weakref.ref(fn.__globals__["watched"])
    dispatcher = fn.__globals__["me"] = compiled(fn)
    nodes = [(-1, CONST, dispatcher, ()), (-1, frame.GLOBALS, None, ((frame.DICT_VALUES, {"me": dispatcher}),))]
    frame.add(fn.__code__, entry(fn.__code__.replace(), nodes, owner=[dispatcher, fn]))
    assert dispatcher(3) is alive()
    assert not dispatcher.misses
    del fn, dispatcher, nodes
    gc.collect()
    assert alive() is None


def test_the_cells_of_a_closure_do_not_outlive_it() -> None:
    def make(value: Any) -> Any:
        def fn(x):
            return value

        return fn

    code = make(0).__code__
    frame.add(code, entry(code.replace()))
    frame.add(compiled.__code__.replace(), entry(None))
    for _ in range(3):
        value = Watched()
        alive = weakref.ref(value)
        dispatcher = compiled(make(value))
        assert dispatcher(1) is value
        assert dispatcher(1) is value
        del value, dispatcher
        assert alive() is None


def test_two_compiled_functions_of_one_code_object_share_their_entries() -> None:
    fn = fresh()
    first = compiled(fn, entry(lambda x: "replaced"))
    assert first(1) == "replaced"
    del first
    gc.collect()
    second = compiled(fn)
    assert second(1) == "replaced"
    assert not second.misses


def test_entries_of_a_code_object_survive_a_collected_dispatcher_or_are_gone_cleanly() -> None:
    fn = fresh()
    dispatcher = compiled(fn, entry(lambda x: "replaced"))
    assert dispatcher(1) == "replaced"
    dispatcher.cycle = dispatcher
    del dispatcher
    gc.collect()
    again = compiled(fn, entry(lambda x: "again"))
    assert again(1) in ("replaced", "again")


def test_a_compiled_function_may_be_dropped_while_it_runs() -> None:
    namespace: dict[str, Any] = {}
    fn = fresh("def fn(x):\n    del space['d']\n    collect()\n    return x", space=namespace, collect=gc.collect)
    namespace["d"] = compiled(fn)
    call = "d(5)"
    assert eval(call, namespace) == 5
    fn = fresh("def fn(x): return x", space=namespace)
    code = fresh("def fn(x):\n    del space['d']\n    collect()\n    return 'replaced', x").__code__
    frame.add(fn.__code__, entry(code, breaks=True))
    fn.__globals__["collect"] = gc.collect
    namespace["d"] = compiled(fn)
    assert eval(call, namespace) == ("replaced", 5)


def test_entries_may_be_dropped_while_one_of_them_runs() -> None:
    fn = fresh()

    def replacement(x, clear, code, collect):
        clear(code)
        collect()
        return "replaced", x

    nodes = [(-1, CONST, value, ()) for value in (frame.clear, fn.__code__, gc.collect)]
    dispatcher = compiled(fn, entry(replacement, nodes, [0, 1, 2]))
    assert dispatcher(1) == ("replaced", 1)
    assert frame.entries(fn.__code__) == []
    assert dispatcher(1) == 1


def test_code_may_be_replaced_while_it_runs() -> None:
    fn = fresh("def fn(x):\n    me.__code__ = other\n    return x", other=(lambda x: "other").__code__)
    fn.__globals__["me"] = fn
    dispatcher = compiled(fn)
    assert dispatcher(1) == 1
    gc.collect()
    assert dispatcher(1) == "other"


# ---- leaks ----


def rounds(work: Any, watched: list[Any], count: int = 10_000) -> None:
    """Run something often; the reference counts of what it touches stay as they are."""
    for _ in range(3):
        work()
    gc.collect()
    before = [sys.getrefcount(one) for one in watched]
    objects = len(gc.get_objects())
    for _ in range(count):
        work()
    gc.collect()
    after = [sys.getrefcount(one) for one in watched]
    assert after == before
    assert abs(len(gc.get_objects()) - objects) < 50


def test_hits_leak_nothing() -> None:
    fn = fresh("def fn(a, b=2, *args, c=3, **kwargs): return a")
    options, x, extra = object(), Watched(), Watched()
    nodes = [
        (-1, LOCAL, 0, ((frame.TYPE_IS, Watched),)),
        (-1, CONST, extra, ()),
        (0, frame.DICT, None, ((frame.DICT_VALUES, {"a": frame.MISSING}),)),
        (0, frame.TYPE, None, ((frame.TYPE_ATTRS, {"a": frame.MISSING}),)),
        (0, frame.ATTR, "missing", ((frame.ABSENT,),)),
        (0, frame.CALL, lambda obj: [obj], ((frame.LENGTH, 1),)),
        (5, frame.ITEM, 0, ((frame.SAME, 0),)),
    ]
    made = entry(lambda a, b, c, args, kwargs, e, f: a, nodes, [1, 6], options=options)
    dispatcher = frame.Dispatcher(fn, options, Misses(made))
    watched = [fn, fn.__code__, options, x, extra, made, made.check, made.code, dispatcher, frame.MISSING, Watched]
    rounds(lambda: dispatcher(x, 1, x, z=x), watched)
    assert made.hits == 10_003


def test_misses_and_failures_leak_nothing() -> None:
    fn = fresh("def fn(x): return x")
    x = Watched()
    graph = frame.GraphCall(lambda value: value.nothing, True)
    made = entry(lambda x, g: g(x), [(-1, CONST, graph, ()), (-1, LOCAL, 0, ((frame.IS_NOT, None),))], [0])
    dispatcher = frame.Dispatcher(fn, OPTIONS, lambda *args: None)
    frame.add(fn.__code__, made)
    watched = [fn, fn.__code__, x, graph, made, dispatcher]
    rounds(lambda: (dispatcher(x), dispatcher(None)), watched)
    assert graph.failures == 10_003


def test_errors_leak_nothing() -> None:
    fn = fresh("def fn(x, *, y=1): raise LookupError(x)")
    dispatcher = compiled(fn, entry(flat(fn.__code__)))
    x = Watched()

    def work() -> None:
        for kwargs in ({}, {"y": 2}, {"z": 1}, {"x": 1}):
            with pytest.raises((LookupError, TypeError)):
                dispatcher(x, **kwargs)

    rounds(work, [fn, fn.__code__, x, dispatcher], 1000)


def test_the_evaluator_leaks_nothing() -> None:
    leaf = fresh("def fn(a, b=2, *args, **kwargs):\n    if a is None: raise LookupError\n    return [lambda: a]")
    replaced = fresh("def fn(a, b=2, *args, **kwargs): return a")
    unbound = fresh("def fn(a):\n    if a is None:\n        b = a\n    return b")
    frame.add(replaced.__code__, entry(flat(replaced.__code__.replace())))
    x = Watched()

    def body():
        leaf(x, 1, x, k=x)
        replaced(x, 1, x, k=x)
        for fn in (leaf, unbound):
            with contextlib.suppress(LookupError, UnboundLocalError):
                fn(None if fn is leaf else x)
        return sum(1 for one in (x, x) if one)

    dispatcher = frame.Dispatcher(body, OPTIONS, lambda *args: None)  # type: ignore[arg-type]
    watched = [leaf, leaf.__code__, replaced, replaced.__code__, unbound, x, dispatcher, body.__code__]
    rounds(dispatcher, watched, 3000)


def test_tails_leak_nothing() -> None:
    def outer(cell):
        def fn(x):
            return cell

        def rest(y):
            return cell, y

        def replacement(x, c, resume):
            return resume(c, cell and x)

        return fn, rest, replacement

    value = Watched()
    fn, rest, replacement = outer(value)
    resume = frame.Resume(rest.__code__)
    frame.add(fn.__code__, entry(replacement.__code__, [(-1, frame.FREE, 0, ()), (-1, CONST, resume, ())], [0, 1]))
    dispatcher = frame.Dispatcher(fn, OPTIONS, lambda *args: None)
    x = Watched()
    assert dispatcher(x) == (value, x)
    cell = fn.__closure__[0]
    rounds(lambda: dispatcher(x), [fn, fn.__code__, rest.__code__, resume, value, x, cell, dispatcher])


def test_making_and_dropping_everything_leaks_nothing() -> None:
    options, x = object(), Watched()

    def work() -> None:
        fn = fresh()
        made = entry(fn.__code__.replace(), [(-1, CONST, x, ((frame.EQUALS, (1, x)),))], options=options, owner=x)
        frame.add(fn.__code__, made)
        frame.hide(fn.__code__)
        dispatcher = frame.Dispatcher(fn, options, lambda *args: None)
        dispatcher(1)
        frame.Resume(fn.__code__, x)(x)
        frame.GraphCall(fn, True)(x)
        with pytest.raises(ValueError, match="no node"):
            frame.Check([(-1, CONST, x, ((frame.STATE, ((gc.collect, x),)), (frame.DICT_VALUES, {"a": x})))], [5])

    rounds(work, [options, x], 1000)


# ---- the end of the interpreter ----

PRELUDE = f"""
import sys, types
sys.path.insert(0, {str(Path(__file__).parent)!r})
package = types.ModuleType("dynajit")
package.__path__ = {list(sys.modules["dynajit"].__path__)!r}
sys.modules["dynajit"] = package
from framekit import *
"""

ENDS = {
    "a suspended generator": """
def generator():
    try:
        yield 1
    finally:
        print("closed")

def body():
    global kept
    kept = generator()
    next(kept)
    for _ in range(2):
        len([i for i in range(3)])

compiled(body)()
""",
    "exit inside": """
def leaf():
    sys.exit(0)

def body():
    leaf()

compiled(body)()
""",
    "a thread that is still inside": """
import threading, time

def leaf():
    while True:
        time.sleep(0.001)

def body():
    leaf()

threading.Thread(target=compiled(body), daemon=True).start()
time.sleep(0.05)
assert frame.evaluator_installed()
""",
    "atexit": """
import atexit

def leaf(x):
    return x

def body():
    return leaf(1)

atexit.register(compiled(body))
""",
    "entries in modules": """
def fn(x):
    return x

fn = compiled(fn, entry(lambda x: x, owner=[sys.modules]))
fn(1)
class Last:
    def __del__(self):
        fn(1)
last = Last()
sys.kept = last
""",
    "everything at once": """
import gc

def fn(x):
    return x

holder = [compiled(fn, entry(lambda x: x)) for _ in range(10)]
for one in holder:
    one(1)
    one.holder = holder
gc.disable()
""",
}


@pytest.mark.parametrize("name", ENDS)
def test_the_interpreter_ends_cleanly(name: str) -> None:
    done = subprocess.run([sys.executable, "-X", "dev", "-c", PRELUDE + ENDS[name]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_a_sub_interpreter_is_refused() -> None:
    program = """
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
one = interpreters.create()
result = interpreters.run_string(one, '''
try:
    import dynajit.frame._hook
except ImportError as error:
    print("refused")
''')
print(result)
"""
    program = PRELUDE + program.replace("import dynajit.frame._hook", import_of_hook())
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "refused"


def import_of_hook() -> str:
    path = list(sys.modules["dynajit"].__path__)
    return (
        "import sys, types; p = types.ModuleType('dynajit'); "
        f"p.__path__ = {path!r}; sys.modules['dynajit'] = p; import dynajit.frame._hook"
    )


# ---- threads ----


def test_eight_threads() -> None:
    def leaf(x):
        return x + 1

    def replaced(x):
        return x + 1

    def body(n):
        total = 0
        for i in range(n):
            total += leaf(i) + replaced(i)
        return total

    frame.add(replaced.__code__, entry(replaced.__code__.replace()))
    expected = body(300)
    errors: list[BaseException] = []
    plain_capturing = []

    def work(index: int) -> None:
        try:
            for _ in range(20):
                if index % 4 == 3:  # a thread that runs no compiled code is not intercepted
                    plain_capturing.append(frame.is_capturing())
                    assert body(300) == expected
                else:
                    misses = Misses()
                    dispatcher = frame.Dispatcher(body, OPTIONS, misses)  # type: ignore[arg-type]
                    assert dispatcher(300) == expected
                    assert len(misses) == 301
                    assert not frame.is_capturing()
        except BaseException as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not errors
    assert not any(plain_capturing)
    assert frame.evaluator_users() == 0
    assert not frame.evaluator_installed()


def test_one_compiled_function_in_many_threads_with_entries_that_come_and_go() -> None:
    fn = fresh("def fn(x): return x")
    dispatcher = frame.Dispatcher(fn, OPTIONS, lambda func, slots, options: when(slots[0] % 3))
    stop = threading.Event()
    errors: list[BaseException] = []

    def when(rest: int) -> frame.Entry:
        nodes = [(-1, LOCAL, 0, ((frame.PREDICATE, lambda x: x % 3 == rest),)), (-1, CONST, rest, ())]
        return entry(lambda x, rest: x if x % 3 == rest else -1, nodes, [1])

    def work() -> None:
        try:
            for i in range(2000):
                assert dispatcher(i) == i
        except BaseException as error:
            errors.append(error)

    def clear() -> None:
        while not stop.is_set():
            frame.clear(fn.__code__)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        workers = [threading.Thread(target=work) for _ in range(4)]
        cleaner = threading.Thread(target=clear)
        for thread in [*workers, cleaner]:
            thread.start()
        for thread in workers:
            thread.join()
        stop.set()
        cleaner.join()
    finally:
        sys.setswitchinterval(before)
    assert not errors


def test_a_function_in_a_small_thread_stack() -> None:
    def down(n):
        return down(n + 1)

    results = []

    def work() -> None:
        limit = sys.getrecursionlimit()
        try:
            compiled(down)(0)
        except RecursionError:
            results.append("ended")
        assert limit == sys.getrecursionlimit()

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert results == ["ended"]
