"""Numbers and tensors: operators, conversions, comparisons."""

import math

import torch
import torch.nn.functional as F
from programs import T, program


@program(T(3), T(3))
def add_and_multiply(x, y):
    return (x + y) * 2


@program(T(3), 2)
def a_number_from_an_argument(x, n):
    return x * n + n // 2


@program(T(3), 1.5)
def reflected_operators(x, a):
    return 2 - x, 1 / (x * x + 1), a**2 + x, -x, abs(x)


@program(T(3))
def in_place_operators_change_the_argument(x):
    x += 1
    x *= 2
    return x


@program(T(4, 4), T(4))
def matmul_and_activation(w, x):
    return F.gelu(w @ x) + torch.tanh(x)


@program(T(3), 7)
def python_arithmetic(x, n):
    a = divmod(n, 3)
    b = round(n / 3, 2)
    c = max(a) + min(1, 2) + abs(-3) + pow(2, 3)
    return x * (a[0] + a[1] + b + c) + math.sqrt(n) + int("4") + float("2.5")


@program(T(3))
def comparisons_of_tensors(x):
    return (x > 0).float() + (x == x).int() + (x != 0)


@program(T(2, 3))
def facts_about_a_tensor(x):
    if x.dim() == 2 and x.shape[0] == 2 and x.size(1) == 3 and x.dtype == torch.float32 and not x.requires_grad:
        return x.sum() * x.numel() * len(x)
    return x


@program(T(2, 3))
def chained_comparisons_and_not(x):
    n = x.shape[0]
    if 0 < n < 5 and not n == 3:
        return x + n
    return x - n


@program(T(5), T(5), T(5))
def a_long_chain(x, y, z):
    a = x * y + z
    b = torch.sigmoid(a) * a
    c = b - a.exp().log1p()
    d = torch.where(c > 0, c, 0.01 * c)
    return d.clamp(-1, 1) / (z.abs() + 1e-3)


@program(T(3, 4))
def views_and_indexing(x):
    y = x.t().reshape(2, 6)
    z = x[1:, ::2] + x[:2, None, 1].squeeze(-1)[:, None]
    return y, z, x[-1], x[..., 0], x[[0, 2]], x.unsqueeze(0).expand(2, 3, 4)


@program(T(3, 4))
def writing_into_a_tensor(x):
    x[0] = 1.0
    x[1:, 2] *= 3
    y = torch.zeros(3, 4)
    y[:, 1] = x[:, 0]
    return y


@program()
def tensors_made_inside():
    return torch.ones(2, 3) + torch.arange(3) * torch.full((3,), 0.5) + torch.tensor([1.0, 2.0, 3.0])


@program(T(2, 3))
def several_results_of_one_operation(x):
    values, indices = x.max(dim=1)
    a, b, c = x.unbind(1)
    return values, indices, torch.topk(x, 2).values, x.chunk(2)[0], a + b + c


@program(T(3, dtype=torch.float64), T(3, dtype=torch.int32))
def dtypes_are_promoted(x, i):
    return x + i, i / 2, i // 2, x.to(torch.float16) + 1, i.float(), x.type_as(i)


@program(float("nan"), -0.0, T(2))
def special_floats(a, b, x):
    return x * a, math.copysign(1.0, b) * x


@program(T(3), T(3))
def in_place_by_an_argument(x, y):
    F.relu(x, inplace=True)
    z = F.dropout(y, 0.5, training=False, inplace=True)
    F.leaky_relu_(y, 0.1)
    torch.add(x, 1, out=y)
    return x + y, z is y


@program(T(3))
def operations_that_return_their_argument(x):
    a, b = x.to(torch.float32), x.contiguous()
    a += 1
    return a is x, b is x, F.dropout(x, 0.5, training=False) is x, x


@program(T(3))
def inference_mode_tensors(x):
    y = x + 1
    y = F.relu(y, inplace=True)
    y.mul_(2)
    return y.to(torch.float32) * x


@program(T(2, 3), graphs=0)
def sizes_stay_sizes(x):
    return x, x.shape + (1,), (1,) + x.shape, x.shape * 2, x.shape[1:], x.shape[:-1] + x.shape[-1:], tuple(x.shape)
