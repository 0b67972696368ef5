"""Objects with an `__eq__` and a `__hash__` of their own as keys of dicts and elements of sets."""

import dataclasses
from collections import OrderedDict, defaultdict

import pytest
import torch
from programs import Program, T, program

import dynajit


@dataclasses.dataclass(frozen=True)
class Config:
    width: int
    name: str = "plain"


@dataclasses.dataclass(frozen=True)
class Outer:
    inner: Config
    both: tuple


@dataclasses.dataclass
class Loose:
    width: int


class Same:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return self.value == (other.value if isinstance(other, Same) else other)

    def __hash__(self):
        return hash(self.value) % 4


class Wrong:
    def __hash__(self):
        return "text"


class Table(dict):
    pass


CALLS = []
GIVEN = {Config(1): 2, Config(2, "b"): 3}
CACHE = {Config(1): 5}


@program(T(3))
def found_by_an_equal_one(x):
    table = {Config(1): x, Config(2): x * 2}
    table[Config(1)] = table[Config(2)] + 1
    return table[Config(1)] * 2, Config(3) in table, Config(1, "b") in table, len(table), table.get(Config(4), 7)


@program(T(3))
def the_table_is_returned(x):
    first = Config(1)
    table = {first: x + 1}
    table[Config(1)] = x * 2
    return table, next(iter(table)) is first, {Config(3): {Outer(Config(4), (1, Config(5))): 1}}, {Config(3), Config(3)}


@program(T(3))
def nested_keys(x):
    made = {Outer(Config(1), (1, Config(2))): x, (1, Config(7)): 2}
    return made[Outer(Config(1), (1, Config(2)))] * made[1, Config(7)], (1, Config(8)) in made


class Counted(Same):
    def __eq__(self, other):
        CALLS.append(("eq", self.value, other.value if isinstance(other, Same) else other))
        return super().__eq__(other)

    def __hash__(self):
        CALLS.append(("hash", self.value))
        return super().__hash__()


def methods_that_change_something(x):
    table = {}
    for value in (1, 5, 2, 1, 5):
        table[Counted(value)] = value
    seen = {Counted(1), Counted(5)} | {Counted(5)}
    return x + len(table), Counted(5) in table, Counted(9) in table, len(seen), list(CALLS)


@program(T(3))
def methods_of_ones_own(x):
    table = {}
    for value in (1, 5, 2, 1, 5):
        table[Same(value)] = value
    seen = {Same(1), Same(5)}
    seen.add(Same(1))
    seen.discard(Same(5))
    return x + len(table), Same(5) in table, Same(9) in table, len(seen), 1 in seen, table.pop(Same(1)), len(table)


@program(T(3))
def kinds_of_tables(x):
    tables = [OrderedDict(), defaultdict(list), Table()]
    for table in tables:
        table.setdefault(Config(1), []).append(4)
    tables[1][Config(2)].append(5)
    return x + 1, tables, [table[Config(1)] for table in tables]


@program(T(3))
def a_given_table(x):
    return x * GIVEN[Config(1)] + GIVEN[Config(2, "b")], Config(9) in GIVEN, [key.width for key in GIVEN]


@program(T(3))
def a_given_table_is_changed(x):
    if Config(2) not in CACHE:
        CACHE[Config(2)] = 6
    return x * CACHE[Config(2)] + CACHE.pop(Config(1)), len(CACHE)


class Owner:
    def __init__(self):
        self.cache = {Config(1): torch.ones(3)}

    def __call__(self, x):
        self.cache[Config(1)] = self.cache[Config(1)] + x
        return self.cache[Config(1)] * 2


OWNER = Owner()


@program(T(3))
def not_hashable(x):
    told = []
    for act in (lambda: {Loose(1): 1}, lambda: {Loose(1)}, lambda: Loose(1) in {}, lambda: {Wrong(): 1}):
        try:
            act()
        except TypeError as error:
            told.append(str(error))
    try:
        {Config(1): 1}[Config(2)]
    except KeyError as error:
        told.append(error.args[0])
    return x + 1, told


@program(T(3))
def hashes(x):
    return x + 1, hash(Config(1)) == hash(Config(1)), hash(Outer(Config(1), ())) == hash(Outer(Config(1), ()))


def a_key_that_changes(x):
    key = Same(1)
    table = {key: x}
    key.value = 2
    return Same(1) in table, Same(2) in table, key in table, x + 1, table


def test_a_key_that_changes():
    compiled = dynajit.compile(a_key_that_changes, backend="eager")
    got, want = compiled(torch.ones(2)), a_key_that_changes(torch.ones(2))
    for result in (got, want):
        assert result[:3] == (False, False, False)
        assert Same(2) not in result[-1]
    dynajit.reset()


@pytest.mark.parametrize("fn", [methods_that_change_something])
def test_by_a_break(fn):
    Program(fn, (T(3),), graphs=None, breaks=None).check()


def test_a_table_that_an_object_keeps():
    compiled = dynajit.compile(OWNER, backend="eager")
    for number in (2, 3, 4):
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), number * 2.0))
    report = dynajit.report(compiled)
    assert len(report.entries) == 1
    dynajit.reset()


def test_an_equal_table_of_other_keys():
    compiled = dynajit.compile(lambda x, table: x * table[Config(1)], backend="eager")
    for number in (2, 2, 3, 4):
        assert torch.equal(compiled(torch.ones(2), {Config(1): number}), torch.ones(2) * number)
    dynajit.reset()
