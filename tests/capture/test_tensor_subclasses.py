"""Classes derived from Tensor: captured if they leave PyTorch's functions as they are, right by a break if not."""

import pytest
import torch
import torch.nn.functional as F
from programs import Program, T, program

import dynajit


class Named(torch.Tensor):
    kind = "named"

    def twice(self):
        return self * 2

    @property
    def halves(self):
        return self / 2


class Deeper(Named):
    pass


class Other(torch.Tensor):
    pass


class OwnSum(torch.Tensor):
    def __add__(self, other):
        return 5


class Told(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def made(cls, *shape):
    return lambda: (T(*shape).as_subclass(cls), T(*shape, seed=1))


@program(T(3, 2))
def a_subclass_made_inside(x):
    y = x.as_subclass(Named)
    kinds = type(y + 1).__name__, isinstance(y.sum(), Named), y.kind
    plain = type(y.as_subclass(torch.Tensor)).__name__, type(x.as_subclass(torch.Tensor)).__name__
    return y * 2, y.twice(), y.halves, kinds, plain


def operations(x, y):
    x = x.relu_()
    return x + 1, F.relu(x), x.max(0), x.split(1), x.shape, x.float(), x[0], torch.stack([x, y]), x.contiguous() is x


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("cls", [Named, Deeper])
def test_results_are_of_the_class(cls, backend):
    Program(operations, (), make=made(cls, 3, 2), backend=backend).check()


def mixed(x, y):
    return x + y.as_subclass(Deeper), torch.where(x > 0, x, y)


def test_the_derived_class_wins():
    Program(mixed, (), make=made(Named, 3, 2)).check()


def returned_themselves(x, y):
    a, b = y.type_as(x), y.add_(x)
    return a, b, a is y, b is y, type(a).__name__, type(b).__name__, y, x.contiguous() is x


def test_what_is_returned_itself_is_of_the_class():
    Program(returned_themselves, (), make=made(Named, 3, 2)).check()


def strangers(x, y):
    try:
        return x + y.as_subclass(Other)
    except TypeError as error:
        return str(error)[:20]


def test_classes_that_do_not_know_each_other():
    Program(strangers, (), make=made(Named, 3, 2), graphs=None, breaks=None).check()


def test_what_a_class_does_by_itself():
    Program(mixed, (), make=made(OwnSum, 3, 2), graphs=None, breaks=None).check()


def test_a_function_of_its_own_for_all_functions(capsys):
    def f(x):
        y = x.sin() + 1
        return y.sum()

    compiled = dynajit.compile(f, backend="eager")
    for _ in range(2):
        x = T(3).as_subclass(Told)
        capsys.readouterr()
        f(x)
        expected = capsys.readouterr().out
        got = compiled(x)
        assert capsys.readouterr().out == expected
        assert type(got) is Told
    dynajit.reset(compiled)


def test_a_class_that_changes():
    def f(x):
        return x + 1, x.twice(), x.sum()

    compiled, x = dynajit.compile(f, backend="eager"), T(3).as_subclass(Named)
    compiled(x)
    twice = Named.twice
    for name, value in (("__add__", lambda self, other: 7), ("sum", lambda self: 8), ("twice", lambda self: 9)):
        setattr(Named, name, value)
        got, want = compiled(x), f(x)
        assert [type(item) for item in got] == [type(item) for item in want]
        delattr(Named, name)
    Named.twice = twice
    x.twice = lambda: 10
    assert compiled(x)[1] == 10
    dynajit.reset(compiled)
