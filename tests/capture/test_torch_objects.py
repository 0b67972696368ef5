"""Modules and tensor objects: made inside, with hooks, with weights that are computed; recurrent layers; copies."""

import copy
import itertools

import numpy as np
import torch
from programs import T, program
from torch import nn
from torch.utils import hooks

import dynajit


class Scaled(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor
        self.inner = nn.ReLU()
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x):
        return self.inner(x) * self.factor + self.shift


@program(T(3, 4))
def a_module_without_weights_is_made_inside(x):
    return nn.Softmax(dim=1)(x) + nn.Sequential(nn.ReLU(), nn.Tanh())(x) + Scaled(2.0)(x)


@program(T(3, 4))
def a_module_with_weights_is_made_inside(x):
    torch.manual_seed(0)
    return nn.Linear(4, 3)(x), nn.Conv1d(4, 3, 1)(x[..., None])


@program(T(3, 4))
def a_module_that_was_made_inside_is_returned(x):
    made = Scaled(2.0)
    return made(x), made


def doubled(module, args, out):
    return out * 2


def plus_one(module, args):
    return (args[0] + 1,)


def hooked():
    hooks.RemovableHandle.next_id = 100  # their numbers are keys of the dict of hooks
    torch.manual_seed(0)
    net = nn.Linear(4, 4)
    net.register_forward_hook(doubled)
    net.register_forward_pre_hook(plus_one)
    return net, T(3, 4)


@program(make=hooked)
def forward_hooks(net, x):
    return net(x)


def test_hooks_that_come_and_go():
    net = nn.Linear(4, 4)
    compiled = dynajit.compile(lambda x: net(x), backend="eager")
    plain = compiled(T(3, 4))
    handle = net.register_forward_hook(doubled)
    assert torch.equal(compiled(T(3, 4)), plain * 2)
    handle.remove()
    assert torch.equal(compiled(T(3, 4)), plain)
    dynajit.reset(compiled)


NORMED = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
SPECTRAL = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))


@program(NORMED, T(3, 4))
def a_parametrised_weight(net, x):
    return net(x)


@program(SPECTRAL, T(3, 4))
def a_weight_with_a_spectral_norm(net, x):
    return net(x)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LSTM(4, 5, batch_first=True), nn.GRU(5, 3, bidirectional=True)
        self.third, self.cell = nn.RNN(6, 2), nn.LSTMCell(4, 4)

    def forward(self, x):
        y, (h, c) = self.first(x)
        z, last = self.second(y)
        return self.third(z)[0], h, c, last, self.cell(x[0])


def recurrent():
    torch.manual_seed(0)
    return Recurrent(), T(2, 3, 4, grad=True)


@program(make=recurrent)
def recurrent_layers(net, x):
    return net(x)


@program(T(4))
def parameters(x):
    weight = nn.Parameter(torch.ones(4))
    return (weight * x).sum(), isinstance(weight, nn.Parameter), weight.is_leaf, weight


@program(T(4))
def variables(x):
    v = torch.autograd.Variable(x)
    w = torch.autograd.Variable(torch.ones(4), requires_grad=True)
    return v * 2 + w, v.requires_grad, w.requires_grad, v is x


@program(T(4))
def constructors_that_are_called_like_types(x):
    return x + torch.FloatTensor([1, 2, 3, 4]), torch.LongTensor([1, 2]), torch.Tensor([[1, 2]])


@program(T(4))
def requires_grad_is_set(x):
    y = x * 2
    y.requires_grad = True
    z = torch.zeros(4).requires_grad_()
    return (y * 3).sum(), y.requires_grad, z, z.is_leaf


@program(T(4), T(4))
def data_is_set(x, y):
    z = x.clone()
    z.data = y * 3
    z.data.add_(1)
    return z * 2


@program(make=lambda: (T(4, grad=True), T(4)))
def data_of_an_argument_is_set(x, y):
    x.data = y * 3
    return x * 2


@program(T(4))
def numpy_s_functions_of_numbers(x):
    return x / np.sqrt(8), x * np.float32(2), x + np.prod([2, 3]), np.pi * x, np.float64(3.0)


@program(T(2))
def tensors_of_numpy_s_numbers(x):
    return x * 2 + torch.tensor([np.float64(1.0), np.float64(2.0)])


class Settings:
    def __init__(self):
        self.size, self.names, self.nested = 3, ["a", "b"], {"x": [1, 2]}


@program(Settings(), T(4))
def settings_are_copied(settings, x):
    mine = copy.deepcopy(settings)
    mine.size = 7
    mine.names.append("c")
    shallow = copy.copy(settings)
    shallow.size = 9
    return x * mine.size, mine.names, settings.names, shallow.names is settings.names


@program(Settings(), T(4))
def all_attributes(settings, x):
    vars(settings)["more"] = 5
    return x * settings.more, list(vars(settings)), {**settings.__dict__}["size"], len(settings.__dict__)


@program(T(4))
def a_cause_is_kept(x):
    try:
        try:
            return {}["a"]
        except KeyError as error:
            raise ValueError("no") from error
    except ValueError as error:
        return x + 1, str(error)


@program(T(4))
def a_write_to_a_result_may_stand_beside_what_may_fail(x):
    seen = []
    y = nn.functional.embedding(torch.tensor([1, 2]), x[:, None])
    seen.append(y)
    y += 1
    return y, seen, list(itertools.repeat(2, 3)), dict.fromkeys("ab")


@program(T(4))
def the_way_of_eager_is_gone(x):
    return x * 2 if torch.compiler.is_compiling() else x * 3


@program(T(4))
def the_way_without_a_break_is_gone(x):
    if not torch.compiler.is_compiling() and bool((x > 100).all()):
        return x * 3
    return x * 2


@program(T(4))
def the_order_of_a_set(x):
    return x * 2, [n for n in {3, 1, 2}], list(set([5, 4]))


GRAPH = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))


@program(T(3, 4))
def a_graph_module(x):
    return GRAPH(x) * 2


@program(T(4, grad=True))
def tensors_are_copied(x):
    return copy.deepcopy(x), copy.deepcopy(x).is_leaf
