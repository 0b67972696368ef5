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


@program(T(4))
def a_seeded_generator(x):
    mine = random.Random(3)
    items = [1, 2, 3, 4, 5, 6, 7]
    mine.shuffle(items)
    numbers = [mine.random(), mine.uniform(1, 2), mine.gauss(0, 1), mine.randint(1, 6), mine.randrange(0, 100, 7)]
    parts = mine.choice([x, x * 2, x * 3]) + mine.random(), mine.sample(range(30), 4), mine.sample(items, k=3)
    drawn = mine.choices("abc", k=4), mine.choices([1, 2], [0.2, 0.8], k=3), mine.choices((1, 2), cum_weights=[3, 4])
    return parts, numbers, drawn, items, mine.getrandbits(40), isinstance(mine, random.Random)


@program(T(4))
def its_state_afterwards(x):
    mine, other = random.Random("text"), random.Random(2.5)
    mine.gauss(0, 1)
    numbers = mine.random(), other.random()
    mine.seed(4)
    return x + 1, numbers, Drawing(mine).numbers, mine.choice("abc")


@program(T(4))
def its_errors(x):
    told = []
    mine = random.Random(1)
    for act in (lambda: mine.choice([]), lambda: mine.sample([1], 2), lambda: mine.randint(5, 1)):
        try:
            act()
        except (IndexError, ValueError) as error:
            told.append((type(error), str(error)))
    return x + 1, told, mine.random()


class Drawing:
    def __init__(self, generator):
        self.numbers = [generator.random() for _ in range(3)]


def test_a_seeded_generator_is_returned():
    def fn(x):
        mine = random.Random(3)
        return x * mine.gauss(0, 1), mine

    compiled = dynajit.compile(fn, backend="eager")
    for _ in range(2):
        got, want = compiled(T(4))[1], fn(T(4))[1]
        assert got.getstate() == want.getstate()
        assert got.random() == want.random()
    dynajit.reset()


def the_generator_of_all(x):
    items = [1, 2, 3]
    random.shuffle(items)
    return x * random.choice([1, 2, 3]), items, random.sample(items, 2), random.choices(items, k=2)


@pytest.mark.parametrize("fn", [refused, the_generator_of_all])
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
