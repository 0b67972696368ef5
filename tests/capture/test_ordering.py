"""Heaps, bisection, sorting by a comparison of one's own."""

import bisect
import functools
import heapq

import pytest
import torch
from programs import Program, T, program

import dynajit

GIVEN = [7, 3, 9, 1]


class Task:
    def __init__(self, rank, what):
        self.rank, self.what = rank, what

    def __lt__(self, other):
        SEEN.append((self.rank, other.rank))
        return self.rank < other.rank


SEEN = []


@program(T(3))
def a_heap_of_numbers(x):
    heap = [5, 2, 8]
    heapq.heapify(heap)
    for number in (7, 1, 9, 1, 4):
        heapq.heappush(heap, number)
    out = [heapq.heappop(heap), heapq.heapreplace(heap, 6), heapq.heappushpop(heap, 0), heapq.heappushpop(heap, 10)]
    return x * out[0], out, heap


@program(T(3), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 11])
def a_given_heap(x, heap):
    heapq.heapify(heap)
    heapq.heappush(GIVEN, 0)
    return x + heapq.heappop(heap)


@program(T(3))
def tensors_by_rank(x):
    heap = []
    for rank, other in ((3, x), (1, x * 2), (2, x + 1)):
        heapq.heappush(heap, (rank, other))
    return [heapq.heappop(heap)[1] - 1 for _ in range(3)]


@program(T(3))
def objects_that_compare_themselves(x):
    heap = [Task(rank, x * rank) for rank in (4, 2, 6, 1, 3)]
    heapq.heapify(heap)
    heapq.heappush(heap, Task(0, x))
    first, last = heapq.heappop(heap), sorted(heap)[-1]
    heap.sort()
    return first.what, last.what, [task.rank for task in heap], max(heap).rank


@program(T(3))
def the_few_largest(x):
    numbers = [4, 1, 7, 3, 9]
    few = [heapq.nlargest(2, numbers), heapq.nsmallest(2, numbers), heapq.nsmallest(1, numbers), heapq.nlargest(9, [])]
    return x + 1, few, heapq.nlargest(2, numbers, key=lambda n: -n), heapq.nsmallest(2, numbers, key=lambda n: n % 4)


@program(T(3))
def the_largest_with_tensors(x):
    rows = [(name, i, x * i) for i, name in enumerate("cab")]
    return heapq.nlargest(1, rows)[0][2] + 1, heapq.nsmallest(2, rows)[1][2] * 2


@program(T(3))
def sorted_streams_together(x):
    both = list(heapq.merge([1, 4, 6], [2, 3, 9], (0,)))
    down = list(heapq.merge([6, 4], [9, 3, 2], reverse=True))
    return x * both[1], both, down, list(heapq.merge(["bb"], ["a", "ccc"], key=len)), list(heapq.merge())


@program(T(3))
def empty_heaps(x):
    told = []
    for act in (lambda: heapq.heappop([]), lambda: heapq.heapreplace([], 1), lambda: heapq.heappushpop([], 3)):
        try:
            told.append(act())
        except IndexError as error:
            told.append(str(error))
    return x + 1, told


@program(T(3))
def what_is_left_of_a_heap_after_an_error(x):
    heap = [1, 2, 3]
    try:
        heapq.heappush(heap, "text")
    except TypeError as error:
        return x + 1, heap, str(error)


@program(T(3))
def what_is_left_of_a_list_after_an_error(x):
    items = [5, 3, 1, "text", 0]
    try:
        items.sort()
    except TypeError as error:
        return x + 1, items, str(error)


@program(T(3))
def places_in_a_sorted_list(x):
    numbers = [1, 3, 3, 5]
    places = [bisect.bisect(numbers, 3), bisect.bisect_left(numbers, 3), bisect.bisect_right(numbers, 9)]
    places += [bisect.bisect_left(numbers, 3, 2), bisect.bisect(numbers, 3, 0, 1), bisect.bisect(numbers, 2, hi=3)]
    bisect.insort(numbers, 4)
    bisect.insort_left(numbers, 3, key=lambda n: n)
    return x * places[0], places, numbers, bisect.bisect([(1, x), (3, x)], 2, key=lambda pair: pair[0])


@program(T(3))
def a_bad_place(x):
    try:
        return bisect.bisect([1, 2], 1, -1)
    except ValueError as error:
        return x + 1, str(error)


@program(T(3))
def sorted_by_a_comparison(x):
    by_length = functools.cmp_to_key(lambda a, b: len(a) - len(b) or (a > b) - (a < b))
    words = ["bb", "a", "ccc", "ab"]
    words.sort(key=by_length, reverse=True)
    pairs = sorted([(2, x), (1, x + 1)], key=functools.cmp_to_key(lambda a, b: a[0] - b[0]))
    return pairs[0][1] * 2, words, max(words, key=by_length), by_length("a") < by_length("b"), by_length(3).obj


@program(T(3))
def comparison_keys_that_leave(x):
    key = functools.cmp_to_key(difference)
    made = key(3)
    return x + 1, (made < key(4), made == key(3), made != key(3)), made.obj


def difference(a, b):
    return a - b


@program(T(3))
def sequences_in_order(x):
    pairs = [(2, x), (1, x), (2, x)]
    return (1, x) < (2, x), [1, x] >= [1, x], (1, x) < (1, x, 2), (x,) > (), sorted(pairs[:2])[0][1] * 2


def by_the_data(x):
    heap = []
    for part in (x[1], x[0], x[2]):
        heapq.heappush(heap, part)
    return heapq.heappop(heap), sorted([x[0], x[1]])[0], bisect.bisect([x[0]], x[1])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_data_decides(seed):
    Program(by_the_data, (T(3, seed=seed),), graphs=None, breaks=None).check()


def test_a_comparison_key_is_returned():
    def fn(x):
        key = functools.cmp_to_key(difference)
        return x + 1, key, key(2)

    _, key, two = dynajit.compile(fn, backend="eager")(torch.ones(2))
    assert key(1) < two
    assert two.obj == 2
    dynajit.reset()
