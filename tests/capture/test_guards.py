"""What was read is noticed when it changes; what was not read never compiles again."""

import math

import pytest
import torch
from programs import T
from torch import nn

import dynajit
from dynajit import frame

FACTOR = 2.0
TABLE = {"k": 1}


def helper(x):
    return x + 1


class Thing:
    rate = 3

    def act(self, x):
        return x * self.rate


def entries(compiled):
    return len(frame.entries(compiled.__wrapped__.__code__))


def compiled(fn):
    made = dynajit.compile(fn, backend="eager")
    dynajit.reset(made)
    return made


def test_shapes_dtypes_and_grad_are_guarded():
    @compiled
    def f(x):
        return x * x.shape[0]

    for x in (T(3), T(4), T(3, dtype=torch.float64), T(3, grad=True), T(2, 2), T(6)[::2]):
        assert torch.equal(f(x), x * x.shape[0])
    assert entries(f) == 6
    for x in (T(3), T(4)):
        f(x)
    assert entries(f) == 6


def test_an_unused_argument_is_not_guarded():
    @compiled
    def f(x, unused):
        kept = [unused]
        return x + 1, kept[0]

    for other in (1, "a", T(3), T(5), None, [1, 2]):
        assert f(T(2), other)[1] is other
    assert entries(f) == 1


def test_a_number_becomes_symbolic_when_it_changes():
    @compiled
    def f(x, n):
        return x * n + (n + 1)

    for n in range(10):
        assert torch.equal(f(T(3), n), T(3) * n + (n + 1))
    assert entries(f) == 2
    assert torch.equal(f(T(3), 2.5), T(3) * 2.5 + 3.5)


def test_zero_and_minus_zero_differ():
    @compiled
    def f(x, a):
        return x * math.copysign(1.0, a)

    assert torch.equal(f(T(2), 0.0), T(2))
    assert torch.equal(f(T(2), -0.0), -T(2))
    assert torch.equal(f(T(2), True * 1.0), T(2))


def test_true_is_not_one():
    @compiled
    def f(x, a):
        return x + (10 if a is True else 20)

    assert torch.equal(f(T(2), True), T(2) + 10)
    assert torch.equal(f(T(2), 1), T(2) + 20)


def test_globals(monkeypatch):
    @compiled
    def f(x):
        return helper(x) * FACTOR + TABLE["k"]

    namespace = globals()
    assert torch.equal(f(T(3)), (T(3) + 1) * 2.0 + 1)
    monkeypatch.setitem(namespace, "FACTOR", 5.0)
    assert torch.equal(f(T(3)), (T(3) + 1) * 5.0 + 1)
    monkeypatch.setitem(TABLE, "k", 7)
    assert torch.equal(f(T(3)), (T(3) + 1) * 5.0 + 7)
    monkeypatch.setitem(namespace, "helper", lambda x: x - 1)
    assert torch.equal(f(T(3)), (T(3) - 1) * 5.0 + 7)
    monkeypatch.setitem(namespace, "unrelated", 1)
    before = entries(f)
    f(T(3))
    assert entries(f) == before


def test_a_builtin_hidden_by_a_global(monkeypatch):
    @compiled
    def f(x):
        return x * max(1, 2)

    assert torch.equal(f(T(3)), T(3) * 2)
    monkeypatch.setitem(globals(), "max", lambda a, b: 50)
    assert torch.equal(f(T(3)), T(3) * 50)


def test_methods_and_class_attributes(monkeypatch):
    @compiled
    def f(thing, x):
        return thing.act(x)

    thing = Thing()
    assert torch.equal(f(thing, T(3)), T(3) * 3)
    monkeypatch.setattr(Thing, "rate", 4)
    assert torch.equal(f(thing, T(3)), T(3) * 4)
    thing.rate = 5
    assert torch.equal(f(thing, T(3)), T(3) * 5)
    monkeypatch.setattr(Thing, "act", lambda self, x: x)
    assert torch.equal(f(thing, T(3)), T(3))
    thing.act = lambda x: x + 100
    assert torch.equal(f(thing, T(3)), T(3) + 100)
    monkeypatch.setattr(Thing, "other", 1, raising=False)
    before = entries(f)
    f(thing, T(3))
    assert entries(f) == before


def test_code_and_defaults_replaced():
    def inner(x, n=1):
        return x + n

    def other(x, n=1):
        return x - n

    box = [inner]

    @compiled
    def f(x):
        return box[0](x)

    assert torch.equal(f(T(3)), T(3) + 1)
    inner.__defaults__ = (9,)
    assert torch.equal(f(T(3)), T(3) + 9)
    inner.__code__ = other.__code__
    assert torch.equal(f(T(3)), T(3) - 9)


def test_closure_variables():
    n = 1

    def f(x):
        return x * n

    g = compiled(f)
    assert torch.equal(g(T(3)), T(3))
    n = 4
    assert torch.equal(g(T(3)), T(3) * 4)


def test_two_closures_of_one_function():
    def make(n):
        return dynajit.compile(lambda x: x * n, backend="eager")

    a, b = make(2), make("z" and 3)
    for _ in range(2):
        assert torch.equal(a(T(3)), T(3) * 2)
        assert torch.equal(b(T(3)), T(3) * 3)


def test_containers():
    @compiled
    def f(x, xs, d):
        for item in xs:
            x = x * item
        return x + sum(d.values()) + len(d)

    assert torch.equal(f(T(2), [1, 2], {"a": 1}), T(2) * 2 + 2)
    assert torch.equal(f(T(2), [1, 2, 3], {"a": 1}), T(2) * 6 + 2)
    assert torch.equal(f(T(2), [1, 2], {"b": 1}), T(2) * 2 + 2)
    assert torch.equal(f(T(2), (1, 2), {"b": 1, "c": 4}), T(2) * 2 + 7)


def test_identity_of_arguments():
    @compiled
    def f(x, a, b):
        if a is b:
            a.v = 1
        else:
            a.v = 2
        return x * a.v

    p, q = Thing(), Thing()
    assert torch.equal(f(T(2), p, q), T(2) * 2)
    assert torch.equal(f(T(2), p, p), T(2))
    assert p.v == 1
    assert torch.equal(f(T(2), p, q), T(2) * 2)


def test_aliasing_of_written_lists():
    @compiled
    def f(x, a, b):
        a.append(1)
        return x * len(b)

    assert torch.equal(f(T(2), [0], [0, 0]), T(2) * 2)
    both = [0, 0]
    assert torch.equal(f(T(2), both, both), T(2) * 3)
    assert torch.equal(f(T(2), [0, 0], [0, 0]), T(2) * 2)


def test_module_state():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.drop = nn.Dropout(0.9)

        def forward(self, x):
            return self.drop(self.linear(x))

    net = Net().eval()

    @compiled
    def f(x):
        return net(x)

    x = T(2, 3)
    assert torch.equal(f(x), net(x))
    net.train()
    torch.manual_seed(0)
    got = f(x)
    torch.manual_seed(0)
    assert torch.equal(got, net(x))
    net.eval()
    net.linear = nn.Linear(3, 5)
    assert torch.equal(f(x), net(x))
    net.linear.weight = nn.Parameter(torch.ones(5, 3))
    assert torch.equal(f(x), net(x))
    handle = net.linear.register_forward_hook(lambda module, args, out: out + 100)
    assert torch.equal(f(x), net(x))
    handle.remove()
    assert torch.equal(f(x), net(x))
    net.linear.weight.data = torch.zeros(5, 3)
    assert torch.equal(f(x), net(x))


def test_ambient_state():
    @compiled
    def f(x):
        return x * 2, torch.ones(2), torch.is_grad_enabled()

    x = T(3, grad=True)
    assert f(x)[0].requires_grad
    with torch.no_grad():
        assert not f(x)[0].requires_grad
        assert f(x)[2] is False
    torch.set_default_dtype(torch.float64)
    try:
        assert f(x)[1].dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert f(x)[1].dtype is torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        a = torch.ones(2, 2)

        @compiled
        def g(a):
            return a @ a

        assert g(a).dtype is torch.bfloat16


def test_the_limit_and_its_reason():
    made = dynajit.compile(lambda x, s: x + len(s), backend="eager", limit=3)
    for n in range(6):
        assert torch.equal(made(T(2), "a" * n), T(2) + n)
    report = dynajit.report(made)
    assert report.status == "eager"
    assert "s ==" in report.reason
    assert entries(made) == 3


def test_reports_say_why():
    @compiled
    def f(x, mode):
        return x * 2 if mode == "a" else x

    f(T(2), "a")
    f(T(2), "b")
    assert dynajit.report(f).recompiles == ("mode == 'a'; now 'b'",)


def test_fullgraph_names_line_reason_and_cure():
    @dynajit.compile(backend="eager", fullgraph=True)
    def f(x):
        y = x + 1
        print("no")
        return y

    with pytest.raises(dynajit.CompileError) as caught:
        f(T(2))
    text = str(caught.value)
    line = f.__wrapped__.__code__.co_firstlineno + 3
    assert f"{__file__}:{line}" in text
    assert "DJ-B001" in text
    assert "try:" in text


def test_inference_mode():
    @compiled
    def f(x):
        y = torch.relu(x * 2)
        y = nn.functional.relu(y - 1, inplace=True)
        y.add_(1)
        return y.contiguous(), y.to(torch.float32), y

    want = f.__wrapped__(T(3))
    with torch.inference_mode():
        got = f(T(3))
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    assert got[0].is_inference()
    assert got[0] is got[2]
    assert not f(T(3))[0].is_inference()


@pytest.mark.parametrize(("dynamic", "count"), [(True, 1), (None, 2), (False, 5)])
def test_the_dynamic_option(dynamic, count):
    f = dynajit.compile(lambda x, n: x * n + n, backend="eager", dynamic=dynamic)
    dynajit.reset(f)
    for n in range(3, 8):
        assert torch.equal(f(T(2), n), T(2) * n + n)
    assert entries(f) == count


def test_a_symbolic_attribute_that_is_read_twice():
    @compiled
    def f(x, thing, other):
        return x * thing.v + (thing.v + 1) * x + other["thing.v"]

    for n in (1, 2, 3, 4):
        thing = Thing()
        thing.v = n
        assert torch.equal(f(T(3), thing, {"thing.v": n + 1}), T(3) * n + (n + 1) * T(3) + (n + 1))
    assert entries(f) <= 3


def test_subclasses_and_bases_are_guarded():
    class Base:
        pass

    class Other:
        pass

    class First(Base):
        pass

    def f(x):
        return x + len(Base.__subclasses__()), First.__mro__[1].__name__, len(First.__bases__)

    compiled = dynajit.compile(f, backend="eager")
    assert compiled(T(2))[1:] == ("Base", 1)

    class Second(Base):
        pass

    assert torch.equal(compiled(T(2))[0], T(2) + 2)
    First.__bases__ = (Other, Base)
    assert compiled(T(2))[1:] == ("Other", 2)
    assert Second.__mro__[1] is Base
