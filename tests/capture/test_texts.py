"""The text of dataclasses, enums, instances and what contains them."""

import dataclasses
import enum
from collections import OrderedDict

import pytest
from programs import Program, T, program


@dataclasses.dataclass
class Point:
    x: int
    name: str = "plain"
    hidden: int = dataclasses.field(default=3, repr=False)
    more: object = None


class Color(enum.Enum):
    RED = 1


class Number(enum.IntEnum):
    ONE = 1


class Shown:
    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"Shown({self.value!r})"


class Told(Shown):
    def __str__(self):
        return f"told {self.value}"


class Styled(Told):
    def __format__(self, spec):
        return f"<{spec or 'none'}>"


class Items(list):
    pass


class Pair(tuple):
    __slots__ = ()


class Label(str):
    def __repr__(self):
        return "Label!"


class Count(int):
    def __str__(self):
        return "count"


class Odd:
    def __repr__(self):
        return 3


@program(T(3))
def dataclasses_as_text(x):
    point = Point(1, more=Point(2))
    return x + 1, repr(point), str(point), f"{point} {point!r} {point!s:>3}", "{} {name!r}".format(point, name=point)


@program(T(3))
def a_dataclass_that_contains_itself(x):
    point = Point(1)
    point.more = [point, {"self": point}]
    return x + 1, repr(point), str(point.more)


@program(T(3))
def members_of_enums(x):
    return x + 1, repr(Color.RED), str(Color.RED), f"{Color.RED} {Number.ONE} {Number.ONE!r}", "{}".format(Color.RED)


@program(T(3))
def instances(x):
    made, told, styled = Shown("é"), Told(2), Styled(None)
    texts = [repr(made), str(made), f"{made}", f"{made!a}", repr(told), str(told), f"{told} {told!r}", format(told)]
    return x + 1, texts, f"{styled} {styled:^3} {styled!r:>20}", "{:5}|{}".format(styled, styled), format(styled, "")


@program(T(3))
def containers_of_them(x):
    made = Shown(1)
    rows = [made, (made,), (made, 2), {made.value: made, "b": [made]}, Items([made]), Pair((made, 1)), [], (), {}]
    return x + 1, str(rows), [repr(row) for row in rows], f"{rows[0]} {rows[1]} {[1, 'a']} { {1: 'a'} }", str([1, "a"])


@program(T(3))
def a_list_that_contains_itself(x):
    made = [1]
    made.append(made)
    table = {"a": made}
    table["b"] = table
    return x + 1, str(made), repr(table)


@program(T(3))
def derived_values(x):
    label, count = Label("text"), Count(3)
    texts = [str(label), repr(label), f"{label}", f"{label!r}", f"{label:>6}", str(count), repr(count), f"{count:03d}"]
    return x + 1, texts, f"{count}", f"{Pair((1, 2))} {Items([1])}", "{}".format(count), [label, count].__len__()


@program(T(3))
def errors(x):
    told = []
    for act in (lambda: f"{Shown(1):>3}", lambda: format([1], "d"), lambda: f"{Point(1):x}"):
        try:
            act()
        except TypeError as error:
            told.append(str(error))
    return x + 1, told


def of_a_tensor(x):
    return x + 1, repr(Point(1, more=x)), str([x]), f"{(x, 1)}"


def of_a_wrong_type(x):
    try:
        repr(Odd())
    except TypeError as error:
        return x + 1, str(error)


def of_ordered(x):
    return x + 1, str(OrderedDict(a=Shown(1))), "%s %r" % (Shown(1), Shown(2)), "{0.value} {0}".format(Shown(3))


@pytest.mark.parametrize("fn", [of_a_tensor, of_a_wrong_type, of_ordered])
def test_by_a_break(fn):
    Program(fn, (T(3),), graphs=None, breaks=None).check()
