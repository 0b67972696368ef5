"""What PyTorch offers beyond operations: where it is not captured, a break leaves the result right."""

import copy
import functools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from programs import T, program
from torch import nn
from torch._higher_order_ops import scan, while_loop
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

import dynajit

ANY = {"graphs": tuple(range(9))}


def fresh():
    torch.manual_seed(0)
    return nn.Linear(4, 4), T(3, 4)


# ---- gradients inside ----
@program(T(4, grad=True), graphs=1, breaks="DJ-D005")
def backward_inside(w):
    (w * w).sum().backward()
    return w.grad


@program(make=fresh)
def gradients_are_set(net, x):
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    total = sum(parameter.grad.sum() for parameter in net.parameters())
    net.weight.grad.mul_(2)
    kept = net.weight.grad.clone()
    net.weight.grad = None
    return total, kept, net.weight.grad, net.bias.grad


@program(T(4, grad=True), graphs=2, breaks="DJ-B004 | DJ-B002")  # with torch._dynamo loaded it is the second
def autograd_grad_inside(w):
    y = (w * w).sum()
    (grad,) = torch.autograd.grad(y, w)
    return grad * 2


@program(make=fresh, graphs=2, breaks="DJ-D005")
def gradients_are_set_to_none(net, x):
    net.zero_grad()
    net(x).sum().backward()
    grad = net.weight.grad.clone()
    net.zero_grad()
    return grad, net.weight.grad


@program(T(4, grad=True), graphs=(1, 2), breaks="DJ-D005")
def a_hook_on_a_tensor(w):
    y = w * 2
    y.register_hook(lambda grad: grad * 3)
    y.sum().backward()
    return w.grad


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.drop = nn.Linear(4, 4), nn.Dropout(0.5)

    def forward(self, x, scale=1.0):
        return self.drop(torch.relu(self.layer(x))) * scale + x, None


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Block(), Block()

    def part(self, x):
        return self.first(x)[0]

    def forward(self, x):
        x = checkpoint(self.part, x, use_reentrant=False)
        x, _ = checkpoint(self.second, x, 2.0, use_reentrant=False)
        return checkpoint(functools.partial(self.second, scale=3.0), x, use_reentrant=False)


def checkpointed_model():
    torch.manual_seed(0)
    return Checkpointed(), T(3, 4, grad=True)


@program(make=checkpointed_model)
def checkpointed(net, x):
    return net(x)


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_gradients_of_checkpointed(backend):
    net, _ = checkpointed_model()
    eager = copy.deepcopy(net)
    dynajit.compile(net, backend=backend)
    for _ in range(2):
        for model in (net, eager):
            torch.manual_seed(3)
            model(T(3, 4))[0].sum().backward()
    for a, b in zip(net.parameters(), eager.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad)
    dynajit.reset()


def plain(x):
    return torch.sin(x) * 2


@program(T(4, grad=True))
def a_function_is_checkpointed(w):
    return checkpoint(plain, w, use_reentrant=False).sum()


@program(T(4, grad=True), T(4))
def a_nested_function_is_checkpointed(w, x):
    y, factor = x + 1, 2.0
    return checkpoint(lambda z: torch.sin(z) * factor + y, w, use_reentrant=False).sum()


@program(T(4, grad=True), graphs=(1, 2), breaks="DJ-D005")
def checkpointed_and_gone_back_through(w):
    checkpoint(lambda x: torch.sin(x) * 2, w, use_reentrant=False).sum().backward()
    return w.grad


NOTED = []


def noting(x):
    NOTED.append(x.shape)
    return x * 2


@program(T(4, grad=True), graphs=(2, 3), breaks="DJ-B002")
def a_function_with_side_effects_is_checkpointed(w):
    return checkpoint(noting, w, use_reentrant=False).sum(), len(NOTED)


# ---- operators of the user ----
@torch.library.custom_op("dynajit_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("dynajit_tests::increment", mutates_args=("x",))
def increment(x: torch.Tensor) -> None:
    x.add_(1)


@torch.library.custom_op("dynajit_tests::without_a_rule", mutates_args=())
def without_a_rule(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@program(T(4))
def an_operator_of_the_user(x):
    y = twice(x) + 1
    increment(y)
    return y * 2, torch.ops.dynajit_tests.twice(x)


@program(T(4), graphs=2, breaks="DJ-D004")
def an_operator_without_a_shape_rule(x):
    return without_a_rule(x) + 1


# ---- kinds of tensors ----
class Kind(torch.Tensor):
    pass


class Duck:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return 7


class Reversed(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return (torch.sub if func is torch.add else func)(*args, **(kwargs or {}))


@program(make=lambda: (T(4).as_subclass(Kind),))
def a_subclass(x):
    return x * 2


@program(T(4), graphs=0)
def an_object_that_answers_for_functions(x):
    return torch.add(x, Duck()), torch.sum(Duck())


@program(T(4))
def a_mode_that_changes_functions(x):
    y = x * 2
    with Reversed():
        return torch.add(y, 1)


@program(T(4, 4), graphs=2, breaks="DJ-B002 DJ-D007 DJ-B002 | DJ-B002 DJ-D007")
def sparse_products(x):
    s = x.to_sparse()
    return torch.sparse.mm(s, x), s.to_dense() + 1


# ---- contexts ----
@program(T(4))
def a_default_device(x):
    with torch.device("cpu"):
        return torch.ones(4) + x


@program(T(4), graphs=0, breaks="DJ-B015")
def another_default_device(x):
    with torch.device("meta"):
        return torch.ones(4).device, x


@program(T(4), graphs=1, breaks="DJ-B001")
def a_break_under_a_default_device(x):
    with torch.device("cpu"):
        y = torch.ones(4) * x
        print("inside")
        return y + torch.zeros(4)


@program(T(1, 1, 4, 4))
def a_choice_of_attention_kernels(x):
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(x, x, x)


# ---- random numbers from a generator ----
@program(T(4))
def a_generator_made_inside(x):
    generator = torch.Generator().manual_seed(3)
    return torch.rand(4, generator=generator) + x


@program(make=lambda: (T(4), torch.Generator().manual_seed(5)))
def a_generator_as_argument(x, generator):
    noise = torch.randn(4, generator=generator) + x
    generator.manual_seed(7)
    return noise, torch.rand(2, generator=generator), torch.randperm(4, generator=generator)


# ---- numpy ----
@program(T(4))
def through_numpy(x):
    return torch.from_numpy(np.sin(x.numpy()) + 1) * 2


# ---- types ----
@program(T(4))
def types_of_tensors(x):
    yes, no = isinstance(x, torch.FloatTensor), isinstance(x, torch.LongTensor)
    return x.type(torch.LongTensor) + 1, x.type(), yes, no, x.type("torch.DoubleTensor"), x.type(torch.float16)


# ---- functional transforms ----
@program(T(4, 4))
def a_gradient_of_a_function(x):
    return torch.func.grad(lambda y: (y * y).sum())(x) * 2


@program(T(4, 4), T(4))
def a_function_is_mapped(x, w):
    return torch.vmap(lambda a, b: (a @ b, a + 1), in_dims=(0, None), out_dims=0)(x, w)


@program(T(4, 4))
def a_gradient_for_each_sample(x):
    w = x[0] * 2

    def loss(parameters, sample):
        return ((parameters * sample).sum() - 1) ** 2

    return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(w, x)


@program(T(4))
def derivatives(x):
    second = torch.func.hessian(lambda y: (y**3).sum())(x)
    return torch.func.jacrev(lambda y: y * y)(x), torch.func.jacfwd(torch.sin)(x), second


@program(T(4), graphs=(1, 2), breaks="DJ-D006")
def a_value_and_its_gradient(x):
    return torch.func.grad_and_value(lambda y: (y * x).sum())(x), torch.func.vmap(torch.sin, 0, 1)(x[None]).stride()


@program(T(4, grad=True), graphs=(0, 1), breaks="DJ-D005")
def a_gradient_that_may_require_gradients(x):
    return torch.func.grad(lambda y: (y * y).sum())(x)


@program(T(3))
def products_with_the_jacobian(x):
    both = torch.func.jvp(lambda a, b: (a * b, a), (x, x * 2), (torch.ones(3), x))
    return torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),)), both


@program(T(3))
def products_of_the_jacobian(x):
    out, pull = torch.func.vjp(lambda a: (a * 2, a.sin()), x)
    product, other = torch.func.vjp(lambda a, b: a * b, x, x + 1)
    return out, pull((x, x)), other(x)[0] * 2, other(product)


@program(T(3), graphs=None, breaks=None)
def a_product_across_a_break(x):
    out, pull = torch.func.vjp(torch.sin, x)
    print("here")
    return out, pull(x)


@program(T(3))
@pytest.mark.filterwarnings("ignore")
def a_loop_in_the_graph(x):
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))


@program(T(3))
def a_scan_in_the_graph(x):
    return scan(lambda carried, y: (carried + y, carried * 2), torch.zeros(()), x)


@program(T(4, 4))
def a_transform_that_raises(x):
    return torch.vmap(lambda y: y * torch.rand(4))(x)


# ---- hooks and branches in the graph ----
@program(T(4, grad=True))
def hooks_on_results(w):
    y, factor = w * 2, 3.0
    y.register_hook(lambda grad: grad * factor)
    z = y + 1
    z.retain_grad()
    return z * 2


def test_hooks_on_results_are_called():
    def f(w):
        y, factor = w * 2, 3.0
        y.register_hook(lambda grad: grad * factor)
        return (y * w.detach()).sum()

    compiled = dynajit.compile(f, backend="eager")
    for _ in range(2):
        a, b = T(4, grad=True), T(4, grad=True)
        compiled(a).backward()
        f(b).backward()
        assert torch.equal(a.grad, b.grad)
    assert len(dynajit.report(compiled).graphs) == 1
    dynajit.reset(compiled)


KEPT = []


@program(T(4, grad=True))
def a_hook_that_keeps_gradients(w):
    y = w * 2
    y.register_hook(lambda grad: KEPT.append(grad))
    return y.sum()


@program(T(4, grad=True), graphs=(1, 2, 3), breaks="DJ-B002 DJ-D005")
def a_hook_that_keeps_gradients_in_a_list(w):
    y, kept = w * 2, []
    y.register_hook(lambda grad: kept.append(grad))
    y.sum().backward()
    return kept


@program(T(4), T(4))
def both_ways_in_one_graph(x, y):
    return torch.cond(x.sum() > 0, lambda a, b: a + b, lambda a, b: a - b, (x, y)) * 2


@program(T(3, 2))
def sizes_as_shapes_of_legacy_tensors(x):
    made = torch.FloatTensor(x.shape), x.new(x.size()), torch.Tensor(x[..., :1].shape), x.new(2, 3)
    return [tensor.zero_() for tensor in made], x.new([1, 2]), torch.LongTensor((x.shape[0], 3))
