"""Entries live as long as their function: redefined cells, deleted models, unchanged cells."""

import gc
import linecache
import types
import weakref

import torch
from programs import T
from torch import nn

import dynajit
from dynajit import events, frame


def define(namespace, text, name="cell"):
    """Run a cell: the same text gives the same file name, as in a notebook kernel."""
    filename = f"<cell-{abs(hash(text))}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec"), namespace)
    return namespace


CELL = """
def f(x):
    y = helper(x)
    return y * 2
"""
HELPER = """
def helper(x):
    return x + {n}
"""


def test_an_unchanged_cell_is_free():
    namespace = define({"__name__": "cell"}, HELPER.format(n=1))
    added = []
    with events.subscribed(lambda e: added.append(e) if isinstance(e, events.EntryAdded) else None):
        for _ in range(50):
            define(namespace, CELL)
            f = dynajit.compile(namespace["f"], backend="eager")
            assert torch.equal(f(T(3)), (T(3) + 1) * 2)
            assert torch.equal(f(T(4)), (T(4) + 1) * 2)
    assert len(added) == 2
    assert len(frame.entries(namespace["f"].__code__)) == 2


def test_a_helper_cell_that_changes_is_honoured():
    namespace = define(define({"__name__": "cell"}, HELPER.format(n=0)), CELL)
    f = dynajit.compile(namespace["f"], backend="eager")
    for n in range(40):
        define(namespace, HELPER.format(n=n))
        assert torch.equal(f(T(3)), (T(3) + n) * 2)
    assert dynajit.report(f).status == "compiled"
    assert len(frame.entries(namespace["f"].__code__)) <= 2


def test_an_unchanged_helper_cell_costs_nothing():
    namespace = define(define({"__name__": "cell"}, HELPER.format(n=3)), CELL)
    f = dynajit.compile(namespace["f"], backend="eager")
    added = []
    with events.subscribed(lambda e: added.append(e) if isinstance(e, events.EntryAdded) else None):
        for _ in range(10):
            define(namespace, HELPER.format(n=3))
            f(T(3))
    assert len(added) == 1


def test_a_changed_cell_frees_the_old_entries():
    namespace = {"__name__": "cell"}
    codes = []
    for n in range(5):
        define(namespace, f"def f(x):\n    return x + {n}\n")
        f = dynajit.compile(namespace["f"], backend="eager")
        assert torch.equal(f(T(3)), T(3) + n)
        codes.append(weakref.ref(namespace["f"].__code__))
    del f
    gc.collect()
    assert [code() is None for code in codes] == [True, True, True, True, False]


def test_weights_are_freed_with_the_model():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            y = self.linear(x)
            dynajit.graph_break()
            return self.linear(y)

    for backend in ("eager", "native"):
        net = dynajit.compile(Net(), backend=backend)
        net(T(2, 3))
        refs = [weakref.ref(net), weakref.ref(net.linear.weight)]
        del net
        gc.collect()
        assert [ref() for ref in refs] == [None, None]


def test_a_deleted_function_is_freed():
    def make():
        def f(x):
            return x + 1

        return dynajit.compile(f, backend="eager")

    f = make()
    f(T(2))
    refs = [weakref.ref(f), weakref.ref(f.__wrapped__)]
    del f
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_the_arguments_are_not_kept():
    f = dynajit.compile(lambda x, xs: x + xs[0], backend="eager")
    x, y = T(3), T(3)
    f(x, [y])
    refs = [weakref.ref(x), weakref.ref(y)]
    del x, y
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_equal_code_on_other_lines_is_another_program():
    a = types.FunctionType(compile("def f(x):\n    return x + 1\n", "<a>", "exec").co_consts[0], {})
    b = types.FunctionType(compile("\n\ndef f(x):\n    return x + 1\n", "<a>", "exec").co_consts[0], {})
    fa, fb = dynajit.compile(a, backend="eager"), dynajit.compile(b, backend="eager")
    assert torch.equal(fa(T(2)), fb(T(2)))
    assert dynajit.report(fb).graphs[0].nodes[0].line == 4
    assert dynajit.report(fa).graphs[0].nodes[0].line == 2


def test_nothing_grows_with_redefinitions():
    """Code, graphs, guards and the texts that torch.fx keeps go with the function that they belong to."""
    source = """
def helper(x):
    return x * {k}

def f(x, n):
    y = helper(x) + x.shape[0]
    if n > 3:
        print(end="")
    return y * n
"""
    namespace = {}

    def redefine(number):
        exec(compile(source.format(k=number % 5 + 2), "<cell>", "exec"), namespace)
        compiled = dynajit.compile(namespace["f"], backend="eager")
        for size in (2, 3, 5):
            compiled(torch.ones(size), size)

    for number in range(40):
        redefine(number)
    gc.collect()
    before = len(gc.get_objects())
    for number in range(120):
        redefine(number)
    gc.collect()
    assert len(gc.get_objects()) - before < 120
