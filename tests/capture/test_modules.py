"""nn.Module: parameters, buffers, containers, hooks, modes, attributes written in forward."""

import torch
from programs import T, program
from torch import nn
from torch.utils.hooks import RemovableHandle


class Block(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.norm = nn.LayerNorm(n)
        self.drop = nn.Dropout(0.5)
        self.scale = 2.0
        self.register_buffer("offset", torch.ones(n))
        self.layers = nn.ModuleList([nn.Linear(n, n), nn.ReLU()])
        self.table = nn.ModuleDict({"a": nn.Tanh()})
        self.calls = 0

    def extra(self, x):
        return x * self.scale

    def forward(self, x, twice=False):
        h = self.drop(self.norm(self.linear(x))) + self.offset
        for layer in self.layers:
            h = layer(h)
        h = self.table["a"](self.extra(h))
        if self.training:
            h = h * 1.5
        return h + h if twice else h


def make(module, *args, train=False, seed=3):
    def build():
        torch.manual_seed(seed)
        return (module().train(train), *args)

    return build


@program(make=make(Block, T(2, 4)))
def a_module_in_evaluation(net, x):
    return net(x)


@program(make=make(Block, T(2, 4), train=True))
def a_module_in_training(net, x):
    return net(x, twice=True)


@program(make=make(lambda: nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2)).requires_grad_(False), T(5, 3)))
def a_sequential(net, x):
    return net(x).softmax(-1)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.steps = 0
        self.history = []

    def forward(self, x):
        self.steps += 1
        self.total = self.total + x
        self.history.append(x.sum())
        return self.total * self.steps


@program(make=lambda: (Counter(), T(3)))
def attributes_and_buffers_written_in_forward(net, x):
    return net(x)


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total.add_(x)
        return self.total * 2


@program(make=lambda: (InPlace(), T(3)))
def a_buffer_changed_in_place(net, x):
    return net(x)


@program(make=make(lambda: nn.BatchNorm1d(3), T(5, 3), train=True))
def batch_norm_updates_its_statistics(net, x):
    return net(x)


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        return self.inner(x)


class Derived(Base):
    def forward(self, x):
        return super().forward(x) + self.bias

    @property
    def bias(self):
        return self.inner.bias * 2


@program(make=make(Derived, T(2, 3)))
def super_and_properties(net, x):
    return net(x)


@program(make=make(lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), T(2, 5, 8), train=True))
def a_transformer_layer(net, x):
    return net(x)


@program(make=make(lambda: nn.Embedding(10, 4), torch.tensor([1, 2, 3])))
def an_embedding(net, i):
    return net(i).sum(0)


@program(make=make(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.Flatten()), T(2, 3, 8, 8)))
def a_convolution(net, x):
    return net(x)


def _hooked():
    RemovableHandle.next_id = 100  # their numbers are keys of the dict of hooks
    torch.manual_seed(0)
    net = nn.Linear(3, 3)
    net.register_forward_hook(lambda module, args, out: out * 2)
    return net, T(2, 3)


@program(make=_hooked)
def a_module_with_a_hook(net, x):
    y = net(x)
    return y + 1


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))


@program(make=make(Tied, T(2, 3)))
def tied_weights(net, x):
    return net(x)
