"""Binding: a call of a Dispatcher binds its arguments as CPython does, and fails as CPython does."""

from __future__ import annotations

import re
from typing import Any

import pytest
from framekit import compiled, entry, flat

from dynajit import frame


def nothing():
    return ()


def positional(a, b):
    return a, b


def defaults(a, b=2, c=3):
    return a, b, c


def positional_only(a, b=2, /, c=3):
    return a, b, c


def positional_only_and_varkw(a, /, **kwargs):
    return a, kwargs


def keyword_only(a, *, b, c=3):
    return a, b, c


def varargs(a, *args, b=2):
    return a, args, b


def varkw(a=1, **kwargs):
    return a, kwargs


def everything(a, b=2, /, c=3, *args, d, e=5, **kwargs):
    return a, b, c, args, d, e, kwargs


def with_locals_and_cells(a, b=2, *args, c=3, **kwargs):
    local = [a, b]
    return (lambda: (a, b, args, c, kwargs, local))()


FUNCTIONS = [
    nothing,
    positional,
    defaults,
    positional_only,
    positional_only_and_varkw,
    keyword_only,
    varargs,
    varkw,
    everything,
    with_locals_and_cells,
]
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((1, 2, 3), {}),
    ((1, 2, 3, 4, 5), {}),
    ((), {"a": 1}),
    ((), {"a": 1, "b": 20}),
    ((), {"b": 20, "a": 1}),
    ((1,), {"a": 1}),
    ((1,), {"b": 20}),
    ((1,), {"c": 30}),
    ((1,), {"c": 30, "b": 20}),
    ((1, 2), {"b": 20}),
    ((1,), {"d": 4}),
    ((1, 2, 3), {"d": 4}),
    ((1, 2, 3, 4), {"d": 4, "z": 0, "y": 1}),
    ((1,), {"z": 0, "y": 1}),
    ((1,), {"kwargs": 1, "args": 2}),
    ((1,), {"self": 1}),
]


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_binds_as_cpython_does(fn: Any) -> None:
    for args, kwargs in CALLS:
        frame.clear(fn.__code__)
        dispatcher = compiled(fn, entry(flat(fn.__code__)))
        try:
            expected = fn(*args, **kwargs)
        except TypeError as error:
            with pytest.raises(TypeError, match=re.escape(str(error))):
                dispatcher(*args, **kwargs)
            assert not dispatcher.misses
        else:
            assert dispatcher(*args, **kwargs) == expected
            assert len(dispatcher.misses) == 1
            assert dispatcher(*args, **kwargs) == expected
            assert len(dispatcher.misses) == 1


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_running_natively_gives_the_same(fn: Any) -> None:
    for args, kwargs in CALLS:
        try:
            expected = fn(*args, **kwargs)
        except TypeError:
            continue
        frame.clear(fn.__code__)
        assert compiled(fn)(*args, **kwargs) == expected
        assert compiled(fn, entry(None))(*args, **kwargs) == expected


def test_on_miss_sees_the_slots_in_layout_order() -> None:
    frame.clear(everything.__code__)
    dispatcher = compiled(everything)
    dispatcher(1, c=30, d=4, z=0)
    assert dispatcher.misses == [(everything.__code__, (1, 2, 30, 4, 5, (), {"z": 0}))]


def test_keyword_names_need_not_be_the_same_string_object() -> None:
    dispatcher = compiled(keyword_only, entry(flat(keyword_only.__code__)))
    name = "".join(["", "b"])
    assert dispatcher(1, **{name: 2}) == (1, 2, 3)


def test_names_that_are_not_strings_are_refused_as_cpython_does() -> None:
    with pytest.raises(TypeError, match="keywords must be strings"):
        compiled(varkw)(**{1: 2})  # type: ignore[arg-type]


def test_defaults_are_read_at_each_call() -> None:
    def fn(a, b=2, *, c=3):
        return a, b, c

    dispatcher = compiled(fn, entry(flat(fn.__code__)))
    assert dispatcher(1) == (1, 2, 3)
    fn.__defaults__ = (20,)
    fn.__kwdefaults__ = {"c": 30}
    assert dispatcher(1) == (1, 20, 30)
    dispatcher.__defaults__ = (200,)
    assert fn(1) == dispatcher(1) == (1, 200, 30)
    fn.__kwdefaults__ = None
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'c'"):
        dispatcher(1)


def test_many_parameters() -> None:
    names = [f"p{i}" for i in range(100)]
    namespace: dict[str, Any] = {}
    exec(f"def many({', '.join(names)}, *rest, last=1): return sum([{', '.join(names)}]), rest, last", namespace)
    fn = namespace["many"]
    dispatcher = compiled(fn, entry(flat(fn.__code__)))
    for _ in range(3):
        assert dispatcher(*range(100)) == (sum(range(100)), (), 1)
        assert dispatcher(*range(101), last=5) == (sum(range(100)), (100,), 5)
    assert len(dispatcher.misses) == 1


class Holder:
    @staticmethod
    def plain(x):
        return x

    def method(self, x, y=1):
        return self, x, y


def test_binds_as_a_method() -> None:
    dispatcher = compiled(Holder.method, entry(flat(Holder.method.__code__)))

    class Sub(Holder):
        method = dispatcher
        as_class = classmethod(dispatcher)
        as_static = staticmethod(dispatcher)

    obj = Sub()
    assert obj.method(2) == (obj, 2, 1)
    assert obj.method.__self__ is obj
    assert obj.method.__func__ is dispatcher
    assert Sub.method is dispatcher
    assert Sub.method(obj, 2) == (obj, 2, 1)
    assert obj.as_class(5) == (Sub, 5, 1)
    assert obj.as_static(5, 6) == (5, 6, 1)
    bound = obj.method
    assert bound(3, y=4) == (obj, 3, 4)


def test_a_generator_function_is_called_as_it_is() -> None:
    def generator(n):
        yield from range(n)

    async def coroutine(n):
        return n

    async def async_generator(n):
        yield n

    dispatcher = compiled(generator)
    assert list(dispatcher(3)) == [0, 1, 2]
    running = compiled(coroutine)(3)
    with pytest.raises(StopIteration):
        running.send(None)
    assert hasattr(compiled(async_generator)(1), "asend")
    assert not dispatcher.misses
