"""A break inside a long loop: a constant number of graphs, constant stack, the right order."""

import pytest
import torch
from programs import T

import dynajit
from dynajit import events


def count_graphs(fn, *args):
    seen = []
    with events.subscribed(seen.append):
        result = dynajit.compile(fn, backend="eager")(*args)
    added = [event for event in seen if isinstance(event, events.EntryAdded)]
    return result, sum(event.record.graph is not None for event in added), len(added)


def plain_print(x, n):
    for i in range(n):
        x = x * 1.0001
        print(i)
    return x


def counted(x, n):
    total = 0
    for i in range(n):
        x = x + i
        print(total)
        total += i
        x = x - total
    return x, total


def collecting(x, n):
    out = []
    for i in range(n):
        y = x * i
        print(i)
        out.append(y + 1)
    return out


def with_while(x, n):
    i = 0
    while i < n:
        x = x + 1
        print(i)
        i += 1
    return x * i


def in_try(x, n):
    for i in range(n):
        try:
            x = x + 1
            if i % 100 == 5:
                raise ValueError(i)
            print(i)
        except ValueError as error:
            print("error", error)
        finally:
            x = x * 1.001
    return x


@pytest.mark.parametrize("fn", [plain_print, counted, collecting, with_while])
def test_ten_thousand_turns(fn, capsys):
    want = fn(T(3), 10_000)
    printed = capsys.readouterr().out
    got, graphs, entries = count_graphs(fn, T(3), 10_000)
    assert capsys.readouterr().out == printed
    assert torch.equal(
        torch.stack(got[:10]) if isinstance(got, list) else got[0] if isinstance(got, tuple) else got,
        torch.stack(want[:10]) if isinstance(want, list) else want[0] if isinstance(want, tuple) else want,
    )
    assert graphs <= 4
    assert entries <= 8


def test_breaks_and_exceptions_in_a_loop(capsys):
    want = in_try(T(3), 300)
    printed = capsys.readouterr().out
    got, _, entries = count_graphs(in_try, T(3), 300)
    assert capsys.readouterr().out == printed
    assert torch.equal(got, want)
    assert entries <= 12
