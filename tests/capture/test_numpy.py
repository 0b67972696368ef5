"""NumPy: its functions run in the graph as they are, beside PyTorch's and on the same memory."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import torch
from programs import Program, T, compare, program

import dynajit


def A(*shape, dtype=np.float64, seed=0):  # noqa: N802
    """An array of random numbers, the same in each run."""
    made = np.random.default_rng(seed).standard_normal(shape) * 3
    return made.astype(dtype)


COUNTS = np.arange(6)
TABLE = np.linspace(0, 1, 12).reshape(3, 4)


# ---- from tensors and back ----
@program(T(3, 4))
def a_tensor_as_an_array(x):
    return np.sin(x.numpy())


@program(T(3, 4))
def a_tensor_from_an_array(x):
    return torch.from_numpy(np.cos(x.numpy())) + x


@program(T(3), A(3))
def an_argument_becomes_a_tensor(x, a):
    return x + torch.as_tensor(a), torch.tensor(a), torch.as_tensor(a, dtype=torch.float32), torch.asarray(a)


@program(T(2, 3))
def a_view_of_a_tensor_as_an_array(x):
    return x.t().numpy(), x[1:].numpy().strides, x.t().numpy().T


@program(T(3))
def an_array_made_from_a_tensor(x):
    return np.asarray(x) + 1, np.array(x), np.asarray(x.detach())


@program(T(3))
def there_and_back_again(x):
    y = torch.from_numpy(x.numpy() * 2)
    z = torch.from_numpy(y.numpy() + 1).relu()
    return z.numpy().sum()


@program(T(3, dtype=torch.float16), T(3, dtype=torch.int32), T(3, dtype=torch.bool))
def dtypes_go_along(x, y, z):
    return x.numpy() + y.numpy(), z.numpy() * 2, (x.numpy() + 1).dtype, y.numpy().dtype == np.int32


@program(T(3, grad=True), graphs=0, breaks=None)
def a_tensor_that_requires_a_gradient_refuses(x):
    return x.numpy()


@program(T(3, grad=True))
def a_refusal_is_caught(x):
    try:
        return x.numpy()
    except RuntimeError as error:
        return str(error), x * 2


@program(T(3, grad=True))
def detached_and_forced(x):
    return x.detach().numpy() * 2, x.numpy(force=True) + 1, x * 2


@program(T(3, grad=True))
def a_gradient_beside_an_array(x):
    scale = np.abs(x.detach().numpy()).max()
    return x / torch.from_numpy(np.asarray([scale])), scale


# ---- types and rounding ----
@program(A(3, 4), A(4, dtype=np.float32), A(4, dtype=np.int64))
def promotion_is_numpys(a, b, c):
    return a + b, b + c, b * 2, b + 1.5, c / 2, c // 2, c % 3, b**2, c**2, -b, +c, abs(c), ~c, b @ b, c & 3, c << 1


@program(A(3, 4))
def reductions_give_scalars_where_numpys_do(a):
    return np.sum(a), a.sum(), a.sum(axis=0), a.mean(), np.max(a, axis=1), a.std(ddof=1), a.argmax(), np.any(a > 0)


@program(A(3, 4, dtype=np.float32))
def scalars_stay_scalars(a):
    s = a.sum()
    t = s * 2 + np.float32(1)
    s += 1
    return s, t, t + 1.0, -t, abs(t), t > 0, t.dtype, np.sqrt(np.abs(t)), t * a, t.astype(np.float64), round(t, 1)


@program(A(3, 4, dtype=np.float32))
def an_old_scalar_keeps_its_value(a):
    s = a.sum()
    t = s
    s += 1
    s *= 3
    return s, t


@program(A(4))
def a_number_on_the_left(a):
    b = 2
    b += a
    return b, 1 - a, (-2) ** np.abs(a).astype(np.int64), -(2.0 ** np.round(a)), 2 // a, 3 % a, 1 / a


@program(T(4))
def a_negative_base(x):
    return (-2.0) ** x.round(), (-2) ** x.round()


@program(A(2, 3))
def keepdims_and_dtype(a):
    return a.sum(axis=1, keepdims=True), np.sum(a, dtype=np.float32), a.mean(axis=(0, 1)), np.var(a, axis=-1)


@program(A(3), A(3, seed=1))
def comparisons(a, b):
    return a < b, a == b, a != 0, (a > 0) & (b > 0), np.where(a > b, a, b), np.logical_or(a > 0, b > 0), 1 < a


@program(A(5))
def several_results(a):
    whole, part = np.modf(a)
    q, r = np.divmod(a, 2)
    return part, whole, q, r, divmod(a, 2), np.frexp(a)


@program(A(3, 4))
def facts_about_an_array(a):
    kinds = a.dtype, a.dtype.name, a.dtype.type, a.itemsize
    return a.shape, a.ndim, a.size, kinds, a.strides, a.T.shape, np.shape(a), len(a), a + 1


@program(A(3, 4))
def branches_on_facts(a):
    if a.ndim == 2 and a.dtype == np.float64 and a.shape[0] == 3 and isinstance(a, np.ndarray):
        return a * 2
    return a


# ---- indexing ----
@program(A(3, 4))
def basic_indexing(a):
    return a[0], a[0, 1], a[:, 1], a[..., -1], a[None, 1:, ::2], a[1:2], a[-1][::-1]


@program(A(3, 4), np.array([2, 0, 1]))
def integer_arrays_as_indices(a, i):
    return (
        a[i],
        a[:, i],
        a[i, i],
        a[[0, 2]],
        np.take(a, i, axis=0),
        a.take(i),
        a[i[0]],
        np.take_along_axis(a, i[:, None], 1),
    )


@program(A(3, 4))
def known_masks(a):
    return a[[True, False, True]]


@program(A(4))
def items_are_assigned(a):
    a[0] = 3
    a[1:3] = a[2:4] * 2
    a[[0, 1]] += 1
    return a


@program(A(3, 4))
def a_mask_is_assigned_a_number(a):
    a[a > 0] = 0
    return a.sum()


@program(A(3))
def unpacking_and_iterating(a):
    x, y, z = a
    total = 0
    for value in a:
        total = total + value * 2
    return x, y + z, total, [v for v in a], list(enumerate(a)), sum(a)


@program(A(2, 3))
def rows_are_views(a):
    for row in a:
        row += 1
    first, _ = a
    first[0] = 7
    return a


# ---- shared memory ----
@program(T(4))
def an_array_of_a_tensor_is_its_memory(x):
    a = x.numpy()
    y = x + 1
    a += 1
    z = x + 1
    a[0] = 9
    return y, z, x, a


@program(T(4))
def the_tensor_changes_the_array(x):
    a = x.numpy()
    b = a * 1
    x.add_(1)
    return a, b, a - b


@program(A(4))
def the_array_changes_the_tensor(a):
    x = torch.from_numpy(a)
    y = x * 2
    a[1] = 5
    z = x * 2
    x.mul_(3)
    return y, z, a


@program(A(4))
def a_copy_does_not_change(a):
    x = torch.tensor(a)
    b = a.copy()
    a *= 2
    return x, b, a


@program(A(3, 4))
def reshaped_views_share(a):
    b = a.reshape(4, 3)
    c = a.T.reshape(-1)
    b[0, 0] = 100
    c[1] = -100
    a.ravel()[2] = 50
    return a, b, c


@program(A(4), A(4, seed=1))
def results_into_an_array(a, b):
    c = np.add(a, b, out=a)
    np.multiply(a, 2, a)
    d = np.empty_like(a)
    np.sin(b, out=d)
    return c, d, c is a


@program(T(4), make=lambda: (lambda x: (x, x.numpy()))(T(4)))
def two_arguments_share_their_memory(x, a):
    a += 1
    y = x * 2
    x.zero_()
    return y, a


@program(make=lambda: (lambda a: (a, a))(A(4)))
def one_array_twice(a, b):
    a += 1
    return b * 2, a is b


@program(make=lambda: (lambda a: (a[1:], a[:-1]))(A(5)))
def overlapping_arguments(a, b):
    a *= 2
    return b + 1


@program(A(4))
def methods_that_write(a):
    b = a.copy()
    b.sort()
    a.fill(2)
    c = np.zeros(3)
    np.copyto(c, b[:3])
    np.add.at(c, [0, 0, 1], 1)
    return a, b, c


@program(A(4), [])
def arrays_in_containers(a, out):
    out.append(a * 2)
    found = {"a": a, "b": np.ones(2), "s": a.sum()}
    found["a"] += 1
    return found, out


class Holder:
    def __init__(self):
        self.table = np.arange(4.0)
        self.seen = None


@program(T(4), make=lambda: (Holder(), T(4)))
def arrays_as_attributes(holder, x):
    holder.table += 1
    holder.seen = holder.table * x.numpy()
    return torch.from_numpy(holder.table) * x


@program(T(3))
def arrays_as_globals(x):
    return x.numpy() * TABLE[:, 0], COUNTS[:3] + x.numpy()


# ---- making arrays ----
@program(T(3))
def arrays_are_made(x):
    n = x.shape[0]
    return (np.zeros(n), np.ones((n, 2), dtype=np.float32), np.full(n, 2), np.arange(n), np.linspace(0, 1, n),
            np.eye(n), np.array([1, 2.5]), np.array([[1, 2], [3, 4]], dtype="f4"), x.numpy() * np.array([1, 2, 3]),
            np.zeros_like(x.numpy()), np.full_like(x.numpy(), 7))  # fmt: skip


@program(T(3))
def each_call_makes_its_own(x):
    a = np.zeros(3)
    a += x.numpy()
    return a


@program(A(3), A(3, seed=1))
def joined_and_split(a, b):
    c = np.concatenate([a, b])
    d = np.stack((a, b), axis=1)
    return c, d, np.split(c, 2), np.vstack([a, b]), np.hstack([a, b]), np.tile(a, 2), np.repeat(a, 2), np.array([a, b])


@program(A(3, 4))
def shapes_change(a):
    return (a.reshape(2, 6), a.reshape((-1,)), a.transpose(1, 0), np.transpose(a), a.flatten(), a[:, None].squeeze(),
            np.expand_dims(a, 0), np.swapaxes(a, 0, 1), np.moveaxis(a, 0, 1), np.broadcast_to(a, (2, 3, 4)),
            np.flip(a), np.rot90(a), np.roll(a, 1), np.atleast_3d(a[0]), a.T)  # fmt: skip


@program(A(3, 4), A(4, 3))
def products(a, b):
    u, v = a[0], b[:, 0]
    found = a @ b, a.dot(b), np.dot(u, v), np.matmul(a, b), np.einsum("ij,jk->ik", a, b), np.outer(u, v)
    return found, np.inner(a, a), np.trace(a), np.tensordot(a, b, axes=1), np.kron(u, v), np.cross(u[:3], b[0])


@program(A(3, 4))
def rounded_and_clipped(a):
    return (np.clip(a, -1, 1), a.clip(0), np.round(a, 1), a.round(), np.floor(a), np.rint(a), np.nan_to_num(a / 3),
            a.astype(int), a.astype("f4"), a.astype(np.float32).astype(bool))  # fmt: skip


@program(A(5), A(3))
def sorted_and_searched(a, b):
    s = np.sort(a)
    return (s, np.argsort(a), a.argsort(), np.searchsorted(s, b), np.digitize(b, s), np.diff(a), np.cumsum(a),
            a.cumsum(), np.median(a), np.percentile(a, 30), np.quantile(a, [0.1, 0.5]), np.interp(b, s, a))  # fmt: skip


@program(A(4), A(4, seed=1))
def methods_of_functions(a, b):
    return np.add.reduce(a), np.multiply.accumulate(a), np.subtract.outer(a, b), np.maximum.reduce([a, b])


@program(A(8))
def fourier_transforms(a):
    f = np.fft.rfft(a)
    return f, np.abs(f), f.real, f.imag, np.fft.irfft(f), np.fft.fft(a).conj(), np.angle(f)


@program(A(3, 4))
def norms(a):
    return np.linalg.norm(a), np.linalg.norm(a, axis=0), np.linalg.norm(a[0], 1)


@program(A(3))
def complex_numbers(a):
    z = a + 1j
    return z, z.real, z.imag, abs(z), z.conj(), z * (1 + 2j), np.exp(z), z.sum()


# ---- with tensors as operands ----
@program(T(3), A(3, dtype=np.float32))
def an_array_and_a_tensor(x, a):
    return x * a, x + a.sum(), np.add(x.numpy(), a), np.exp(x), x / a


@program(T(3), A(3))
def a_scalar_and_a_tensor(x, a):
    s = a.mean()
    return x * s, s * x, x - np.float32(2), x / s


# ---- what only Python can do ----
@program(A(4), graphs=2, breaks="DJ-B001")
def printed_and_gone_on(a):
    b = a * 2
    print(b)
    return b + 1


@program(A(4), graphs=None, breaks=None)
def data_decide(a):
    b = a * 2
    if b.sum() > 0:
        b += 1
    c = b[b > 0]
    return c.sum(), b.tolist(), np.nonzero(b), np.unique(b), b.item(0)


@program(A(4), graphs=None, breaks=None)
def errors_are_numpys(a):
    try:
        a += np.ones(3)
    except ValueError as error:
        return str(error), a
    return a


@program(A(4), graphs=None, breaks=None)
def an_index_out_of_range(a):
    b = a + 1
    i = np.array([9])
    try:
        return b[i]
    except IndexError as error:
        return str(error)


@program(A(4, dtype=np.int64), graphs=None, breaks=None)
def a_cast_that_numpy_refuses(a):
    a += 1.5
    return a


@program(np.array([1, 2, 3]), graphs=None, breaks=None)
def a_negative_power_of_integers(a):
    b = a - 5
    return a**b


@program(A(4), graphs=None, breaks=None)
def a_write_before_an_error(a):
    i = np.array([9])
    try:
        a += 1
        a[i] = 2
    except IndexError:
        a -= 10
    return a


@program(np.array(["a", "b"]), T(3), graphs=None, breaks=None)
def other_kinds_of_arrays(names, x):
    return names[0], np.array([None, 1]), x * len(names), np.array(["x"])


@program(make=lambda: (np.broadcast_to(np.arange(3.0), (2, 3)), A(2, 3)))
def an_array_that_is_read_only(a, b):
    return a + b, a.sum(axis=0), b[0] * a[1]


@program(make=lambda: (np.broadcast_to(np.arange(3.0), (2, 3)),), graphs=None, breaks=None)
def a_write_to_one_that_is_read_only(a):
    try:
        a[0] = 1
    except ValueError as error:
        return str(error)
    return a


@program(make=lambda: (np.arange(8.0)[::-2], np.asfortranarray(A(3, 4)), np.zeros((0, 3)), np.array(2.0)))
def layouts(a, b, c, d):
    return a + 1, b * 2, c.sum(axis=0), c + 1, d + 1, d * 1, b.reshape(-1), b.copy(), b.ravel(order="K"), a.copy(), d


@program(np.float32(2.5), T(3))
def a_scalar_as_an_argument(s, x):
    a = x.numpy() * s
    return a, s + np.float64(1)


@program(A(3), 2, 1.5)
def numbers_as_arguments(a, n, f):
    return a * n + f, a**n, a[n], np.full(n, f), np.power(a, n)


@program(A(6))
def a_number_for_python(a):
    return torch.ones(3) * float(a.sum()), a.sum().item()


@program(np.float32(2.5), np.int64(3), T(2))
def tensors_of_numpys_numbers(s, n, x):
    return torch.tensor(s), torch.tensor([s, s + 1]), torch.as_tensor(n), x * torch.tensor(n)


@program(A(3))
def a_tensor_of_scalars(a):
    return torch.tensor((a[0], a[1])), torch.tensor([a.sum(), 1.0]), torch.as_tensor([a[0].astype(np.float32)])


@program(make=lambda: tuple(np.broadcast_arrays(A(3), A(2, 1))), graphs=None, breaks=None)
def arrays_that_warn_when_asked(a, b):
    return a.sum(), b.sum()


@program(A(4), A(4, seed=1))
def dunder_methods(a, b):
    a.__setitem__(0, 2)
    return a.__add__(b), a.__getitem__(1), a.__len__(), np.ndarray.sum(a), np.ndarray.reshape(a, 2, 2)


@program(A(2, 3))
def loops_over_items(a):
    b, total = np.zeros_like(a), 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            b[i, j] = a[i, j] * i + j
            total += b[i, j] ** 2
    return b, total


@program(A(4))
def arrays_in_closures(a):
    total = np.ones(4)

    def add():
        nonlocal total
        total = total + a
        return total

    return add(), add(), total, [v * 2 for v in a], dict(zip("xyz", a, strict=False))


def test_tensor_operations_beside_numpy_get_kernels():
    def fn(x, a):
        mask = torch.from_numpy(np.tanh(a))
        y = (x.sin() * mask).exp() + x
        b = y.numpy()
        b[0] += 1
        return (y * 2 + 1).relu() * mask

    compiled = dynajit.compile(fn, backend="native")
    x, a = T(64, 64), A(64, 64, dtype=np.float32)
    for _ in range(2):
        compare(compiled(x, a), fn(x, a), "result")
    launched = [kernel for kernel in dynajit.report(compiled).kernels if kernel.launched]
    assert len(launched) == 2, [kernel.name for kernel in launched]
    dynajit.reset()


def test_other_shapes_layouts_and_dtypes_are_told_apart():
    def fn(a, x):
        return a * 2 + a.sum(axis=0), torch.from_numpy(a) + x.sum()

    compiled = dynajit.compile(fn, backend="eager")
    made = [
        A(3, 4),
        A(2, 4),
        A(3, 4, dtype=np.float32),
        np.asfortranarray(A(3, 4)),
        A(6, 4)[::2],
        A(5, 4),
        A(3, 4),
        A(7),
    ]
    for a in [*made, *made]:
        compare(compiled(a, T(2)), fn(a, T(2)), str(a.shape))
    assert dynajit.report(compiled).status != "eager"
    dynajit.reset()


def test_a_changing_shape_is_not_compiled_again_and_again():
    def fn(a):
        return a * 2 + torch.ones(1).numpy()

    compiled = dynajit.compile(fn, backend="eager")
    for n in range(2, 30):
        compare(compiled(np.ones(n)), fn(np.ones(n)), str(n))
    assert dynajit.report(compiled).status != "eager"
    assert len(dynajit.report(compiled).entries) < 6
    dynajit.reset()


def test_a_large_array_is_left_to_numpy():
    def fn(a):
        return a.sum()

    compiled = dynajit.compile(fn, backend="eager")
    assert compiled(np.ones(1 << 21)) == 1 << 21
    dynajit.reset()


def test_a_warning_that_pytorch_gives_once_is_not_lost():
    code = """
import warnings, numpy as np, torch, dynajit
a = np.broadcast_to(np.ones(3), (2, 3))
def fn(a):
    return torch.from_numpy(a) + 1
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    dynajit.compile(fn, backend="eager")(a)
assert any("not writable" in str(w.message) for w in seen), seen
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# The same by the native backend.
for _name, _program in list(globals().items()):
    if isinstance(_program, Program):
        globals()[f"{_name}_natively"] = replace(_program, backend="native")
