"""torch.compile beside dynajit, in one process and in one function."""

import torch
from programs import T, program

import dynajit

peer = torch.compile(lambda x: x * 2 + 1, backend="eager")


@torch.compiler.disable
def kept_out(x):
    return x * 3


@program(T(4))
def a_function_of_torch_compile_is_evaluated(x):
    return peer(x + 1) * 2


@program(T(4), graphs=3, breaks="DJ-B006")
def what_is_disabled_is_called(x):
    return kept_out(x + 1) * 2


def test_torch_compile_runs_inside():
    """Its evaluator is above ours for a while; frames go back and forth."""

    def inner(x):
        print(end="")
        return peer(x) * 2

    def f(x, run):
        y = run(inner, x + 1)
        print(end="")
        return y * 2

    def run(function, x):
        return torch.compile(function, backend="eager")(x)

    compiled = dynajit.compile(f, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(T(4), run), f(T(4), run))
    assert torch.equal(dynajit.compile(lambda x: peer(x) + 1, backend="eager")(T(4)), T(4) * 2 + 2)
    dynajit.reset()


def test_dynajit_runs_inside_torch_compile():
    inner = dynajit.compile(lambda x: x * 2 + 1, backend="eager")

    @torch.compiler.disable
    def call(x):
        return inner(x)

    outer = torch.compile(lambda x: call(x + 1) * 2, backend="eager")
    for _ in range(3):
        assert torch.equal(outer(T(4)), ((T(4) + 1) * 2 + 1) * 2)
    dynajit.reset()
