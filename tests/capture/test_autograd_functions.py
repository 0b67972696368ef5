"""torch.autograd.Function inside: one node of the graph, with the user's own backward."""

import pytest
import torch
from programs import T, program

import dynajit


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * grad * ctx.factor, None


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x * y, x > 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        x, y = ctx.saved_tensors
        return y * grad, x * grad


LOG = []


class Noting(Square):
    @staticmethod
    def forward(ctx, x, factor):
        LOG.append(factor)
        return Square.forward(ctx, x, factor)


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@program(T(4))
def without_gradients(x):
    return Square.apply(x, 3) + 1, Square.apply(x, 3).requires_grad


@program(T(4, grad=True))
def with_gradients(x):
    y = Square.apply(x, 3)
    z, positive = Pair.apply(y, y + 1)
    return z, positive, y.requires_grad, positive.requires_grad, z.shape


@program(T(4, grad=True), graphs=(1, 2, 3, 4), breaks="DJ-D005 DJ-B003 DJ-B003 DJ-B003 DJ-B003")
def with_side_effects(x):
    return Noting.apply(x, 3) + 1


@program(T(4, grad=True), graphs=(1, 2, 3, 4), breaks="DJ-D005 DJ-B003 DJ-B003")
def in_place(x):
    y = x * 1
    Doubling.apply(y)
    return y + 1


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_the_users_backward_is_used(backend):
    def f(x):
        z, _ = Pair.apply(Square.apply(x, 3), x + 1)
        return z.sum()

    compiled = dynajit.compile(f, backend=backend)
    for _ in range(2):
        x, y = T(4, grad=True), T(4, grad=True)
        compiled(x).backward()
        f(y).backward()
        assert torch.equal(x.grad, y.grad)
    assert len(dynajit.report(compiled).graphs) == 1
    dynajit.reset(compiled)
