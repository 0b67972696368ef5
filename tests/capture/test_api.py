"""The public functions, on functions, methods and modules."""

import copy
import inspect
import io
import pickle
import threading

import pytest
import torch
from programs import T
from torch import nn

import dynajit
from dynajit import events, frame


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, scale=1.0):
        return torch.relu(self.linear(x)) * scale


def double(x, n: int = 2):
    """Twice x."""
    return x * n


def test_a_function_keeps_its_face():
    f = dynajit.compile(double, backend="eager")
    assert f.__wrapped__ is double
    assert (f.__name__, f.__doc__, f.__module__) == ("double", "Twice x.", __name__)
    assert inspect.signature(f) == inspect.signature(double)
    assert torch.equal(f(T(3), n=3), T(3) * 3)
    with pytest.raises(TypeError, match=r"double\(\) missing 1 required positional argument: 'x'"):
        f()


def test_as_a_decorator_with_and_without_options():
    @dynajit.compile
    def f(x):
        return x + 1

    @dynajit.compile(backend="eager", dynamic=False)
    def g(x):
        return x + 2

    assert torch.equal(f(T(2)) + g(T(2)), T(2) + 1 + (T(2) + 2))


def test_a_module_stays_what_it_was():
    net = Net()
    keys = list(net.state_dict())
    compiled = dynajit.compile(net, backend="eager")
    assert compiled is net
    assert isinstance(compiled, Net)
    assert list(compiled.state_dict()) == keys
    x = T(2, 3)
    want = torch.relu(net.linear(x)) * 2
    assert torch.equal(compiled(x, scale=2), want)
    other = copy.deepcopy(compiled)
    with torch.no_grad():
        other.linear.weight.zero_()
    assert torch.equal(compiled(x, scale=2), want)
    assert torch.equal(other(x), torch.relu(other.linear.bias).expand(2, 3))
    buffer = io.BytesIO()
    torch.save(compiled.state_dict(), buffer)
    again = pickle.loads(pickle.dumps(compiled))
    assert torch.equal(again(x, scale=2), want)
    compiled.eval()
    assert not compiled.training
    graphs = [e for e in frame.entries(Net.forward.__code__) if e.options.backend == "eager"]
    assert graphs


def test_a_static_forward():
    class Static(nn.Module):
        @staticmethod
        def forward(x):
            return x * 3

    net = dynajit.compile(Static(), backend="eager")
    assert torch.equal(net(T(2)), T(2) * 3)
    assert torch.equal(dynajit.compile(lambda x: net(x) + 1, backend="eager")(T(2)), T(2) * 3 + 1)


def test_gradients_of_a_compiled_module():
    torch.manual_seed(0)
    net = Net()
    eager = copy.deepcopy(net)
    dynajit.compile(net, backend="eager")
    x = T(4, 3)
    net(x).sum().backward()
    eager(x).sum().backward()
    for a, b in zip(net.parameters(), eager.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad)


def test_methods():
    class Model:
        def __init__(self, n):
            self.n = n

        @dynajit.compile(backend="eager")
        def act(self, x):
            return x * self.n

        @staticmethod
        def plain(x):
            return x + 1

    m = Model(3)
    assert torch.equal(m.act(T(2)), T(2) * 3)
    assert torch.equal(dynajit.compile(m.plain, backend="eager")(T(2)), T(2) + 1)
    assert torch.equal(dynajit.compile(Model(4).act, backend="eager")(T(2)), T(2) * 4)


def test_other_callables():
    class Callable:
        def __call__(self, x):
            return x - 1

    assert torch.equal(dynajit.compile(Callable(), backend="eager")(T(2)), T(2) - 1)
    assert torch.equal(dynajit.compile(torch.sin, backend="eager")(T(2)), T(2).sin())
    with pytest.raises(TypeError, match="not callable"):
        dynajit.compile(3)
    with pytest.raises(TypeError, match="only nn.Module classes"):
        dynajit.compile(dict)


def test_options_are_checked_at_once():
    with pytest.raises(dynajit.OptionError, match="did you mean 'eager'"):
        dynajit.compile(double, backend="eagr")
    with pytest.raises(ValueError, match="numerics must be one of"):
        dynajit.compile(double, numerics="exact")
    with pytest.raises(TypeError):
        dynajit.compile(double, nonsense=1)


def test_a_foreign_backend():
    seen = []

    def backend(gm, examples):
        seen.append((gm, examples))
        return gm.forward

    f = dynajit.compile(lambda x, y: (x + y).sin(), backend=backend)
    assert torch.equal(f(T(3), T(3)), (T(3) + T(3)).sin())
    gm, examples = seen[0]
    assert [node.op for node in gm.graph.nodes] == [
        "placeholder",
        "placeholder",
        "call_function",
        "call_method",
        "output",
    ]
    assert [type(example) for example in examples] == [torch.Tensor, torch.Tensor]


def test_backends_do_not_share_entries():
    calls = []

    def noisy(gm, examples):
        calls.append(1)
        return gm.forward

    a, b = dynajit.compile(double, backend="eager"), dynajit.compile(double, backend=noisy)
    a(T(3))
    b(T(3))
    a(T(3))
    assert calls == [1]


def test_report_and_explain():
    def f(x, log):
        y = x * 2
        log.append(1)
        print("hello")
        return y + 1

    compiled = dynajit.compile(f, backend="eager")
    assert dynajit.report(compiled).status == "waiting"
    log = []
    compiled(T(3), log)
    report = dynajit.report(compiled)
    assert (report.status, len(report.graphs), len(report.breaks)) == ("partly", 2, 1)
    assert report.breaks[0].code == "DJ-B001"
    by_text = {line.text.strip(): line.verdict for line in report.source}
    assert by_text["y = x * 2"] == "captured"
    assert by_text['print("hello")'] == "break"
    assert by_text["return y + 1"] == "captured"
    assert "2 graphs · 1 break" in str(report)
    before = len(frame.entries(f.__code__))
    again = dynajit.explain(compiled)(T(5), log)
    assert (len(again.graphs), log) == (2, [1, 1])
    assert len(frame.entries(f.__code__)) == before


def test_reset():
    f = dynajit.compile(lambda x: x + 1, backend="eager")
    f(T(2))
    code = f.__wrapped__.__code__
    assert frame.entries(code)
    dynajit.reset(f)
    assert not frame.entries(code)
    f(T(2))
    assert frame.entries(code)
    dynajit.reset()
    assert not frame.entries(code)


def test_is_compiling():
    f = dynajit.compile(lambda x: x + 1 if dynajit.is_compiling() else x - 1, backend="eager")
    assert torch.equal(f(T(2)), T(2) + 1)
    assert not dynajit.is_compiling()


def test_compiled_functions_call_each_other():
    inner = dynajit.compile(lambda x: x * 2, backend="eager")
    outer = dynajit.compile(lambda x: inner(x) + 1, backend="eager")
    assert torch.equal(outer(T(2)), T(2) * 2 + 1)
    assert len(dynajit.report(outer).graphs) == 1


def test_eight_threads():
    def f(x):
        y = x * 2
        for _ in range(2):
            y = y + x.shape[0]
        return y

    compiled = dynajit.compile(f, backend="eager", dynamic=False)
    wrong = []

    def work(n):
        for _ in range(50):
            x = torch.ones(n)
            if not torch.equal(compiled(x), x * 2 + 2 * n):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(frame.entries(f.__code__)) == 8


def test_generators_and_coroutines_run_as_they_are():
    def numbers(x):
        for i in range(3):
            yield x * i

    async def later(x):
        return x + 1

    assert len(list(dynajit.compile(numbers, backend="eager")(T(2)))) == 3
    coroutine = dynajit.compile(later, backend="eager")(T(2))
    with pytest.raises(StopIteration):
        coroutine.send(None)


def test_a_traceback_is_the_users():
    def f(x):
        y = x + 1
        y.add_(1)
        return y[torch.tensor([7])]

    compiled = dynajit.compile(f, backend="eager")
    for _ in range(2):
        with pytest.raises(IndexError) as caught:
            compiled(T(3))
        frames = [entry.frame.code.raw for entry in caught.traceback[1:]]
        assert [code.co_name for code in frames] == ["f"]
        assert caught.traceback[-1].lineno + 1 == f.__code__.co_firstlineno + 3


def test_a_graph_that_fails_is_told():
    seen = []
    f = dynajit.compile(lambda x, i: x[i] + 1, backend="eager")
    with events.subscribed(seen.append), pytest.raises(IndexError):
        f(T(3), torch.tensor([5]))
    assert [event.error.split(":")[0] for event in seen if isinstance(event, events.GraphFailed)] == ["IndexError"]
    assert dynajit.report(f).graphs[0].failures == 1


def test_events_tell_what_happened():
    seen = []
    with events.subscribed(seen.append):
        dynajit.compile(lambda x: x + 1, backend="eager")(T(2))
    names = [type(event).__name__ for event in seen]
    assert names[0] == "CaptureStarted"
    assert names[-1] == "EntryAdded"


def test_a_backend_that_fails(monkeypatch):
    def broken(gm, examples):
        raise ArithmeticError("no such luck")

    with pytest.raises(ArithmeticError, match="no such luck"):
        dynajit.compile(lambda x: x + 1, backend=broken)(T(2))
    monkeypatch.delenv("DYNAJIT_STRICT")
    monkeypatch.setitem(
        dynajit.backends.base._TABLE, "broken", lambda gm, examples, options, observer: broken(gm, examples)
    )
    f = dynajit.compile(lambda x: x + 1, backend="broken")
    assert torch.equal(f(T(2)), T(2) + 1)
    assert "ArithmeticError: no such luck" in dynajit.report(f).graphs[0].notes[0]


@dynajit.compile(backend="eager")
def at_module_level(x):
    return x + 1


def test_pickling_a_compiled_function():
    assert pickle.loads(pickle.dumps(at_module_level)) is at_module_level
    assert copy.deepcopy(at_module_level) is at_module_level


def test_kernels_built_beside_the_program(monkeypatch, tmp_path):
    monkeypatch.setenv("DYNAJIT_CACHE_DIR", str(tmp_path))

    def f(x):
        return torch.tanh(x * 2 + 1) - x.exp()

    compiled = dynajit.compile(f, backend="native", build="async")
    x = T(100)
    assert torch.equal(compiled(x), f(x))
    for thread in [thread for thread in threading.enumerate() if thread.name == "dynajit build"]:
        thread.join()
    assert list(tmp_path.rglob("*.so"))
    assert torch.equal(compiled(x), f(x))
    assert any(kernel.launched for kernel in dynajit.report(compiled).kernels)
