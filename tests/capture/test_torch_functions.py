"""Classes with a `__torch_function__` of their own: it is evaluated where PyTorch would call it."""

import copy
import functools

import torch
import torch.nn.functional as F
from programs import T, program
from torch.overrides import TorchFunctionMode

import dynajit

ANY = {"graphs": None, "breaks": None}


class Counted(torch.Tensor):
    seen = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Counted.seen.append(getattr(func, "__name__", "?"))
        return super().__torch_function__(func, types, args, kwargs)


def made(cls, *shape):
    return lambda: (T(*shape).as_subclass(cls), T(*shape, seed=1))


class Plus(torch.Tensor):
    """Adds one to what sums return."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.sum or func is torch.Tensor.sum:
            return super().__torch_function__(func, types, args, kwargs) + 1
        return super().__torch_function__(func, types, args, kwargs)


class Deeper(Plus):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs)
        return result - 3 if func is torch.Tensor.exp else result


class Tagged(torch.Tensor):
    """Carries a tag along."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if kwargs is None:
            kwargs = {}
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs), len(types)


class Sizes(torch.Tensor):
    """Answers for some attributes itself."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func == torch.Tensor.shape.__get__:
            return (1, 2)
        if func is torch.Tensor.dtype.__get__:
            return "never"
        return super().__torch_function__(func, types, args, kwargs)


class Silent(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Static(torch.Tensor):
    @staticmethod
    def __torch_function__(func, types, args=(), kwargs=None):
        plain = [a.as_subclass(torch.Tensor) if isinstance(a, Static) else a for a in args]
        return func(*plain, **(kwargs or {}))


@program(make=made(Plus, 3, 2))
def a_handler_is_inlined(x, y):
    return x.sum(), torch.sum(x), x + y, y + x, x * 2, 1 - x, x @ y.t(), -x, x / 2, abs(x), x**2


@program(make=made(Plus, 3, 2))
def attributes_and_indexing(x, y):
    kinds = type(x).__name__, isinstance(x, Plus)
    return x.shape, x[0], x[:, 1], x.T, x.dtype, x.ndim, x.requires_grad, x.device, kinds


@program(make=made(Plus, 3, 2))
def functions_in_python(x, y):
    return F.relu(x), F.linear(x, y), x.split(1), torch.stack([x, y]), F.softmax(x, dim=-1), x.max(0), torch.split(x, 1)


@program(make=made(Plus, 3, 2), **ANY)
def asked_by_python(x, y):
    rows = [type(row).__name__ for row in x]
    a, b, c = x
    found = len(x), hasattr(x, "shape"), hasattr(x, "foo"), getattr(x, "ndim"), bool(x[0, 0] > 0), float(x[0, 0])
    return rows, a + 1, copy.deepcopy(x), found, list(x), x.numel(), x.tolist(), [*reversed(x)], x in [x]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(2, 4), torch.nn.LayerNorm(4)

    def forward(self, x):
        return self.second(F.gelu(self.first(x))).sum()


torch.manual_seed(0)
MODEL = Model()


@program(make=made(Plus, 3, 2))
def through_a_module(x, y):
    return MODEL(x), MODEL(y)


@program(make=lambda: (T(3).as_subclass(Plus), T(3, grad=True)))
def with_gradients(x, w):
    return (x * w).sum(), (w.exp() * x).relu()


@program(make=made(Plus, 3, 2), **ANY)
def attributes_are_set(x, y):
    x.requires_grad = True
    x.tag = 5
    return x.tag, (x * 2).sum(), x.grad, x.is_leaf


@program(make=made(Plus, 3, 2))
def written_in_place(x, y):
    x += 1
    x.mul_(2)
    x[0] = 5
    z = x.add_(y)
    return x, z is x, type(z).__name__


@program(make=made(Deeper, 3, 2))
def handlers_call_those_above(x, y):
    return x.exp(), x.sum(), x.sum() * 3, (x * 2).sum()


@program(make=lambda: (T(3).as_subclass(Deeper), T(3, seed=1).as_subclass(Plus)))
def the_derived_class_is_asked_first(x, y):
    return y * x, x * y, type(y + x).__name__, torch.stack([y, x])


@program(T(3), T(3))
def results_may_be_anything(x, y):
    x = x.as_subclass(Tagged)
    a, n = x + y
    return a, n, x.sum(), torch.add(x, y, alpha=2)


@program(T(3), T(3))
def attributes_of_its_own(x, y):
    x = x.as_subclass(Sizes)
    return x.shape, x.ndim, x.dtype, (x + y).shape, x.as_subclass(torch.Tensor).shape


@program(make=made(Silent, 3))
def a_class_that_is_never_asked(x, y):
    return x + y, x.sum(), type(x * 2).__name__, x.add_(1), torch.cat([x, y])


@program(make=made(Static, 3))
def a_static_handler(x, y):
    return x + y, torch.exp(x), x.sum(), y * x


@program(T(3, 2))
def a_class_is_given_inside(x):
    y = x.as_subclass(Plus)
    return y.sum(), (y * 2).sum(), y.as_subclass(torch.Tensor).sum()


@program(make=made(Plus, 3))
def switched_off(x, y):
    with torch._C.DisableTorchFunctionSubclass():
        a = x.sum()
        b = x + 1
    return a, type(a).__name__, b, x.sum()


def test_what_a_handler_counts():
    def fn(x):
        Counted.seen.append("start")
        y = torch.relu(x + 1) * x[0]
        return y.sum(), x.shape, len(Counted.seen)

    x = T(3, 2).as_subclass(Counted)
    Counted.seen.clear()
    expected = fn(x)[2], list(Counted.seen)
    compiled = dynajit.compile(fn, backend="eager")
    for _ in range(2):
        Counted.seen.clear()
        got = compiled(x)
        assert (got[2], Counted.seen) == expected
        assert type(got[0]) is Counted
    assert not dynajit.report(compiled).breaks
    dynajit.reset()


@program(make=made(Counted, 2), **ANY)
def a_handler_beside_a_break(x, y):
    a = x + y
    print(type(a).__name__)
    return (a * 2).sum()


HANDLED = {}


def implements(function):
    def register(fn):
        HANDLED[function] = functools.wraps(function)(fn)
        return fn

    return register


class Scalar:
    """A diagonal matrix of one value, as in PyTorch's notes on extending it."""

    def __init__(self, n, value):
        self.n = n
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if kwargs is None:
            kwargs = {}
        if func not in HANDLED or not all(issubclass(t, (torch.Tensor, Scalar)) for t in types):
            return NotImplemented
        return HANDLED[func](*args, **kwargs)

    def dense(self):
        return self.value * torch.eye(self.n)


@implements(torch.mean)
def mean(input):
    return input.value / input.n


@implements(torch.add)
def add(input, other):
    if isinstance(input, Scalar) and isinstance(other, Scalar):
        return Scalar(input.n, input.value + other.value)
    left, right = (value.dense() if isinstance(value, Scalar) else value for value in (input, other))
    return left + right


@implements(torch.stack)
def stack(tensors, dim=0):
    return torch.stack([t.dense() if isinstance(t, Scalar) else t for t in tensors], dim)


@implements(F.linear)
def linear(input, weight, bias=None):
    return input @ weight.dense()


@program(make=lambda: (Scalar(3, torch.tensor(2.5)), T(3, 3)))
def an_object_that_is_no_tensor(s, x):
    return torch.mean(s), torch.add(s, s).value, torch.add(x, s), torch.add(s, x), torch.stack([s, x]), F.linear(x, s)


@program(T(3, 3))
def such_an_object_made_inside(x):
    s = Scalar(3, x[0, 0])
    return torch.add(s, torch.add(x, s)), torch.mean(s)


@program(make=lambda: (Scalar(3, torch.tensor(2.5)), T(3, 3)), **ANY)
def a_function_that_nobody_implements(s, x):
    try:
        return torch.mul(s, x)
    except TypeError as error:
        return str(error)[:60]


class Wrapped:
    """Unwraps, calls, wraps again, and keeps a log."""

    def __init__(self, data, log):
        self._t = data
        self.log = log

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        log = next(a.log for a in args if isinstance(a, Wrapped))
        log.append(func.__name__)
        unwrapped = [a._t if hasattr(a, "_t") else a for a in args]
        return cls(func(*unwrapped, **(kwargs or {})), log)


@program(T(3), [])
def wrapped_and_logged(x, log):
    w = Wrapped(x, log)
    y = torch.exp(torch.add(w, 1))
    z = torch.mul(x, w)
    return y._t, z._t, log


@program(T(3), [], **ANY)
def a_tensor_on_the_left(x, log):
    w = Wrapped(x, log)
    return (x + w)._t, (x * w)._t, log


def test_a_handler_that_is_replaced():
    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs)

    def fn(x):
        return x + 1

    compiled, x = dynajit.compile(fn, backend="eager"), T(3).as_subclass(Own)
    assert type(compiled(x)) is Own
    Own.__torch_function__ = classmethod(lambda cls, func, types, args=(), kwargs=None: 7)
    assert compiled(x) == 7
    dynajit.reset()


def test_where_pytorch_asks_no_class():
    def fn(x):
        return x.sum()

    compiled, x = dynajit.compile(fn, backend="eager"), T(3).as_subclass(Plus)
    for _ in range(2):
        assert torch.equal(compiled(x), fn(x))
        with torch._C.DisableTorchFunctionSubclass():
            assert torch.equal(compiled(x), fn(x))
            assert type(compiled(x)) is torch.Tensor
    dynajit.reset()


class Quiet(torch.Tensor):
    pass


class Above(Quiet):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs)


@program(make=lambda: (T(3).as_subclass(Above), T(3, seed=1).as_subclass(Quiet)))
def beside_a_quiet_base(x, y):
    return x + y, y + x, y * 2, torch.stack([y, x])


@program(make=lambda: (T(3).as_subclass(Plus), T(3, seed=1).as_subclass(Quiet)), **ANY)
def beside_a_quiet_stranger(x, y):
    try:
        return x + y
    except TypeError as error:
        return str(error)[:40]


# ---- modes ----
class Swapped(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return (torch.sub if func is torch.add else func)(*args, **(kwargs or {}))


class Logged(TorchFunctionMode):
    def __init__(self, log):
        super().__init__()
        self.log = log

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.log.append((getattr(func, "__name__", "?"), len(types), len(args), sorted(kwargs or {})))
        return func(*args, **(kwargs or {}))


class Doubled(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if isinstance(result, torch.Tensor) else result


@program(T(4))
def a_mode_that_changes_a_function(x):
    y = torch.add(x, 1)
    with Swapped():
        z = torch.add(x, 1) + x
    return y, z, torch.add(z, 1)


@program(T(4, 2), [])
def a_mode_that_logs(x, log):
    with Logged(log):
        y = torch.ones(2) + x
        z = F.relu(y.t() @ y) * x.shape[1]
        z[0] = 1
        w = z.sum(0, keepdim=True).split(1, dim=1)
    return w, z, log


@program(T(4), [])
def modes_in_modes(x, log):
    with Logged(log), Doubled(), Swapped():
        y = torch.add(x, 1)
        with Logged(log):
            z = y.exp()
    return y, z, log, x + 1


@program(make=lambda: (T(4).as_subclass(Plus), []))
def a_mode_and_a_class(x, log):
    with Logged(log):
        y = x.sum() + 1
    return y, log


@program(T(4), **ANY)
def a_break_in_a_mode(x):
    with Doubled():
        y = x + 1
        print("inside", torch._C._len_torch_function_stack())
        z = y + 1
    return y, z, x + 1


@program(T(4), **ANY)
def an_error_in_a_mode(x):
    try:
        with Doubled():
            y = x + 1
            raise ValueError("no")
    except ValueError as error:
        return str(error), y, x + 1


@program(T(4), [], **ANY)
def what_else_a_mode_is_asked(x, log):
    with Logged(log):
        torch.device("cpu")
        with torch.no_grad():
            y = x * 2
        torch.is_grad_enabled()
        n = len(x), [v * 2 for v in x], torch.nn.Parameter(x).shape, x.requires_grad
        with torch.autocast("cpu"):
            z = x @ x
        w = torch.tensor([1.0]), torch.zeros_like(x), x.numpy(), torch.promote_types(torch.float32, torch.int64)
    return y, n, z, w, log


@program(T(3, 2), [])
def a_module_in_a_mode(x, log):
    with Logged(log):
        y = MODEL(x)
    return y, log


@program(T(3), **ANY)
def a_mode_that_outlives_its_frame(x):
    def inner():
        mode = Doubled()
        mode.__enter__()
        return x + 1

    y = inner()
    z = y + 1
    torch.overrides._pop_mode()
    return y, z


def test_a_mode_outside():
    def fn(x):
        return torch.add(x, 1) * 2

    compiled = dynajit.compile(fn, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(T(3)), fn(T(3)))
        with Swapped():
            assert torch.equal(compiled(T(3)), fn(T(3)))
    dynajit.reset()
