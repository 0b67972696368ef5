"""Results go to memory of earlier ones, but only when nobody can see that memory any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.fx import symbolic_trace

from dynajit.backends.native import native
from dynajit.options import Options
from dynajit.runtime.fast_launch import c_module, keep_results, spare_bytes

SIZE = 100_000  # 400 kB


@pytest.fixture
def call() -> Iterator[Callable[[Any], Any]]:
    module = c_module()
    if module is None:
        pytest.skip("the C launcher is not built")
    before = keep_results(module, 2**26)
    fn: Any = native(symbolic_trace(lambda x: (x * 2 + 1,)), [torch.zeros(SIZE)], Options(build="sync")).fn
    yield lambda number: fn(torch.full((SIZE,), float(number)))[0]
    keep_results(module, before)


def _right(result: Any, number: float) -> bool:
    return bool((result == number * 2 + 1).all())


def test_memory_is_used_again(call: Callable[[Any], Any]) -> None:
    places = set()
    for number in range(10):
        result = call(number)
        assert _right(result, number)
        assert (result._version, result._base, result.is_inference()) == (0, None, False)
        places.add(result.data_ptr())
        result.add_(1)
    assert len(places) <= 2


HOLDS: list[Callable[[Any], Any]] = [
    lambda y: y,
    lambda y: y[5:],
    lambda y: y.detach(),
    lambda y: y.data,
    lambda y: y.numpy(),
    lambda y: y.view(10, -1).t(),
    lambda y: y.untyped_storage(),
    lambda y: memoryview(y.numpy()),
    lambda y: torch.utils.dlpack.to_dlpack(y),
    lambda y: (y * torch.ones(SIZE, requires_grad=True)).grad_fn,
    lambda y: torch.nn.Parameter(y),
]


@pytest.mark.parametrize("hold", HOLDS, ids=range(len(HOLDS)))
def test_what_somebody_holds_stays(call: Callable[[Any], Any], hold: Callable[[Any], Any]) -> None:
    call(0), call(0)
    held = [(number, hold(call(number))) for number in range(1, 5)]
    for number in range(10, 16):
        call(number)
    for number, what in held:
        if isinstance(what, torch.UntypedStorage):
            what = torch.tensor([], dtype=torch.float32).set_(what)
        elif type(what).__name__ == "PyCapsule":
            what = torch.utils.dlpack.from_dlpack(what)
        elif type(what).__name__ == "MulBackward0":
            what = what._saved_self
        assert _right(torch.as_tensor(what), number)


def test_memory_that_moved_is_not_used(call: Callable[[Any], Any]) -> None:
    for number in range(6):
        result = call(number)
        assert _right(result, number)
        result.untyped_storage().resize_(0)
    for number in range(6):
        result = call(number)
        assert _right(result, number)
        result.share_memory_()


def test_in_inference_mode(call: Callable[[Any], Any]) -> None:
    call(0), call(0)
    with torch.inference_mode():
        assert call(1).is_inference()
        inside = call(2)
    assert not call(3).is_inference()
    assert inside.is_inference()
    assert _right(inside, 2)


def test_as_much_as_is_allowed() -> None:
    module = c_module()
    if module is None:
        pytest.skip("the C launcher is not built")
    before = keep_results(module, SIZE * 4)  # room for one
    try:
        fn: Any = native(symbolic_trace(lambda x: (x * 2 + 1,)), [torch.zeros(SIZE)], Options(build="sync")).fn
        held = [fn(torch.ones(SIZE))[0] for _ in range(3)]
        assert len({x.data_ptr() for x in held}) == 3
        del fn
        assert keep_results(module, SIZE * 4) in (0, SIZE * 4)
    finally:
        keep_results(module, before)
    assert spare_bytes() > 0


def test_kernels_share_what_is_idle() -> None:
    """Another kernel's result of as many bytes goes to the same memory, whatever its shape and type; one that is held
    does not."""
    module = c_module()
    if module is None:
        pytest.skip("the C launcher is not built")
    before = keep_results(module, 2**26)
    try:
        options = Options(build="sync")
        floats: Any = native(symbolic_trace(lambda x: (x * 2 + 1,)), [torch.zeros(SIZE)], options).fn
        other = native(
            symbolic_trace(lambda x: ((x * 2 + 1) * 3,)), [torch.zeros(50, SIZE // 100, dtype=torch.int64)], options
        )
        first = floats(torch.ones(SIZE))[0]
        place = first.data_ptr()
        held = other.fn(torch.ones(50, SIZE // 100, dtype=torch.int64))[0]
        assert held.data_ptr() != place
        del first
        second = other.fn(torch.ones(50, SIZE // 100, dtype=torch.int64))[0]
        assert second.data_ptr() == place
        assert second.shape == (50, SIZE // 100)
        assert second.stride() == (SIZE // 100, 1)
        assert (second.dtype, second._version, second._base) == (torch.int64, 0, None)
        assert second.untyped_storage().nbytes() == 4 * SIZE
        assert bool((second == 9).all())
        assert bool((held == 9).all())
        third = floats(torch.ones(SIZE))[0]
        assert third.data_ptr() not in (place, held.data_ptr())
    finally:
        keep_results(module, before)


def test_idle_memory_of_other_sizes_gives_way() -> None:
    module = c_module()
    if module is None:
        pytest.skip("the C launcher is not built")
    before = keep_results(module, SIZE * 4 + 1000)
    try:
        fn: Any = native(symbolic_trace(lambda x: (x * 2 + 1,)), [torch.zeros(SIZE)], Options(build="sync")).fn
        fn(torch.ones(SIZE))
        places = {fn(torch.ones(SIZE - 8))[0].data_ptr() for _ in range(4)}
        assert len(places) == 1  # it is remembered in place of the first
    finally:
        keep_results(module, before)
