"""Contexts of PyTorch: autocast, inference mode, profiling ranges, random states."""

import pytest
import torch
from programs import Program, T, program
from torch.testing._internal import common_methods_invocations as samples

import dynajit


@program(T(4, 4), T(4, 4))
def autocast_inside(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = x @ y
        b = torch.nn.functional.linear(a, y)
        with torch.autocast("cpu", enabled=False):
            c = x @ y
        d = torch.cat([a, x])
    return a, b, c, d, x @ y, a.dtype, torch.is_autocast_enabled("cpu")


@program(T(4, 4))
def autocast_that_is_off_leaves_no_trace(x):
    with torch.autocast("cpu", enabled=False):
        return x @ x


@program(T(4, 4, grad=True))
def gradients_through_autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.nn.functional.softmax(x @ x, -1)
        return torch.nn.functional.mse_loss(y, torch.zeros_like(y))


@program(T(4, 4), graphs=2, breaks="DJ-B001")
def a_break_inside_autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
        print(torch.is_autocast_enabled("cpu"))
        z = x @ x
    return y, z, x @ x


@program(T(4, 4))
def an_error_inside_autocast(x):
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            (x @ x)[torch.tensor([7])]
    except IndexError:
        return x @ x, torch.is_autocast_enabled("cpu")


AMP = torch.autocast("cpu", dtype=torch.bfloat16)


@program(T(4, 4))
def an_autocast_object_of_the_user(x):
    with AMP:
        return x @ x


@torch.autocast("cpu", dtype=torch.bfloat16)
def decorated(x):
    return x @ x


@program(T(4, 4))
def a_function_decorated_with_autocast(x):
    return decorated(x)


@program(T(4, 4))
def uncertain_under_autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.linalg.matrix_power(x, 3)


def test_compiled_once_for_each_ambient_autocast():
    def f(x):
        return torch.nn.functional.linear(x, x), torch.is_autocast_enabled("cpu")

    compiled = dynajit.compile(f, backend="eager")
    for _ in range(2):
        for dtype in (torch.bfloat16, torch.float16, None):
            with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
                got, want = compiled(T(4, 4)), f(T(4, 4))
            assert got[0].dtype is want[0].dtype
            assert torch.equal(got[0], want[0])
            assert got[1] == want[1]
    assert dynajit.report(compiled).status == "compiled"
    dynajit.reset(compiled)


@pytest.mark.parametrize("name", ["nn.functional.linear", "matmul", "einsum", "cat", "prod", "nn.functional.mse_loss",
                                  "nn.functional.conv2d", "softmax", "add", "nn.functional.layer_norm"])  # fmt: skip
def test_dtypes_under_autocast(name):
    """All operations are compared by tests/measures/op_db.py."""
    found = next(op for op in samples.op_db if op.name == name)
    op, sample = found.op, next(iter(found.sample_inputs("cpu", torch.float32)))

    def f(first, args, kwargs):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = op(first, *args, **kwargs)
        return out.dtype

    Program(f, (sample.input, sample.args, sample.kwargs)).check()


@program(T(4, 4, grad=True))
def inference_mode_inside(x):
    with torch.inference_mode():
        y = x * 2
        inside = torch.is_inference_mode_enabled(), torch.is_grad_enabled(), y.requires_grad
    z = x * 3
    return y, z, inside, torch.is_inference_mode_enabled(), z.requires_grad


@torch.inference_mode()
def infer(x):
    return x * 2


@program(T(4, grad=True))
def decorated_with_inference_mode(x):
    return infer(x)


@program(T(4, 4), graphs=3, breaks="DJ-B001 DJ-B004")
def a_break_inside_inference_mode(x):
    y = x + 1
    with torch.inference_mode():
        z = y * 2
        print(torch.is_inference_mode_enabled())
        w = z + 1
    return w, torch.is_inference_mode_enabled(), x * 2


@program(T(4))
def a_profiling_range(x):
    with torch.profiler.record_function("a name"):
        return x + 1


@program(T(4))
def the_seed_is_set_inside(x):
    torch.manual_seed(3)
    return torch.rand(4) + x


@program(T(4))
def the_random_state_is_kept(x):
    kept = torch.get_rng_state()
    torch.manual_seed(3)
    y = torch.rand(4)
    torch.set_rng_state(kept)
    return y, torch.rand(4) + x


@program(T(4))
def forked_random_state(x):
    with torch.random.fork_rng(devices=[]):
        y = torch.rand(4)
    return y, torch.rand(4) + x


@program(T(4, 2), T(2, 2))
def a_write_beside_what_may_fail_in_a_mode(x, y):
    seen = [x]
    with torch.no_grad():
        picked = x[torch.tensor([0, 1])]
        x.index_copy_(0, torch.tensor([2, 3]), y)
        seen.append(picked)
    return seen


@program(T(4, 2), T(2, 2))
def an_error_after_a_write_in_a_mode(x, y):
    with torch.no_grad():
        x.mul_(2)
        return x.index_copy_(0, torch.tensor([2, 9]), y)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_transforms_around_a_compiled_function(backend):
    def f(x):
        return torch.sin(x) * 2 + x.exp()

    compiled, x = dynajit.compile(f, backend=backend), T(100)
    compiled(x)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        got, want = (torch.autograd.forward_ad.unpack_dual(g(dual)).tangent for g in (compiled, f))
    assert torch.equal(got, want)
    torch.testing.assert_close(torch.vmap(compiled)(T(3, 100)), f(T(3, 100)))
    grads = [torch.func.grad(lambda y, g=g: g(y).sum())(x) for g in (compiled, f)]
    torch.testing.assert_close(grads[0], grads[1])
    dynajit.reset(compiled)
