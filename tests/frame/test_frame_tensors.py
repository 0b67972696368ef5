"""Tensors: the facts a TENSOR check looks at, asked by the getters and by libtorch's C shim."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from framekit import calling, compiled, entry, holds

torch: Any = pytest.importorskip("torch")

from dynajit import frame  # noqa: E402
from dynajit.frame import CONST, LOCAL, MISSING, NO_OVERLAP, SIZE, STATE, TENSOR  # noqa: E402

CONTIGUOUS, ALIGNED, PLAIN = 1, 2, 4


@pytest.fixture(params=["shim", "getters"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DYNAJIT_NO_SHIM", "1" if request.param == "getters" else "0")
        assert frame.configure(torch) is (request.param == "shim")
        yield request.param
    frame.configure(torch)


def spec(x: Any, **changes: Any) -> tuple[Any, ...]:
    """The specification that exactly this tensor meets."""
    facts = {
        "type": type(x),
        "dtype": x.dtype,
        "device": x.device,
        "layout": x.layout,
        "requires_grad": x.requires_grad,
        "shape": tuple(x.shape),
        "strides": tuple(x.stride()) if x.layout == torch.strided else None,
        "flags": 0,
    }
    return tuple({**facts, **changes}.values())


def fits(x: Any, wanted: tuple[Any, ...]) -> bool:
    return holds(x, TENSOR, wanted)


TENSORS = {
    "vector": lambda: torch.ones(3),
    "matrix": lambda: torch.ones(3, 4),
    "scalar": lambda: torch.tensor(3.5),
    "integers": lambda: torch.arange(5),
    "bool": lambda: torch.ones(2, dtype=torch.bool),
    "half": lambda: torch.ones(2, 2, dtype=torch.float16),
    "brain": lambda: torch.ones(2, 2, dtype=torch.bfloat16),
    "complex": lambda: torch.ones(2, dtype=torch.complex64),
    "transposed": lambda: torch.ones(3, 4).t(),
    "expanded": lambda: torch.ones(1).expand(4),
    "sliced": lambda: torch.ones(10)[3:7],
    "stepped": lambda: torch.ones(10)[::2],
    "empty": lambda: torch.ones(0, 3),
    "leaf": lambda: torch.ones(3, requires_grad=True),
    "computed": lambda: torch.ones(3, requires_grad=True) * 2,
    "parameter": lambda: torch.nn.Parameter(torch.ones(3)),
    "frozen": lambda: torch.nn.Parameter(torch.ones(3), requires_grad=False),
    "meta": lambda: torch.ones(3, 4, device="meta"),
    "deep": lambda: torch.ones([1] * 20 + [2]),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "inference": lambda: torch.ones(3).add_(1),
}


def test_size() -> None:
    def size(x: Any, dim: int) -> Any:
        return frame.Check([(-1, LOCAL, 0, ()), (0, SIZE, dim, ())], [1]).run(test_size, (x,))[0]

    class Kind(torch.Tensor):
        pass

    for x in (torch.ones(3, 4), torch.nn.Parameter(torch.ones(3, 4)), torch.ones(3, 4).as_subclass(Kind)):
        assert (size(x, 0), size(x, 1)) == (3, 4)
        assert size(x, 2) is MISSING
    assert size([1, 2], 0) is MISSING


def test_strides_that_follow_from_sizes() -> None:
    last, before = -2 - 2, -2 - 1  # stride times size of dimension 2, of dimension 1
    dense = spec(torch.ones(2, 3, 4), shape=(2, None, 4), strides=(before, last, 1))
    for n in (2, 3, 50):
        assert fits(torch.ones(2, n, 4), dense)
    assert not fits(torch.ones(2, 1, 4), dense)
    assert not fits(torch.ones(2, 3, 8)[:, :, ::2], dense)
    assert not fits(torch.ones(2, 8, 4)[:, :3], dense)
    assert not fits(torch.ones(2, 4, 3).transpose(1, 2), dense)
    assert fits(
        torch.ones(2, 4, 7).transpose(1, 2), spec(torch.ones(2, 3, 4), shape=(2, None, 4), strides=(-2 - 2, 1, -2 - 1))
    )
    for wrong in ((-2 - 3, last, 1), (-1, last, 1)):
        with pytest.raises(TypeError):
            fits(torch.ones(2, 3, 4), spec(torch.ones(2, 3, 4), strides=wrong))
    with pytest.raises(TypeError):
        fits(torch.ones(2, 3, 4), spec(torch.ones(2, 3, 4), shape=(2, -3, 4)))


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_fits_its_own_specification_and_no_other_one(name: str) -> None:
    x = TENSORS[name]()
    for other_name, make in TENSORS.items():
        other = make()
        same = spec(x) == spec(other)
        assert fits(x, spec(other)) is same, other_name


CHANGES: list[dict[str, Any]] = [
    {"type": torch.nn.Parameter},
    {"dtype": torch.float64},
    {"device": torch.device("meta")},
    {"device": torch.device("cuda", 0)},
    {"layout": torch.sparse_coo},
    {"requires_grad": True},
    {"shape": (3, 5)},
    {"shape": (3,), "strides": None},
    {"shape": (3, 4, 1), "strides": None},
    {"strides": (1, 4)},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_each_fact_counts(change: dict[str, Any]) -> None:
    x = torch.ones(3, 4)
    assert fits(x, spec(x))
    assert not fits(x, spec(x, **change))


def test_other_objects_do_not_fit() -> None:
    wanted = spec(torch.ones(3))
    for value in (3, None, [1.0], frame.MISSING, torch.float32):
        assert not fits(value, wanted)


def test_a_size_left_open_is_at_least_two() -> None:
    wanted = spec(torch.ones(3, 4), shape=(None, 4), strides=None)
    assert fits(torch.ones(2, 4), wanted)
    assert fits(torch.ones(100, 4), wanted)
    assert not fits(torch.ones(1, 4), wanted)
    assert not fits(torch.ones(0, 4), wanted)
    assert not fits(torch.ones(5, 5), wanted)


def test_strides_left_open() -> None:
    wanted = spec(torch.ones(3, 4), strides=(None, 1))
    assert fits(torch.ones(3, 8)[:, :4], wanted)
    assert not fits(torch.ones(4, 3).t(), wanted)


def test_contiguity_follows_from_the_actual_sizes() -> None:
    wanted = spec(torch.ones(3, 4), shape=(None, None), strides=None, flags=CONTIGUOUS)
    for x in (torch.ones(5, 6), torch.ones(3, 4).t(), torch.ones(5, 8)[:, :4], torch.ones(9, 6)[::2]):
        assert fits(x, wanted) is x.is_contiguous()
    one = spec(torch.ones(1, 4), shape=(1, None), strides=None, flags=CONTIGUOUS)
    assert fits(torch.ones(1, 4).as_strided((1, 4), (99, 1)), one)
    none = spec(torch.ones(0, 4), shape=(0, None), strides=None, flags=CONTIGUOUS)
    assert fits(torch.ones(0, 4).as_strided((0, 4), (1, 7)), none)


def test_alignment() -> None:
    base = torch.ones(64)
    wanted = spec(base[4:8], flags=ALIGNED)
    for start in range(8):
        x = base[start : start + 4]
        assert fits(x, wanted) is (x.data_ptr() % 16 == 0)


def test_conjugate_and_negative_views() -> None:
    x = torch.ones(3, dtype=torch.complex64)
    wanted = spec(x, flags=PLAIN)
    assert fits(x, wanted)
    assert not fits(x.conj(), wanted)
    imaginary = x.conj().imag
    assert imaginary.is_neg()
    assert not fits(imaginary, spec(imaginary, flags=PLAIN))
    assert fits(imaginary, spec(imaginary))
    assert fits(imaginary.clone(), spec(imaginary.clone(), flags=PLAIN))


def test_requires_grad_follows_changes() -> None:
    x = torch.ones(3)
    wanted = spec(x)
    assert fits(x, wanted)
    x.requires_grad_()
    assert not fits(x, wanted)
    with torch.no_grad():
        assert fits(x * 2, wanted)
    assert not fits(x * 2, wanted)
    assert fits(x.detach(), wanted)


def test_a_resized_tensor_is_seen_as_it_is_now() -> None:
    x = torch.ones(3)
    wanted = spec(x)
    x.resize_(4)
    assert not fits(x, wanted)
    x.data = torch.ones(3)
    assert fits(x, wanted)
    x.data = torch.ones(3, dtype=torch.float64)
    assert not fits(x, wanted)


def test_subclasses() -> None:
    class Mine(torch.Tensor):  # type: ignore[misc]
        pass

    x = torch.ones(3).as_subclass(Mine)
    assert fits(x, spec(x))
    assert not fits(x, spec(torch.ones(3)))
    assert not fits(torch.ones(4).as_subclass(Mine), spec(x))


def test_a_size_of_a_fake_tensor() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x = torch.ones(3, 4)
        assert fits(x, spec(x))
        assert not fits(torch.ones(3, 5), spec(x))


def test_tensors_inside_function_transforms() -> None:
    seen = []

    def look(x: Any) -> Any:
        seen.append((fits(x, spec(torch.ones(3))), fits(x, spec(torch.ones(2, 3)))))
        return x.sum()

    torch.func.vmap(look)(torch.ones(2, 3))
    assert seen == [(True, False)]


def test_no_overlap() -> None:
    def apart(*tensors: Any) -> bool:
        nodes: list[Any] = [(-1, LOCAL, i, ()) for i in range(len(tensors))]
        nodes[-1] = (-1, LOCAL, len(tensors) - 1, ((NO_OVERLAP, tuple(range(len(tensors) - 1))),))
        return calling(nodes, *tensors) is not None

    base = torch.ones(10)
    assert apart(torch.ones(3), torch.ones(3))
    assert apart(torch.ones(3), base, torch.ones(3))
    assert not apart(base, torch.ones(3), base)
    assert not apart(base, base.view(2, 5))
    assert not apart(base[:5], base[5:])
    assert not apart(base, base.detach())
    assert apart(torch.ones(0), torch.ones(0))
    assert not apart(base, 3)
    parameter = torch.nn.Parameter(base)
    assert not apart(base, parameter)
    assert apart(torch.ones(3, device="meta"), torch.ones(3, device="meta"))


def test_two_storages_over_one_buffer_overlap() -> None:
    buffer = bytearray(64)
    first = torch.frombuffer(buffer, dtype=torch.float32)
    second = torch.frombuffer(buffer, dtype=torch.float32, offset=16)
    assert first.untyped_storage().data_ptr() != second.untyped_storage().data_ptr()
    nodes = [(-1, LOCAL, 0, ()), (-1, LOCAL, 1, ((NO_OVERLAP, (0,)),))]
    assert calling(nodes, first, second) is None
    assert calling(nodes, first[:4], second) is not None


def test_grad_and_inference_mode_as_state() -> None:
    grad = [(-1, CONST, None, ((STATE, ((torch.is_grad_enabled, True),)),))]
    inference = [(-1, CONST, None, ((STATE, ((torch.is_inference_mode_enabled, False),)),))]
    assert calling(grad) is not None
    assert calling(inference) is not None
    with torch.no_grad():
        assert calling(grad) is None
        with torch.enable_grad():
            assert calling(grad) is not None
    with torch.inference_mode():
        assert calling(grad) is None
        assert calling(inference) is None
    assert calling(grad) is not None


AMBIENT: list[tuple[Any, Any, Any]] = [
    (torch.is_grad_enabled, True, lambda: torch.no_grad()),
    (torch.is_inference_mode_enabled, False, lambda: torch.inference_mode()),
    (torch._C._is_any_autocast_enabled, False, lambda: torch.autocast("cpu")),
    (torch._C._len_torch_function_stack, 0, lambda: torch.overrides.BaseTorchFunctionMode()),
    (torch._C._len_torch_dispatch_stack, 0, lambda: Counting()),
    (torch.get_default_dtype, torch.float32, lambda: default_dtype(torch.float64)),
]


def Counting() -> Any:  # noqa: N802
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    return Mode()


@contextlib.contextmanager
def default_dtype(dtype: Any) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize(("state", "expected", "other"), AMBIENT, ids=[row[0].__name__ for row in AMBIENT])
def test_ambient_state_is_followed_in_each_thread(state: Any, expected: Any, other: Any) -> None:
    check = frame.Check([(-1, CONST, None, ((STATE, ((state, expected),)),))])
    wrong = frame.Check([(-1, CONST, None, ((STATE, ((state, "other"),)),))])
    results: list[Any] = []

    def look() -> None:
        for _ in range(2):
            results.append(check.run(look, ()) is not None)
            with other():
                results.append(check.run(look, ()) is None)
                with other():
                    results.append(check.run(look, ()) is None)
                results.append(check.run(look, ()) is None)
        results.append(check.run(look, ()) is not None)
        results.append(wrong.run(look, ()) is None)

    look()
    thread = threading.Thread(target=look)
    with other():
        thread.start()
        thread.join()
    look()
    if state is torch.get_default_dtype:  # one for all threads
        results = results[:10] + results[20:]
    assert all(results)
    assert len(results) >= 20


def test_autocast_of_another_device_counts() -> None:
    nodes = [(-1, CONST, None, ((STATE, ((torch._C._is_any_autocast_enabled, False),)),))]
    assert calling(nodes) is not None
    torch.set_autocast_enabled("cuda", True)
    try:
        assert calling(nodes) is None
    finally:
        torch.set_autocast_enabled("cuda", False)
    assert calling(nodes) is not None


def test_states_of_any_kind() -> None:
    nodes = [
        (
            -1,
            CONST,
            None,
            (
                (
                    STATE,
                    (
                        (torch.get_default_dtype, torch.float32),
                        (torch.is_autocast_enabled, False),
                        (torch.get_num_threads, torch.get_num_threads()),
                    ),
                ),
            ),
        )
    ]
    assert calling(nodes) is not None
    torch.set_default_dtype(torch.float64)
    try:
        assert calling(nodes) is None
    finally:
        torch.set_default_dtype(torch.float32)


def test_specifications_that_make_no_sense_are_refused() -> None:
    x = torch.ones(3)
    for bad in [
        spec(x, type=int),
        spec(x, shape=3),
        spec(x, shape=(-1,)),
        spec(x, strides=(1, 1)),
        spec(x, shape=("a",)),
        spec(x)[:5],
        3,
    ]:
        with pytest.raises(TypeError):
            frame.Check([(-1, LOCAL, 0, ((TENSOR, bad),))])


def test_nothing_leaks() -> None:
    x = torch.ones(3, 4)
    parts = [x.dtype, x.layout, torch.Tensor, torch.nn.Parameter, x]
    check = frame.Check([(-1, LOCAL, 0, ((TENSOR, spec(x, flags=7)),)), (-1, LOCAL, 1, ((NO_OVERLAP, (0,)),))], [0])
    other = torch.ones(5)
    before = [sys.getrefcount(part) for part in parts]
    for _ in range(10_000):
        check.run(test_nothing_leaks, (x, other))
        check.run(test_nothing_leaks, (other, x))
    assert [sys.getrefcount(part) for part in parts] == before


def test_a_compiled_function_of_two_tensors() -> None:
    def f(x: Any, y: Any) -> Any:
        return x + y

    def make(func: Any, slots: tuple[Any, ...], options: object) -> frame.Entry:
        nodes = [(-1, LOCAL, i, ((TENSOR, spec(x)),)) for i, x in enumerate(slots)]
        return entry(lambda x, y, add: ("compiled", add(x, y)), [*nodes, (-1, CONST, torch.add, ())], [2])

    frame.clear(f.__code__)
    dispatcher = compiled(f, make, make)
    x, y = torch.ones(3), torch.ones(3)
    for _ in range(3):
        assert dispatcher(x, y)[0] == "compiled"
    assert dispatcher(torch.ones(4), torch.ones(4))[1].shape == (4,)
    assert len(dispatcher.misses) == 2


@pytest.mark.slow
def test_torch_compile_and_we_can_call_each_other() -> None:
    """Dynamo's evaluator is chained to, not lost."""
    program = """
import torch, sys
sys.path.insert(0, {folder!r})
from framekit import compiled, entry
from dynajit import frame
frame.configure(torch)

def helper(x):
    return x * 2

def leaf(x):
    return helper(x) + 1

graphs = []
def backend(graph, examples):
    graphs.append(graph)
    return graph.forward

theirs = torch.compile(leaf, backend=backend)

def ours(x):
    return theirs(x) + helper(x)

dispatcher = compiled(ours)
x = torch.ones(3)
for _ in range(3):
    assert torch.equal(dispatcher(x), x * 5 + 0), dispatcher(x)
assert graphs
assert not frame.evaluator_installed()
assert frame.evaluator_users() == 0

@torch.compile(backend=backend)
def outer(x):
    torch._dynamo.graph_break()
    return dispatcher(x) + leaf(x)

for _ in range(3):
    assert torch.equal(outer(x), x * 8)
assert torch.equal(theirs(torch.ones(4)), torch.full((4,), 3.0))
assert not frame.evaluator_installed()
"""
    from pathlib import Path

    folder = str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", program.format(folder=folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
