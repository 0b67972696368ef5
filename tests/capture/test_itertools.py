"""itertools over containers and over iterators, which they read no further than they must."""

import itertools
import operator

import pytest
from programs import T, program

import dynajit


@program(T(2))
def over_containers(x):
    chained = list(itertools.chain([x], (x + 1, 2), {"a": 1}))
    sliced = list(itertools.islice([1, 2, 3, 4], 1, None)), list(itertools.islice("abcdef", 1, 5, 2))
    repeated, product = list(itertools.repeat(x, 2)), list(itertools.product([1, 2], "ab", repeat=1))
    chosen = list(itertools.combinations([1, 2, 3], 2)), list(itertools.permutations([1, 2, 3], 2))
    return chained, sliced, repeated, product, chosen, list(itertools.chain.from_iterable([[1], [x]]))


@program(T(2))
def they_stop_in_time(x):
    source = iter([1, 2, 3, 4, 5, 6, 7, 8, 9])
    first = list(itertools.islice(source, 1, 4, 2))
    then = next(source)
    joined = itertools.chain(itertools.islice(source, 1), ["end"])
    return x * then, first, list(joined), list(source), list(itertools.islice(itertools.count(2, 3), 2, 5))


@program(T(2))
def without_an_end(x):
    numbers, around = itertools.count(5), itertools.cycle([1, 2, 3])
    turns = [next(around) for _ in range(7)]
    pairs = list(zip(itertools.repeat(x), numbers, [1, 2, 3], strict=False))
    return x + 1, turns, pairs, next(numbers), [i for i, _ in zip(itertools.count(), "abc", strict=False)]


@program(T(2))
def the_rest_of_them(x):
    values = [3, 1, 4, 1, 5]
    return (
        list(itertools.takewhile(lambda v: v != 4, iter(values))), list(itertools.dropwhile(lambda v: v != 4, values)),
        list(itertools.filterfalse(None, [0, 1, 2, 0])), list(itertools.starmap(operator.mul, [(x, 2), (3, 4)])),
        list(itertools.accumulate(values)), list(itertools.accumulate(values, operator.mul, initial=2)),
        list(itertools.accumulate([x, x, x], func=operator.add)), list(itertools.compress("abcd", [1, 0, 1])),
        list(itertools.pairwise(values)),
        list(itertools.zip_longest([1, 2], [3], fillvalue=x)), list(itertools.pairwise([])),
        list(itertools.zip_longest()), list(itertools.accumulate([])),
    )  # fmt: skip


@program(T(2))
def errors_are_eagers(x):
    caught = []
    for bounds in ((-1,), (0, 2, 0), (0, -1)):
        try:
            list(itertools.islice([1, 2], *bounds))
        except ValueError as error:
            caught.append(type(error).__name__)
    try:
        next(itertools.chain([]))
    except StopIteration:
        caught.append("ended")
    return x + len(caught), caught, isinstance(itertools.count(), itertools.count)


@program([T(2), T(2, seed=1), T(2, seed=2)], graphs=(1, 2, 3, 4, 5), breaks="DJ-B001 DJ-B008 DJ-B001")
def a_break_inside_a_loop_over_a_chain(tensors):
    total = tensors[0] * 0
    for tensor in itertools.chain(tensors[1:], tensors[:1]):
        total = total + tensor
        print("turn")
    return total


@pytest.mark.parametrize("make", [lambda v: itertools.chain(iter(v), v), lambda v: itertools.islice(iter(v), 2)])
def test_an_iterator_that_escapes_is_real(make):
    def f(x):
        return make([x + 1, x + 2, x + 3]), x * 2

    compiled = dynajit.compile(f, backend="eager")
    for _ in range(2):
        one, other = f(T(2))[0], compiled(T(2))[0]
        assert type(one) is type(other)
        assert all((a == b).all() for a, b in zip(one, other, strict=True))
