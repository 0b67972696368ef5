"""Python's own constructs, many in one program each: right in any case, and captured whole where they can be."""

import types
import warnings

import pytest
import torch
from language import RIGHT, WHOLE, T, telling

import dynajit
from dynajit import events


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, types.SimpleNamespace):
        return same(vars(a), vars(b))
    return a == b or repr(a) == repr(b)


def check(fn):
    """Run it compiled twice, against eager; returns what broke the graph."""
    dynajit.reset()
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = fn(T(2))
        with events.subscribed(seen.append):
            compiled = dynajit.compile(fn, backend="eager")
            for _ in range(2):
                found = compiled(T(2))
                assert same(found, expected), f"{found} instead of {expected}"
    skipped = [event.detail for event in seen if isinstance(event, events.FrameSkipped)]
    assert not skipped, skipped
    return [e.record.end.detail for e in seen if isinstance(e, events.EntryAdded) and e.record.end is not None]


@pytest.mark.parametrize("name", WHOLE)
def test_captured_whole(name):
    assert check(WHOLE[name]) == []


@pytest.mark.parametrize("name", RIGHT)
def test_right_with_breaks(name):
    assert check(RIGHT[name]) != []


def test_a_scripted_function_that_prints_does_so_once_a_call(capfd):
    def f(x):
        return telling(x) + 1

    dynajit.reset()
    compiled = dynajit.compile(f, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(T(2)), f(T(2)))
        assert capfd.readouterr().out.count("scripted") == 2
