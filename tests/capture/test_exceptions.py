"""Exceptions raised and caught inside, and those that leave the function.

PYTEST_DONT_REWRITE
"""

import torch
from programs import T, program


class Custom(ValueError):
    def __init__(self, code, text="custom"):
        super().__init__(f"{text}-{code}")
        self.code = code


def fails(kind):
    raise kind("bad")


@program(T(3))
def caught_by_type(x):
    try:
        fails(KeyError)
    except ValueError:
        return x
    except (TypeError, KeyError) as error:
        x = x + len(error.args)
    else:
        x = x * 100
    finally:
        x = x * 2
    return x


@program(T(3))
def a_class_of_the_user(x):
    try:
        raise Custom(4)
    except Custom as error:
        return x * error.code, str(error), isinstance(error, ValueError)


@program(T(3))
def nested_and_raised_again(x):
    log = []
    try:
        try:
            fails(ValueError)
        except ValueError:
            log.append("inner")
            raise
    except ValueError as error:
        log.append(str(error))
    try:
        try:
            fails(ValueError)
        finally:
            log.append("finally")
    except ValueError:
        pass
    return x + len(log), log


@program(T(3), [1], graphs=1, breaks="DJ-B009")
def side_effects_before_an_error_stay(x, xs):
    y = x * 2
    xs.append(y)
    raise RuntimeError(f"after {len(xs)}")


@program([T(3)], graphs=1, breaks="DJ-B009")
def an_index_error_is_the_same_error(xs):
    y = xs[0] + 1
    xs[0] = y
    return xs[2]


def raises_inside(x):
    y = x + 1
    raise ValueError("from inside")


@program(T(3), graphs=2, breaks="DJ-B009 DJ-B009")
def an_error_from_an_inlined_function(x):
    y = x * 2
    return raises_inside(y)


@program(T(3), T(4), graphs=0, breaks="DJ-D004")
def a_shape_error_is_eagers_own(x, y):
    return x + y


@program(T(3), torch.tensor([5]), graphs=1)
def an_index_error_that_only_the_data_knows(x, i):
    return x[i] + 1


@program(T(3), torch.tensor([5]), graphs=1)
def the_same_inside_try(x, i):
    try:
        return x[i] + 1
    except IndexError:
        return x * 2


@program(T(3))
def stop_iteration_and_next(x):
    it = iter([1])
    a = next(it)
    try:
        next(it)
    except StopIteration:
        a += 5
    return x * a, next(it, 7)


@program(T(3), graphs=0)
def an_unbound_local(x):
    try:
        y = z  # noqa: F821
    except NameError as error:
        return x, str(error)
    return y


@program(T(3))
def arithmetic_errors(x):
    try:
        n = 1 // 0
    except ZeroDivisionError as error:
        n = len(str(error))
    try:
        int("x")
    except ValueError as error:
        text = str(error)
    return x * n, text


@program(T(3), torch.tensor([5]), graphs=1, breaks="DJ-B017")
def a_write_before_a_failure_that_is_caught(x, i):
    try:
        x.add_(1)
        y = x[i]
    except IndexError:
        y = x * 2
    return y


@program(T(3), torch.tensor([5]), [], graphs=1, breaks="DJ-B017")
def changes_before_a_failure_are_kept(x, i, log):
    x.add_(1)
    log.append("written")
    return x[i]


@program(T(3), torch.tensor([1]))
def a_write_and_an_index_without_a_try(x, i):
    x.add_(1)
    return x[i] * 2


@program(T(3), [1], graphs=0, breaks="DJ-B001")
def an_error_passes_a_finally_with_a_break(x, xs):
    try:
        y = xs[2]
    finally:
        for i in list(xs):
            print("p", i)
            x = x + 1
    return x, y


@program(T(3, 3), [], **{"graphs": None, "breaks": None})
def a_write_to_memory_that_it_reads(x, log):
    log.append("before")
    x.add_(x[:1])
    log.append("after")


@program(T(3), T(3), [], **{"graphs": None, "breaks": None})
def booleans_cannot_be_subtracted(x, y, log):
    mask = x > 0
    log.append("before")
    z = 1 - mask
    y.add_(x)
    return z
