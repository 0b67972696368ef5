"""What the user says about functions, calls and the process: marks, stances, the switch in the environment."""

import os
import subprocess
import sys

import pytest
import torch
from programs import T

import dynajit
from dynajit import CompileError, events


class Counter:
    """How often its methods ran in Python."""

    calls = 0


def made(seen):
    return sum(isinstance(event, events.EntryAdded) for event in seen)


def breaks(seen):
    return [e.record.end.reason.code for e in seen if isinstance(e, events.EntryAdded) and e.record.end is not None]


@pytest.fixture
def seen():
    dynajit.reset()
    found: list[events.Event] = []
    with events.subscribed(found.append):
        yield found
    dynajit.set_stance("default")


def test_allow_in_graph(seen):
    @dynajit.allow_in_graph
    def strange(x, scale=1.0):
        Counter.calls += 1
        return torch.from_numpy(x.numpy() * 2) * scale if x.device.type == "cpu" else torch.empty_like(x)

    graphs = []

    def backend(gm, examples):
        graphs.append(gm)
        return gm.forward

    @dynajit.compile(backend=backend)
    def f(x):
        return strange(x + 1, scale=3.0) + 1

    assert torch.equal(f(T(3)), (T(3) + 1) * 2 * 3 + 1)
    assert breaks(seen) == []
    assert [node.target for node in graphs[0].graph.nodes if node.target is strange] == [strange]


def test_allow_in_graph_with_a_result_that_meta_tensors_cannot_tell(seen):
    @dynajit.allow_in_graph
    def strange(x):
        return x[x > 0]

    @dynajit.compile(backend="eager")
    def f(x):
        return strange(x + 1) + 1

    for _ in range(2):
        assert torch.equal(f(T(9)), (T(9) + 1)[T(9) + 1 > 0] + 1)


def test_disallow_in_graph(seen):
    @dynajit.disallow_in_graph
    def forbidden(x):
        return x + 1

    @dynajit.compile(backend="eager")
    def f(x):
        return forbidden(x * 2) * 3

    assert torch.equal(f(T(3)), (T(3) * 2 + 1) * 3)
    assert breaks(seen) == ["DJ-B006"]


def test_assume_constant_result(seen):
    runs = []

    class Settings:
        rate = 2.5

        @dynajit.assume_constant_result
        def read(self, name):
            runs.append(name)
            return getattr(self, name)

    @dynajit.assume_constant_result
    def table():
        runs.append("table")
        return torch.arange(3.0)

    @dynajit.compile(backend="eager", fullgraph=True)
    def f(x, settings):
        return x * settings.read("rate") + table()

    settings = Settings()
    for _ in range(3):
        assert torch.equal(f(T(3), settings), T(3) * 2.5 + torch.arange(3.0))
    assert runs == ["rate", "table"]
    assert made(seen) == 1

    @dynajit.assume_constant_result
    def of_a_tensor(x):
        return float(x.sum())

    @dynajit.compile(backend="eager", fullgraph=True)
    def g(x):
        return x * of_a_tensor(x.add_(1) * 2)

    for _ in range(2):
        assert torch.equal(g(T(3)), (T(3) + 1) * float((T(3) + 1).mul(2).sum()))


def test_stances(seen):
    python = []

    @dynajit.compile(backend="eager")
    def f(x):
        python.append(dynajit.is_compiling())
        return x + 1

    def called(x):
        python.clear()
        assert torch.equal(f(x), x + 1)
        return python[0]

    with dynajit.set_stance("cached_only"):
        assert called(T(3)) is False
    assert made(seen) == 0
    with dynajit.set_stance("force_eager"):
        assert called(T(3)) is False
    with dynajit.set_stance("eager_on_recompile"):
        assert called(T(3)) is True
        assert called(T(4)) is False
        assert called(T(3)) is True
    with dynajit.set_stance("force_eager"):
        assert called(T(3)) is False
    assert made(seen) == 1
    with dynajit.set_stance("fail_on_recompile"):
        assert called(T(3)) is True
        with pytest.raises(
            CompileError, match=r"would be compiled again: x is a tensor float32\[3\].*now float32\[4\]"
        ):
            f(T(4))
    assert called(T(4)) is True
    assert made(seen) == 2


def test_a_stance_stays_nests_and_decorates(seen):
    @dynajit.compile(backend="eager")
    def f():
        return dynajit.is_compiling()

    dynajit.set_stance("force_eager")
    assert f() is False
    with dynajit.set_stance("default"):
        assert f() is True
        with dynajit.set_stance("force_eager"):
            assert f() is False
        assert f() is True
    assert f() is False
    dynajit.set_stance("default")

    @dynajit.set_stance("force_eager")
    def eager():
        return f()

    assert f() is True
    assert eager() is False
    assert f() is True
    with pytest.raises(ZeroDivisionError), dynajit.set_stance("force_eager"):
        _ = 1 / 0
    assert f() is True
    with pytest.raises(dynajit.OptionError, match="stance must be one of 'default'"):
        dynajit.set_stance("sideways")
    assert f() is True


def test_the_switch_in_the_environment():
    program = """
import torch, dynajit
def f(x):
    return x + 1, dynajit.is_compiling()
assert dynajit.compile(f) is f
assert dynajit.compile(backend="eager")(f) is f
assert isinstance(dynajit.compile(torch.nn.Linear(2, 2)), torch.nn.Linear)
assert dynajit.compile(f)(torch.ones(2))[1] is False
"""
    environment = {**os.environ, "DYNAJIT_DISABLE": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=100)


def test_export():
    dynajit.reset()
    weight = T(3)

    def f(x, *more, scale=2.0, pair):
        """Docs."""
        first, (second, third) = x * scale + weight, pair
        return {"sum": first + second, "same": [x, None, 3], "shape": first.shape}, third["a"] - more[0]

    args, kwargs = (T(3, seed=1), T(3, seed=2)), {"pair": (T(3, seed=3), {"a": T(3, seed=4)})}
    module, guards = dynajit.export(f, *args, **kwargs)
    assert isinstance(module, torch.fx.GraphModule)
    again = (T(3, seed=5), T(3, seed=6)), {"pair": (T(3, seed=7), {"a": T(3, seed=8)})}
    for a, k in ((args, kwargs), again):
        expected, found = f(*a, **k), module(*a, **k)
        assert torch.equal(found[0]["sum"], expected[0]["sum"])
        assert found[0]["same"][0] is a[0]
        assert (found[0]["same"][1:], found[0]["shape"]) == ([None, 3], expected[0]["shape"])
        assert torch.equal(found[1], expected[1])
    assert list(dict(module.named_buffers())) == ["weight"]
    assert any(text.startswith("x is a tensor float32[3]") for text in guards)
    assert dynajit.report(dynajit.compile(f)).graphs == ()


def test_export_of_a_module_has_its_parameters():
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    module, _ = dynajit.export(net, T(2, 3))
    assert torch.equal(module(T(2, 3, seed=9)), net(T(2, 3, seed=9)))
    assert {id(p) for p in module.parameters()} == {id(p) for p in net.parameters()}


def test_numbers_of_an_exported_graph_are_computed():
    def f(x):
        return x.sum().item() + 1, x * 2

    module, _ = dynajit.export(f, T(3))
    again = T(3, seed=4)
    assert module(again)[0] == f(again)[0]


def test_export_refuses_what_a_graph_cannot_do():
    def prints(x):
        print("x")
        return x + 1

    with pytest.raises(CompileError, match="a call with visible output"):
        dynajit.export(prints, T(3))

    def odd(x):
        return Counter, x

    with pytest.raises(CompileError, match=r"odd returns a type, which a graph cannot return"):
        dynajit.export(odd, T(3))
