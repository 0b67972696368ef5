"""Weak references made inside, and tables that hold objects weakly."""

import weakref

import pytest
import torch
from programs import Program, T, program

import dynajit


class Thing:
    def __init__(self, value=2):
        self.value = value


class Slotted:
    __slots__ = ("value",)


GIVEN = Thing()
BY_OBJECT = weakref.WeakKeyDictionary({GIVEN: 3})
BY_NAME = weakref.WeakValueDictionary({"given": GIVEN})


@program(T(3))
def made_and_called(x):
    thing = Thing(x)
    reference = weakref.ref(thing)
    return (
        reference() is thing,
        reference().value * 2,
        weakref.ref(thing) is reference,
        type(reference),
        bool(reference),
    )


@program(T(3))
def of_a_given_object(x):
    reference = weakref.ref(GIVEN)
    return x * reference().value, reference() is GIVEN


@program(T(3))
def tables(x):
    both = BY_OBJECT[GIVEN], BY_NAME["given"].value, BY_NAME["given"] is GIVEN
    return x * both[0], both, BY_OBJECT.get(GIVEN), BY_OBJECT.get(Thing(), 7), GIVEN in BY_OBJECT, "other" in BY_NAME


@program(T(3))
def kept_by_an_object(x):
    thing, owner = Thing(x), Thing()
    owner.value = weakref.ref(thing)
    return owner.value().value + 1


def of_nothing_that_holds_it(x):
    return x + 1, weakref.ref(Thing())()


def of_what_cannot_be_referred_to(x):
    try:
        weakref.ref(Slotted())
    except TypeError as error:
        return x + 1, str(error)


def a_table_made_inside(x):
    table, thing = weakref.WeakKeyDictionary(), Thing()
    table[thing] = 3
    return x * table[thing]


@pytest.mark.parametrize("fn", [of_nothing_that_holds_it, of_what_cannot_be_referred_to, a_table_made_inside])
def test_by_a_break(fn):
    Program(fn, (T(3),), graphs=None, breaks=None).check()


def test_a_reference_is_returned():
    def fn(x, thing):
        return x + 1, weakref.ref(thing)

    thing = Thing()
    assert dynajit.compile(fn, backend="eager")(torch.ones(2), thing)[1] is weakref.ref(thing)
    dynajit.reset()
