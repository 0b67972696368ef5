"""Whole programs by the native backend: what tensors made inside look like afterwards, and the state that is left."""

import pytest
import torch
from programs import Program, T, program
from torch import nn
from torch.nn.utils.rnn import pad_sequence


@program(backend="native")
def writes_to_parts_of_what_is_made_inside():
    a, b = torch.zeros(3, 3), torch.zeros(7, 3)
    found = a.fill_diagonal_(5)
    b.fill_diagonal_(2, wrap=True)
    return a, found, b, pad_sequence([torch.ones(4, 3), torch.ones(2, 3)])


@program(T(3, 3), T(4, 3), T(2, 3), backend="native")
def writes_to_parts_of_arguments(a, b, c):
    a.fill_diagonal_(5)
    return a * 1, pad_sequence([b, c]) + 0


@program(T(2, 6, 4), graphs=None, breaks=None, backend="native")
def a_module_made_inside(x):
    return nn.GroupNorm(3, 6)(x), nn.Linear(4, 2)(x)


@program(backend="native")
def what_is_made_inside_requires_gradients():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    w = nn.Parameter(torch.ones(3))
    return x * w, (x.detach() * w).sum()


@program(torch.tensor([0, 10, 3, 0.0]), backend="native")
def random_numbers_are_those_of_eager(weights):
    return torch.multinomial(weights, 2), torch.rand(3) + weights[0]


@program(T(1, 2), backend="native")
def transposed_in_place(x):
    y = x * 2
    y.t_()
    return y, y + 1, (y + 1).exp(), x.t() * x.t()


def by_way_of_a_sparse_tensor(x):
    return (x + 1).to_sparse_bsr((2, 2)).to_dense() * 2


@pytest.mark.filterwarnings("ignore:Sparse BSR")  # given once in a process
def test_by_way_of_a_sparse_tensor():
    by_way_of_a_sparse_tensor(T(4, 4))
    Program(by_way_of_a_sparse_tensor, (T(4, 4),), graphs=None, breaks=None, backend="native").check()
