"""Guard programs: what each accessor finds, what each check accepts, and when stamps are renewed."""

from __future__ import annotations

import builtins
import collections
import math
import types
from typing import Any

import pytest
from framekit import calling, fetch, holds

from dynajit import frame
from dynajit.frame import (
    ABSENT,
    ATTR,
    BUILTINS,
    CALL,
    CELL,
    CODE,
    CONST,
    DICT,
    DICT_VALUES,
    EMPTY,
    EQUALS,
    FREE,
    FUNCTION,
    GLOBALS,
    INSTANCE,
    INSTANCE_VALUES,
    IS,
    IS_NOT,
    ITEM,
    KEYS,
    LENGTH,
    LOCAL,
    MISSING,
    NOT_SAME,
    PREDICATE,
    PRESENT,
    RELATION,
    SAME,
    SIZE,
    SLOT,
    STATE,
    TYPE,
    TYPE_ATTR,
    TYPE_ATTRS,
    TYPE_IS,
)


class Plain:
    shared = "of the class"

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    @property
    def computed(self) -> str:
        return "computed"


class Loud:
    """Any look at its attributes is an error."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"{name} was read")


class Slotted:
    __slots__ = ("x", "y")


# ---- accessors ----


def test_roots() -> None:
    value, empty = 5, None

    def func(a, b):
        return value, empty

    nodes = [
        (-1, LOCAL, 1, ()),
        (-1, GLOBALS, None, ()),
        (-1, BUILTINS, None, ()),
        (-1, FUNCTION, None, ()),
        (-1, CONST, "const", ()),
        (-1, FREE, 0, ()),
        (-1, FREE, 2, ()),
        (-1, LOCAL, 2, ()),
        (-1, CALL, lambda: "called", ()),
    ]
    found = calling(nodes, 1, 2, inputs=range(9), func=func)
    assert func.__closure__ is not None
    assert found == (
        2,
        globals(),
        builtins.__dict__,
        func,
        "const",
        func.__closure__[0],
        MISSING,
        MISSING,
        "called",
    )


def test_attr() -> None:
    assert fetch(ATTR, "computed", Plain()) == "computed"
    assert fetch(ATTR, "nothing", Plain()) is MISSING
    assert fetch(ATTR, "x", MISSING) is MISSING


def test_dict() -> None:
    plain = Plain(x=1)
    assert fetch(DICT, None, plain) is plain.__dict__
    empty = Plain()
    assert fetch(DICT, None, empty) is empty.__dict__
    assert fetch(DICT, None, math) is math.__dict__
    assert fetch(DICT, None, Slotted()) is MISSING
    assert fetch(DICT, None, 3) is MISSING

    def function() -> None: ...

    assert fetch(DICT, None, function) is function.__dict__


def test_instance() -> None:
    plain = Plain(x=1, y=2)
    assert fetch(INSTANCE, "x", plain) == 1
    assert fetch(INSTANCE, "y", plain) == 2
    assert fetch(INSTANCE, "z", plain) is MISSING
    assert fetch(INSTANCE, "shared", plain) is MISSING
    del plain.x  # type: ignore[attr-defined]
    assert fetch(INSTANCE, "x", plain) is MISSING
    plain.__dict__["w"] = 4
    assert fetch(INSTANCE, "w", plain) == 4
    assert fetch(INSTANCE, "y", plain) == 2
    loud = Loud()
    object.__setattr__(loud, "secret", 7)
    assert fetch(INSTANCE, "secret", loud) == 7
    assert fetch(INSTANCE, "x", Slotted()) is MISSING
    assert fetch(INSTANCE, "pi", math) == math.pi
    plain.__dict__ = {"x": "replaced"}
    assert fetch(INSTANCE, "x", plain) == "replaced"


def test_instance_with_a_node_that_lives_longer_than_the_layout() -> None:
    check = frame.Check([(-1, LOCAL, 0, ()), (0, INSTANCE, "c", ())], [1])
    first, second = Plain(a=1, b=2, c=3), Plain(c=30)
    for _ in range(3):
        assert check.run(test_attr, (first,)) == (3,)
        assert check.run(test_attr, (second,)) == (30,)
        assert check.run(test_attr, (Plain(a=1),)) == (MISSING,)
    name = "".join(["d", "ynamic"])
    odd = Plain()
    object.__setattr__(odd, name, 1)
    assert fetch(INSTANCE, "dynamic", odd) == 1


def test_slot() -> None:
    obj = Slotted()
    assert fetch(SLOT, "x", obj) is MISSING
    obj.x = 3
    assert fetch(SLOT, "x", obj) == 3
    assert fetch(SLOT, "z", obj) is MISSING
    assert fetch(SLOT, "computed", Plain()) is MISSING
    Plain.borrowed = Slotted.__dict__["x"]  # type: ignore[attr-defined]
    assert fetch(SLOT, "borrowed", Plain()) is MISSING
    del Plain.borrowed  # type: ignore[attr-defined]


def test_item() -> None:
    assert fetch(ITEM, "a", {"a": 1}) == 1
    assert fetch(ITEM, "b", {"a": 1}) is MISSING
    assert fetch(ITEM, (1, 2), {(1, 2): "t"}) == "t"
    assert fetch(ITEM, 1, [1, 2]) == 2
    assert fetch(ITEM, -1, (1, 2)) == 2
    assert fetch(ITEM, 2, [1, 2]) is MISSING
    assert fetch(ITEM, -3, [1, 2]) is MISSING
    assert fetch(ITEM, 2**70, [1, 2]) is MISSING
    assert fetch(ITEM, 2**70, {2**70: "big"}) == "big"
    counts: Any = collections.defaultdict(int)
    assert fetch(ITEM, "a", counts) is MISSING
    assert not counts
    assert fetch(ITEM, 0, "text") is MISSING


def test_item_of_a_dict_whose_keys_move() -> None:
    """The place where a key was is looked at first, and never believed."""

    def dynamic(text: str) -> str:
        return "".join(list(text))  # equal, and another object

    check = frame.Check([(-1, LOCAL, 0, ()), (0, ITEM, "key 2", ())], [1])
    numbers = {dynamic(f"key {i}"): i for i in range(5)}
    big = {dynamic(f"key {i}"): -i for i in range(300)}
    mixed: dict[Any, Any] = {1: "one", "key 2": "two", (3,): "three"}
    late = dict(reversed(big.items()))

    class Split:
        def __init__(self) -> None:
            self.__dict__.update({"key 1": 1, "key 2": 22})

    for _ in range(3):
        for table in (
            numbers,
            big,
            mixed,
            late,
            vars(Split()),
            collections.OrderedDict(numbers),
            {},
            {"key 2": "alone"},
        ):
            assert check.run(test_item, (table,)) == (table.get("key 2", MISSING),)
    del numbers["key 2"]
    assert check.run(test_item, (numbers,)) == (MISSING,)
    numbers["key 2"] = 7
    assert check.run(test_item, (numbers,)) == (7,)
    numbers["key 2"] = 8
    assert check.run(test_item, (numbers,)) == (8,)
    del numbers["key 0"], numbers["key 1"]
    for i in range(100):
        numbers[f"more {i}"] = i  # another table of keys
        assert check.run(test_item, (numbers,)) == (8,)
    numbers.clear()
    assert check.run(test_item, (numbers,)) == (MISSING,)


def test_type_and_type_attr() -> None:
    assert fetch(TYPE, None, 3) is int
    assert fetch(TYPE_ATTR, "computed", Plain) is Plain.__dict__["computed"]
    assert fetch(TYPE_ATTR, "nothing", Plain) is MISSING
    assert fetch(TYPE_ATTR, "real", 3) is MISSING


def test_cell() -> None:
    assert fetch(CELL, None, types.CellType(4)) == 4
    assert fetch(CELL, None, types.CellType()) is MISSING
    assert fetch(CELL, None, 4) is MISSING


def test_call() -> None:
    assert fetch(CALL, len, "abc") == 3
    assert fetch(CALL, len, MISSING) is MISSING


def test_an_accessor_that_raises_fails_the_check() -> None:
    assert calling([(-1, CONST, Loud(), ()), (0, ATTR, "x", ())]) is None
    with pytest.raises(KeyboardInterrupt):
        calling([(-1, CONST, 0, ((PREDICATE, interrupt),))])


def interrupt(value: object) -> bool:
    raise KeyboardInterrupt


def test_more_nodes_than_fit_on_the_stack() -> None:
    deep: Any = 0
    nodes: list[Any] = [(-1, LOCAL, 0, ())]
    for i in range(500):
        deep = [deep]
        nodes.append((i, ITEM, 0, ()))
    found = calling(nodes, deep, inputs=range(501))
    assert found is not None
    assert found[500] == 0
    assert found[0] is deep


# ---- checks ----


def test_identity_and_type() -> None:
    obj = object()
    assert holds(obj, IS, obj)
    assert not holds(object(), IS, obj)
    assert holds(object(), IS_NOT, obj)
    assert not holds(obj, IS_NOT, obj)
    assert holds(3, TYPE_IS, int)
    assert not holds(True, TYPE_IS, int)


def test_presence() -> None:
    assert holds(3, PRESENT)
    assert not holds(MISSING, PRESENT)
    assert holds(MISSING, ABSENT)
    assert not holds(None, ABSENT)
    assert not MISSING
    assert repr(MISSING) == "MISSING"


NAN = float("nan")
EQUAL: list[tuple[Any, Any]] = [
    (3, 3),
    (10**30, 10**30),
    ("ab", "".join(["a", "b"])),
    (b"ab", bytes([97, 98])),
    (None, None),
    (0.5, 0.5),
    (NAN, float("nan")),
    (-0.0, -0.0),
    (1j, 1j),
    (complex(NAN, 1), complex(NAN, 1)),
    ((1, ("a", 2.0)), (1, ("a", 2.0))),
    (frozenset({1, ("a", 2.0)}), frozenset({("a", 2.0), 1})),
    (slice(1, None, 2), slice(1, None, 2)),
    (range(1, 5), range(1, 5)),
    (..., ...),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (3, 4),
    (1, True),
    (1, 1.0),
    (1.0, 1),
    (0.0, -0.0),
    (NAN, 1.0),
    (NAN, -NAN),
    (complex(0.0, 0.0), complex(0.0, -0.0)),
    ("a", b"a"),
    ((1,), (True,)),
    ((1, 2), (1, 2, 3)),
    ((0.0,), (-0.0,)),
    (frozenset({1}), frozenset({True})),
    (frozenset({1, 2}), frozenset({1, 3})),
    (frozenset({0.0}), frozenset({-0.0})),
    (slice(0), slice(False)),
    (range(0), range(1, 1)),
    ((1, 2), [1, 2]),
]


def written(value: Any) -> str:
    """The test's name for `value`: its repr, but a set's elements in an order that is the same in every process."""
    return f"frozenset{sorted(value, key=repr)}" if isinstance(value, frozenset) else repr(value)


@pytest.mark.parametrize(("value", "expected"), EQUAL, ids=written)
def test_equal(value: Any, expected: Any) -> None:
    assert holds(value, EQUALS, expected)


@pytest.mark.parametrize(("value", "expected"), DIFFERENT, ids=written)
def test_different(value: Any, expected: Any) -> None:
    assert not holds(value, EQUALS, expected)
    assert not holds(expected, EQUALS, value)


def test_equals_of_a_class_that_compares_as_it_likes() -> None:
    class Fails:
        def __eq__(self, other: object) -> bool:
            raise ValueError

        __hash__ = object.__hash__

    one = Fails()
    assert holds(one, EQUALS, one)
    assert not holds(Fails(), EQUALS, one)


def test_length() -> None:
    class Lying(list[int]):
        def __len__(self) -> int:
            return 99

    for value in ([1, 2], (1, 2), {1: 1, 2: 2}, {1, 2}, "ab", b"ab", collections.deque([1, 2]), Lying([1, 2])):
        assert holds(value, LENGTH, 2)
        assert not holds(value, LENGTH, 3)
    assert not holds(3, LENGTH, 3)
    assert not holds(MISSING, LENGTH, 0)


def test_keys() -> None:
    assert holds({"a": 1, "b": 2}, KEYS, ("a", "b"))
    assert not holds({"b": 1, "a": 2}, KEYS, ("a", "b"))
    assert not holds({"a": 1}, KEYS, ("a", "b"))
    assert not holds({True: 1}, KEYS, (1,))
    assert holds({1: 1, (2,): 2}, KEYS, (1, (2,)))
    assert not holds([1], KEYS, (1,))
    ordered = collections.OrderedDict(a=1, b=2)
    assert holds(ordered, KEYS, ("a", "b"))
    ordered.move_to_end("a")
    assert holds(ordered, KEYS, ("b", "a"))
    assert not holds(ordered, KEYS, ("a", "b"))


def test_type_attrs_are_looked_at_again_only_when_the_type_changed() -> None:
    class Base:
        def method(self) -> None: ...

    class Sub(Base):
        pass

    method = Base.method
    check = frame.Check([(-1, LOCAL, 0, ((TYPE_ATTRS, {"method": method, "other": MISSING}),))])
    for _ in range(3):
        assert check.run(test_attr, (Sub,)) is not None
    Base.unrelated = 1  # type: ignore[attr-defined]
    assert check.run(test_attr, (Sub,)) is not None
    Sub.method = lambda self: None  # type: ignore[method-assign]
    assert check.run(test_attr, (Sub,)) is None
    assert check.explain(test_attr, (Sub,)) == (0, 0, Sub)
    del Sub.method
    assert check.run(test_attr, (Sub,)) is not None
    Base.other = 1  # type: ignore[attr-defined]
    assert check.run(test_attr, (Sub,)) is None
    assert check.run(test_attr, (Sub(),)) is None
    assert check.run(test_attr, (int,)) is None


def test_type_attrs_of_a_type_that_changed_too_often_for_a_version() -> None:
    class Busy:
        value = 0

    marker = object()
    Busy.value = marker  # type: ignore[assignment]
    check = frame.Check([(-1, LOCAL, 0, ((TYPE_ATTRS, {"value": marker}),))])
    for i in range(3000):
        Busy.count = i  # type: ignore[attr-defined]
        assert check.run(test_attr, (Busy,)) is not None
    Busy.value = None  # type: ignore[assignment]
    assert check.run(test_attr, (Busy,)) is None


def test_type_attrs_notice_new_bases() -> None:
    class One:
        value = "one"

    class Two:
        value = "two"

    class Sub(One):
        pass

    check = frame.Check([(-1, LOCAL, 0, ((TYPE_ATTRS, {"value": One.value}),))])
    assert check.run(test_attr, (Sub,)) is not None
    assert check.run(test_attr, (Sub,)) is not None
    Sub.__bases__ = (Two,)
    assert check.run(test_attr, (Sub,)) is None


CHANGES: list[Any] = [
    lambda namespace: namespace.__setitem__("name", "other"),
    lambda namespace: namespace.pop("name"),
    lambda namespace: namespace.update(name="other"),
    lambda namespace: namespace.clear(),
    lambda namespace: namespace.__delitem__("name"),
    lambda namespace: namespace.popitem(),
    lambda namespace: namespace.__ior__({"name": "other"}),
    lambda namespace: exec("name = 'other'", namespace),
    lambda namespace: exec("del name", namespace),
    lambda namespace: namespace.__setitem__("absent", 1),
    lambda namespace: namespace.setdefault("absent", 1),
]


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
def test_dict_values_notice_each_change(change: Any) -> None:
    expected = object()
    namespace = {"__builtins__": {}, "name": expected}
    check = frame.Check([(-1, LOCAL, 0, ((DICT_VALUES, {"name": expected, "absent": MISSING}),))])
    for _ in range(3):
        assert check.run(test_attr, (namespace,)) is not None
    change(namespace)
    assert check.run(test_attr, (namespace,)) is None
    assert check.run(test_attr, (namespace,)) is None
    namespace.pop("absent", None)
    namespace["name"] = expected
    assert check.run(test_attr, (namespace,)) is not None


def test_dict_values_pass_when_something_else_changed() -> None:
    expected = object()
    namespace: dict[str, Any] = {"name": expected}
    check = frame.Check([(-1, LOCAL, 0, ((DICT_VALUES, {"name": expected}),))])
    for i in range(100):
        namespace[f"other{i}"] = i
        assert check.run(test_attr, (namespace,)) is not None


def test_dict_values_of_an_instance_dict_notice_attribute_writes() -> None:
    expected = object()
    check = frame.Check([(-1, LOCAL, 0, ()), (0, DICT, None, ((DICT_VALUES, {"x": expected, "z": MISSING}),))])

    def write(obj: Any, value: object) -> None:
        obj.x = value

    def write_z(obj: Any, value: object) -> None:
        obj.z = value

    for _ in range(100):  # long enough for the writes to be specialised
        obj = Plain(x=expected, y=2)
        assert check.run(test_attr, (obj,)) is not None
        assert check.run(test_attr, (obj,)) is not None
        write(obj, 5)
        assert check.run(test_attr, (obj,)) is None
        write(obj, expected)
        assert check.run(test_attr, (obj,)) is not None
        write_z(obj, 1)
        assert check.run(test_attr, (obj,)) is None
        del obj.z  # type: ignore[attr-defined]
        assert check.run(test_attr, (obj,)) is not None
        del obj.x  # type: ignore[attr-defined]
        assert check.run(test_attr, (obj,)) is None
        obj.__dict__ = {"x": expected}
        assert check.run(test_attr, (obj,)) is not None
        assert check.run(test_attr, (obj,)) is not None
        write(obj, 5)
        assert check.run(test_attr, (obj,)) is None


@pytest.mark.parametrize("count", [1, 29, 31, 200])
def test_dict_values_of_large_instances_notice_attribute_writes(count: int) -> None:
    expected = object()
    check = frame.Check([(-1, LOCAL, 0, ()), (0, DICT, None, ((DICT_VALUES, {"x": expected}),))])

    class Large(Plain):
        pass

    def write(obj: Any, value: object) -> None:
        obj.x = value

    for _ in range(100):
        obj = Large(**{f"a{i}": i for i in range(count)}, x=expected)
        for _ in range(2):
            assert check.run(test_attr, (obj,)) is not None
            assert check.run(test_attr, (obj,)) is not None
            write(obj, 5)
            assert check.run(test_attr, (obj,)) is None
            write(obj, expected)


def test_dict_values_tell_dicts_apart() -> None:
    expected = object()
    check = frame.Check([(-1, LOCAL, 0, ((DICT_VALUES, {"x": expected}),))])
    assert check.run(test_attr, ({"x": expected},)) is not None
    assert check.run(test_attr, ({"x": 1},)) is None
    assert check.run(test_attr, ({},)) is None
    assert check.run(test_attr, (3,)) is None
    assert calling([(-1, CONST, {}, ((DICT_VALUES, {"x": MISSING}),))]) is not None


def test_code_compares_by_identity_then_asks_and_remembers() -> None:
    def make() -> Any:
        namespace: dict[str, Any] = {}
        exec("def fn(x): return x", namespace)
        return namespace["fn"]

    first, second = make(), make()
    asked: list[Any] = []

    def equal(actual: Any, expected: Any) -> bool:
        asked.append((actual, expected))
        return bool(actual == expected)

    check = frame.Check([(-1, LOCAL, 0, ((CODE, first.__code__),))])
    assert check.run(test_attr, (first,)) is not None
    assert check.run(test_attr, (second,)) is None
    frame.set_code_equal(equal)
    try:
        assert check.run(test_attr, (second,)) is not None
        assert check.run(test_attr, (second,)) is not None
        assert asked == [(second.__code__, first.__code__)]
        assert check.run(test_attr, (make,)) is None
        assert check.run(test_attr, (len,)) is None
    finally:
        frame.set_code_equal(None)


def test_same_and_not_same() -> None:
    one, other = [1], [1]
    same = [(-1, LOCAL, 0, ()), (-1, LOCAL, 1, ((SAME, 0),))]
    different = [(-1, LOCAL, 0, ()), (-1, LOCAL, 1, ((NOT_SAME, 0),))]
    assert calling(same, one, one) is not None
    assert calling(same, one, other) is None
    assert calling(different, one, other) is not None
    assert calling(different, one, one) is None


def test_state() -> None:
    state = {"mode": 1}
    nodes = [(-1, CONST, None, ((STATE, ((lambda: state["mode"], 1), (lambda: "x", "x"))),))]
    assert calling(nodes) is not None
    state["mode"] = 2
    assert calling(nodes) is None
    state["mode"] = True
    assert calling(nodes) is None
    del state["mode"]
    assert calling(nodes) is None


def test_predicate() -> None:
    assert holds(3, PREDICATE, lambda x: x > 2)
    assert not holds(1, PREDICATE, lambda x: x > 2)
    assert not holds("a", PREDICATE, lambda x: x > 2)
    assert not holds(MISSING, PREDICATE, lambda x: True)


def holder(*, made: bool, **values: Any) -> Plain:
    """An instance with these attributes, whose dict exists or not."""
    obj = Plain(**values)
    if made:
        assert obj.__dict__ == values
    return obj


@pytest.mark.parametrize("made", [True, False])
def test_empty(made: bool) -> None:
    hooks: dict[int, int] = {}
    obj = holder(made=made, first=hooks, second=collections.OrderedDict())
    check = frame.Check([(-1, LOCAL, 0, ((EMPTY, {"first": True, "second": True}),))])
    for _ in range(2):
        assert check.run(test_empty, (obj,)) is not None
    hooks[1] = 2
    assert check.run(test_empty, (obj,)) is None
    del hooks[1]
    assert check.run(test_empty, (obj,)) is not None
    obj.second = {1: 2}
    assert check.run(test_empty, (obj,)) is None
    obj.second = []
    assert check.run(test_empty, (obj,)) is None
    del obj.second
    assert check.run(test_empty, (obj,)) is None
    obj.second = {}
    assert check.run(test_empty, (obj,)) is not None
    for other in (holder(made=made, first={}, second={1: 1}), MISSING, 3, []):
        assert check.run(test_empty, (other,)) is None
    assert check.run(test_empty, (holder(made=made, second={}, first={}),)) is not None


@pytest.mark.parametrize("made", [True, False])
def test_instance_values(made: bool) -> None:
    one = object()
    check = frame.Check([(-1, LOCAL, 0, ((INSTANCE_VALUES, {"first": one, "second": MISSING}),))])
    obj = holder(made=made, first=one)
    for _ in range(2):
        assert check.run(test_empty, (obj,)) is not None
    obj.second = 1
    assert check.run(test_empty, (obj,)) is None
    del obj.second
    assert check.run(test_empty, (obj,)) is not None
    obj.first = 1
    assert check.run(test_empty, (obj,)) is None
    assert check.run(test_empty, (MISSING,)) is None
    only_absent = frame.Check([(-1, LOCAL, 0, ((INSTANCE_VALUES, {"second": MISSING}),))])
    for other in (Slotted(), 3, holder(made=made)):
        assert only_absent.run(test_empty, (other,)) is not None


def test_relation() -> None:
    nodes = [(-1, LOCAL, 0, ()), (-1, LOCAL, 1, ((RELATION, lambda a, b: a < b, (0, 1)),))]
    assert calling(nodes, 1, 2) is not None
    assert calling(nodes, 2, 1) is None
    assert calling(nodes, 1, "x") is None
    missing = [(-1, LOCAL, 0, ()), (0, ATTR, "nothing", ((RELATION, lambda a, b: True, (0, 1)),))]
    assert calling(missing, 1) is None


def test_explain_names_the_first_failure() -> None:
    check = frame.Check(
        [
            (-1, LOCAL, 0, ((TYPE_IS, list), (LENGTH, 2))),
            (0, ITEM, 1, ((TYPE_IS, int), (EQUALS, 5))),
            (1, ATTR, "real", ()),
        ],
        [1],
    )
    assert check.explain(test_attr, ([0, 5],)) is None
    assert check.run(test_attr, ([0, 5],)) == (5,)
    assert check.explain(test_attr, ((0, 5),)) == (0, 0, (0, 5))
    assert check.explain(test_attr, ([0],)) == (0, 1, [0])
    assert check.explain(test_attr, ([0, 6],)) == (1, 1, 6)
    raising = frame.Check([(-1, LOCAL, 0, ()), (0, ATTR, "x", ())])
    assert raising.explain(test_attr, (Loud(),)) == (1, -1, MISSING)


BAD: list[tuple[Any, type[Exception]]] = [
    ([(0, LOCAL, 0, ())], ValueError),
    ([(-2, LOCAL, 0, ())], ValueError),
    ([(-1, ATTR, "x", ())], ValueError),
    ([(-1, LOCAL, 0, ()), (0, GLOBALS, None, ())], ValueError),
    ([(-1, LOCAL, -1, ())], ValueError),
    ([(-1, LOCAL, "x", ())], TypeError),
    ([(-1, 99, 0, ())], ValueError),
    ([(-1, LOCAL, 0)], TypeError),
    ([3], TypeError),
    ([(-1, LOCAL, 0, ((IS,),))], TypeError),
    ([(-1, LOCAL, 0, ((PRESENT, 1),))], TypeError),
    ([(-1, LOCAL, 0, ((99,),))], ValueError),
    ([(-1, LOCAL, 0, ((),))], TypeError),
    ([(-1, LOCAL, 0, ((SAME, 1),))], ValueError),
    ([(-1, LOCAL, 0, ((TYPE_IS, 3),))], TypeError),
    ([(-1, LOCAL, 0, ((KEYS, [1]),))], TypeError),
    ([(-1, LOCAL, 0, ((TYPE_ATTRS, {1: 2}),))], TypeError),
    ([(-1, LOCAL, 0, ((DICT_VALUES, [1]),))], TypeError),
    ([(-1, LOCAL, 0, ((STATE, (1,)),))], TypeError),
    ([(-1, LOCAL, 0, ((STATE, ((1, 2),)),))], TypeError),
    ([(-1, LOCAL, 0, ((PREDICATE, 3),))], TypeError),
    ([(-1, LOCAL, 0, ((EMPTY, ["x"]),))], TypeError),
    ([(-1, LOCAL, 0, ((INSTANCE_VALUES, {1: 2}),))], TypeError),
    ([(-1, LOCAL, 0, ((RELATION, len),))], TypeError),
    ([(-1, LOCAL, 0, ((RELATION, 3, (0,)),))], TypeError),
    ([(-1, LOCAL, 0, ((RELATION, len, [0]),))], TypeError),
    ([(-1, LOCAL, 0, ((RELATION, len, (1,)),))], ValueError),
    ([(-1, LOCAL, 0, ((RELATION, len, (0,) * 9),))], TypeError),
    ([(-1, LOCAL, 0, ((CODE, len),))], TypeError),
    ([(-1, LOCAL, 0, ()), (0, SIZE, -1, ())], ValueError),
    ([(-1, LOCAL, 0, ()), (0, SIZE, "x", ())], TypeError),
    ([(-1, SIZE, 0, ())], ValueError),
    ([(-1, LOCAL, 0, ()), (0, ATTR, 3, ())], TypeError),
    ([(-1, LOCAL, 0, ()), (0, CALL, 3, ())], TypeError),
]


@pytest.mark.parametrize(("nodes", "error"), BAD, ids=range(len(BAD)))
def test_programs_that_make_no_sense_are_refused(nodes: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        frame.Check(nodes)


def test_inputs_must_exist() -> None:
    with pytest.raises(ValueError, match="no node 1"):
        frame.Check([(-1, LOCAL, 0, ())], [1])
    check = frame.Check([(-1, LOCAL, 0, ())], [0, 0])
    assert check.inputs == (0, 0)
    assert check.nodes == ((-1, LOCAL, 0, ()),)
    assert check.run(test_attr, ("v",)) == ("v", "v")
