"""Python's `random` in a program: the numbers are drawn when the graph runs, in eager's order."""

import random

import pytest
import torch
from programs import Program, T, program

import dynajit


@program(T(4))
def numbers_as_they_come(x):
    y = x * random.random() + random.uniform(1, 2)
    return y, random.randint(1, 6), random.gauss(0, 1), random.normalvariate(2, 0.5)


@program(T(4))
def a_new_tensor_of_a_drawn_number(x):
    drawn = random.random()
    return torch.full((2,), drawn), x.new_full((2,), random.uniform(0, 1)), drawn


@program(T(4), graphs=None, breaks="DJ-D002")
def a_branch_on_a_drawn_number(x):
    if random.random() < 0.5:
        x = x + 1
    return x * random.random()


def refused(x):
    try:
        return random.randint(5, 1)
    except ValueError as error:
        return str(error), x + random.random()


def another_generator(x):
    mine = random.Random(3)
    return x * mine.random(), random.choice([1, 2, 3])


@pytest.mark.parametrize("fn", [refused, another_generator])
def test_by_a_break(fn):
    Program(fn, (T(4),), graphs=None, breaks=None).check()


def fill(x, number):
    return torch.full((x.shape[0], 2), number) + x, x.new_full((2,), fill_value=number)


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_numbers_to_fill_with(backend):
    compiled = dynajit.compile(fill, backend=backend)
    for size, number in ((3, 1.5), (3, 2.5), (4, 3.5), (5, 4.5), (6, 5), (7, 6), (8, 7), (3, 0.0), (3, 1), (4, 2.25)):
        x = torch.ones(size, 2)
        for got, want in zip(compiled(x, number), fill(x, number), strict=True):
            assert torch.equal(got, want)
            assert got.dtype is want.dtype
    assert len(dynajit.report(compiled).entries) <= 5
    dynajit.reset(compiled)
