"""Classes derived from tuple, str, int and float, made and used inside."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from programs import Program, T, program

import dynajit


class Pair(tuple[Any, ...]):
    def __new__(cls, first: Any, second: Any) -> Pair:
        return super().__new__(cls, (first, second))

    @property
    def first(self) -> Any:
        return self[0]

    def __add__(self, other: Any) -> Any:
        return Pair(self[0] + other[0], self[1] + other[1])


class Items(tuple[Any, ...]):
    def total(self) -> Any:
        return sum(self)


class Upside(tuple[Any, ...]):
    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(-1 - index)

    def __len__(self) -> int:
        return 7

    def __iter__(self) -> Any:
        return iter([super(Upside, self).__getitem__(0)])


class Name(str):
    def shout(self) -> str:
        return self.upper() + "!"


class Loud(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == str(other).lower()

    def __hash__(self) -> int:
        return hash(self.lower())


class Count(int):
    def double(self) -> Count:
        return Count(self * 2)

    def __radd__(self, other: Any) -> Any:
        return ("radd", int(self), other)


class Modular(int):
    def __new__(cls, value: Any) -> Modular:
        return super().__new__(cls, value % 5)

    def __add__(self, other: Any) -> Modular:
        return Modular(super().__add__(other))

    def __lt__(self, other: Any) -> bool:
        return not super().__lt__(other)

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


class Ratio(float):
    def __init__(self, value: float) -> None:
        self.note = f"from {value}"


GIVEN_PAIR, GIVEN_NAME, GIVEN_COUNT, GIVEN_RATIO = Pair(1, 2), Name("ab"), Count(3), Ratio(2.5)
GIVEN_UPSIDE = Upside((1, 2, 3))
GIVEN_RATIO.note = "mine"


@program(T(3))
def pairs_made_inside(x: torch.Tensor) -> Any:
    pair = Pair(x, x * 2) + Pair(x, 1)
    first, second = pair
    return pair, pair.first + second, len(pair), isinstance(pair, tuple), isinstance(pair, Pair), type(pair) is Pair


@program(T(3))
def items_of_an_iterable(x: torch.Tensor) -> Any:
    items = Items(x + i for i in range(3))
    more = items + (1,)
    return items, items.total(), type(more), items[1:], items * 2, Items(), items.count(1) if not items else 0


@program(T(3))
def a_pair_from_outside(x: torch.Tensor) -> Any:
    found = GIVEN_PAIR
    return x * found.first + found[1], found, found is GIVEN_PAIR, found == (1, 2), found + found, (0,) + found


@program(T(3))
def special_methods_of_a_tuple(x: torch.Tensor) -> Any:
    made = Upside((1, 2, 3))
    got = [made[0], len(made), list(made), GIVEN_UPSIDE[0], len(GIVEN_UPSIDE), tuple(GIVEN_UPSIDE)]
    return x + 1, got, 3 in made, made == (1, 2, 3), GIVEN_UPSIDE


@program(T(3))
def attributes_of_a_tuple(x: torch.Tensor) -> Any:
    items = Items((1, x))
    items.note = "here"  # type: ignore[attr-defined]
    items.itself = items  # type: ignore[attr-defined]
    return items.note, items.itself is items, items[1] * 2, [items, items]  # type: ignore[attr-defined]


@program(T(3, 4))
def operations_take_them(x: torch.Tensor) -> Any:
    return x.sum(Count(1)), x.permute(Items((1, 0))), torch.cat(Pair(x, x)), x[Items((0, 1))], x.view(Items([4, 3]))


@program(T(3))
def texts(x: torch.Tensor) -> Any:
    made = Name("q")
    parts = [made.shout(), GIVEN_NAME.shout(), made + "c", "c" + made, made * 2, made[0], made == "q", made in "qq"]
    return x + 1, parts, GIVEN_NAME, made, made is GIVEN_NAME, len(made), "".join([made, GIVEN_NAME]), hash(made)


@program(T(3))
def texts_as_keys(x: torch.Tensor) -> Any:
    table = {Name("a"): x, "b": 2}
    return table["a"] * table[Name("b")], Name("a") in table, [type(key) for key in table], {Name("a")} == {"a"}


@program(T(3))
def texts_with_their_own_equality(x: torch.Tensor) -> Any:
    made = Loud("Ab")
    return x + 1, made == "aB", "AB" == made, made != "Ab", made != "ab", hash(made) == hash("ab")


@program(T(3))
def counts(x: torch.Tensor) -> Any:
    made = Count(3)
    answers = [made.double(), made + 1, 1 + made, 2.0 * made, made / 2, -made, abs(made), int(made), float(made)]
    return x * made, made * x, x + GIVEN_COUNT, answers, type(made), made < 4, max(made, Count(2)), GIVEN_COUNT is made


@program(T(3))
def counts_where_numbers_are_asked_for(x: torch.Tensor) -> Any:
    made, mod = Count(2), Modular(7)
    return x + 1, [i for i in range(made)], [5, 6, 7][made], "abcd"[mod], bool(made), {2: "two"}[made], (1, 2) * made


@program(T(3))
def numbers_with_their_own_operators(x: torch.Tensor) -> Any:
    mod = Modular(8)
    answers = [mod, mod + 4, 4 + mod, mod - 1, mod < 2, 2 > mod, mod == 77, 77 == mod, mod != 3, mod != 4, x is mod]
    return x * mod, answers, [type(answer) for answer in answers]


@program(T(3))
def reflected_methods(x: torch.Tensor) -> Any:
    return x + Count(1), 1 + Count(2), 1.5 + Count(2), Count(1) + Count(2), Modular(1) + Count(2), Ratio(1.0) + Count(2)


@program(T(3))
def ratios(x: torch.Tensor) -> Any:
    made = Ratio(0.5)
    made.note += "!"
    return x * made + GIVEN_RATIO, made, made.note, GIVEN_RATIO.note, made * 2, round(made), made.is_integer()


class Lowest(float):
    def __lt__(self, other: Any) -> bool:
        return True


@program(T(3))
def comparisons_that_are_handed_on(x: torch.Tensor) -> Any:
    low = Lowest(5.0)
    return x * low, low < 0, 0 > low, 0.0 > low, 7 < low, low > 9, sorted([low, Lowest(1.0)]), low == 5, 5 == low


def errors_name_their_class(x: torch.Tensor, act: Any) -> Any:
    try:
        return act(Count(1), Name("a"), Items((1,)))
    except TypeError as error:
        return x + 1, str(error)


@pytest.mark.parametrize(
    "act",
    [
        lambda count, name, items: count * None,
        lambda count, name, items: name - count,
        lambda count, name, items: items < 1,
        lambda count, name, items: items + [1],
        lambda count, name, items: -name,
        lambda count, name, items: len(count),
        lambda count, name, items: list(count),
        lambda count, name, items: 1 in count,
        lambda count, name, items: count[0],
    ],
)
def test_errors(act: Any) -> None:
    Program(errors_name_their_class, (T(3), act), graphs=None, breaks=None).check()


@program(T(3))
def changed_from_outside(x: torch.Tensor) -> Any:
    before, GIVEN_RATIO.note = GIVEN_RATIO.note, "changed"
    after, GIVEN_RATIO.note = GIVEN_RATIO.note, "mine"
    return x + 1, before, after


@program(T(3))
def their_errors(x: torch.Tensor) -> Any:
    told = []
    for act in (lambda: Items((1,))[3], lambda: Name("a").index("z"), lambda: Count("q"), lambda: Name("a").nothing):
        try:
            act()
        except Exception as error:
            told.append((type(error), str(error)))
    return x + 1, told


def test_given_values_are_guarded() -> None:
    def fn(x: torch.Tensor, given: Any) -> Any:
        return (x * given[0], given) if isinstance(given, tuple) else (x, given + given, given)

    compiled = dynajit.compile(fn, backend="eager")
    x = T(3)
    for given in (Items((1, 2)), Items((1, 3)), Items((2,)), Pair(1, 2), (1, 2), Name("a"), Name("b"), "a",
                  Ratio(1.0), Ratio(2.0), Ratio(3.0), 1.0, Count(1), Count(2), 2, Modular(1)):  # fmt: skip
        got, want = compiled(x, given), fn(x, given)
        assert torch.equal(got[0], want[0])
        assert got[-1] is given
        assert type(got[1]) is type(want[1])
        assert got[1:] == want[1:]
    dynajit.reset()
