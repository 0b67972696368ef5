"""Graphs whose kernels are printed for Triton: run by the interpreter, and compiled ahead of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from dynajit.codegen.kernel import Kernel
from dynajit.codegen.plan import Plan, plan
from dynajit.codegen.triton import print_triton


def t(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if not dtype.is_floating_point:
        return torch.randint(-9, 10, shape, generator=generator, dtype=dtype)
    return (torch.rand(shape, generator=generator, dtype=torch.float64) * 6 - 3).to(dtype)


@dataclass(frozen=True)
class Case:
    """exact: elementwise, so the bits of eager (where eager's functions are the interpreter's)."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    exact: bool = True


def light(x: Any, b: Any) -> Any:
    u = torch.relu((x + b) * 1.25 - 0.5)
    u = torch.abs(u * u + x)
    return (torch.clamp(u / (u + 1), max=0.9) * b,)


def rms_norm(x: Any, r: Any, w: Any) -> Any:
    h = x + r
    return h, h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def rotary(y: Any, c: Any, s: Any) -> Any:
    q = y.view(2, 8, 3, 16).transpose(1, 2)
    parts = q.chunk(2, -1)
    return (torch.cat([-parts[1], parts[0]], -1) * s + q * c,)


aten = torch.ops.aten


def backward(g: Any, x: Any) -> Any:
    made = aten.gelu_backward(g, x, approximate="tanh") + aten.silu_backward(g, x)
    return made, aten.tanh_backward(g, x) * aten.sigmoid_backward(g, x), aten._softmax_backward_data(g, x, 1, F32)


def layer_norm_backward(g: Any, x: Any, mean: Any, rstd: Any, w: Any, b: Any) -> Any:
    made = aten.native_layer_norm_backward(g, x, [64], mean, rstd, w, b, [True, True, True])
    return made[0], made[1], made[2]


LAYER_NORM = (t(30, 64), t(30, 64, seed=1), t(30, 1), t(30, 1, seed=1).abs(), t(64), t(64))
F32 = torch.float32
BF16, F16, F64, I64 = torch.bfloat16, torch.float16, torch.float64, torch.int64
NAN = torch.tensor([float("nan"), -0.0, 0.0, float("inf"), -float("inf"), 1.0, -2.0] * 9)

CASES = [
    Case("light", light, (t(3, 700), t(700))),
    Case("light_bf16", light, (t(3, 700, dtype=BF16), t(700, dtype=BF16))),
    Case("light_f16", light, (t(3, 700, dtype=F16), t(700, dtype=F16))),
    Case("double", lambda x: (x * 0.1 + 1 / x, torch.floor(x) / 3), (t(300, dtype=F64),)),
    Case("functions", lambda x: (torch.tanh(x) + torch.exp(x), torch.sin(x)), (t(900),), exact=False),
    Case("gelu", lambda x: (F.gelu(x, approximate="tanh"), F.silu(x), F.softplus(x)), (t(900),), exact=False),
    Case("nan", lambda x, y: (torch.maximum(x, y), torch.clamp(x, -1, 1), torch.relu(x)), (NAN, NAN.flip(0))),
    Case("where", lambda x: (torch.where(x > 0, x, 0.0), (x > 1) | (x < -1), (x != 0).to(torch.float32)), (t(500),)),
    Case("integers", lambda x, y: (x * y + 3, x & y, ~x, x.float() / 2), (t(77, dtype=I64), t(77, dtype=I64))),
    Case("broadcast", lambda x, y, z: (x * y + z,), (t(4, 1, 50), t(6, 1), t(4, 6, 50))),
    Case("transposed", lambda x, y: (x.t() + y, (x * 2).t()), (t(40, 30), t(30, 40))),
    Case("gaps", lambda x: (x * 2 + 1,), (t(40, 60)[::2, ::3],)),
    Case("softmax", lambda x: (torch.softmax(x * 0.5, -1),), (t(50, 333),), exact=False),
    Case("softmax_long", lambda x: (torch.softmax(x, -1),), (t(2, 9000),), exact=False),
    Case("softmax_columns", lambda x: (torch.softmax(x, 0),), (t(60, 33),), exact=False),
    Case("log_softmax_bf16", lambda x: (torch.log_softmax(x, -1),), (t(20, 100, dtype=BF16),), exact=False),
    Case("layer_norm", lambda x, w, b: (F.layer_norm(x, (300,), w, b),), (t(30, 300), t(300), t(300)), exact=False),
    Case("layer_norm_long", lambda x: (F.layer_norm(x, (9000,)),), (t(3, 9000),), exact=False),
    Case("rms_norm", rms_norm, (t(30, 64), t(30, 64, seed=1), t(64)), exact=False),
    Case("sums", lambda x: (x.sum(-1), x.mean(0), x.amax(-1), x.sum()), (t(33, 70),), exact=False),
    Case("few_long_rows", lambda x, y: ((x * y).sum(-1), (x * 2).amax(-1)), (t(3, 90000), t(90000)), exact=False),
    Case("one_sum", lambda x: ((x * x).mean(), ((x * 2) > 5.9).any()), (t(300, 400),), exact=False),
    Case("sum_all_dims", lambda x: (x.sum((0, 2)), x.var(1)), (t(5, 6, 70),), exact=False),
    Case("nan_in_max", lambda x: (x.view(9, 7).amax(1), x.view(9, 7).amin(0)), (NAN,)),
    Case("any_all", lambda x: ((x > 0).any(1), (x > 0).all(0), x.sum(1)), (t(9, 20, dtype=I64),)),
    Case("arg_extremes", lambda x: (x.argmax(1), x.argmin(0), x.max(1)[1]), (t(33, 70),)),
    Case("arg_of_all", lambda x: ((x * 2).argmax(),), (t(33, 70),)),
    Case("nan_in_argmax", lambda x: (x.view(9, 7).argmax(1), x.view(9, 7).argmin(0)), (NAN,)),
    Case("logsumexp", lambda x: (torch.logsumexp(x, 1), torch.linalg.vector_norm(x, dim=0)), (t(33, 70),), exact=False),
    Case("products", lambda x, n: ((x * 0.5).prod(1), (n * 2).prod(0)), (t(9, 12), t(9, 12, dtype=I64)), exact=False),
    Case("backward", backward, (t(30, 40), t(30, 40, seed=1)), exact=False),
    Case("layer_norm_backward", layer_norm_backward, LAYER_NORM, exact=False),
    Case("no_dimensions", lambda x, y: (x * y + 1,), (t(), t())),
    Case("cat", lambda x, y: (torch.cat([x.relu(), y * 2], 1) + 1,), (t(30, 70), t(30, 33))),
    Case("cat_rows", lambda x, y: (torch.cat([x * 2, y], 0) + 1,), (t(30, 70, dtype=BF16), t(7, 70, dtype=BF16))),
    Case("stack", lambda x, y: (torch.stack([x + y, x - y], 1) * 2,), (t(30, 70), t(30, 70, seed=1))),
    Case("pad", lambda x: (F.pad(x * 2, (1, 2, 0, 3), value=0.5) + 1,), (t(9, 30, 70),)),
    Case("flip_roll", lambda x: ((x * 2).flip(0, 1) + x.roll((2, -3), (0, 1)),), (t(30, 70),)),
    Case("triangles", lambda x: (torch.tril(x * 2, 1) + torch.triu(x, 3),), (t(30, 70),)),
    Case("repeated", lambda x: (x.repeat(2, 3) * 2,), (t(30, 70),)),
    Case("parts", lambda x: (x[:, 1:40] * x[:, -39:] + x[:, ::2][:, :1] + x[:, 5:6],), (t(30, 70, dtype=I64),)),
    Case("rotary", rotary, (t(2, 8, 48), t(8, 16), t(8, 16, seed=1))),
    Case("scattered", lambda x, y: (torch.slice_scatter(x + 1, y, 1, 3, 20) * 2,), (t(30, 70), t(30, 17))),
    Case("sum_of_parts", lambda x: (x[:, 3:60].sum(1), x.flip(1).amax(0)), (t(30, 70),), exact=False),
    Case("batch_norm", lambda x, m, v: (F.batch_norm(x, m, v.abs()),), (t(2, 6, 50), t(6), t(6)), exact=False),
]


def planned(case: Case) -> Plan:
    gm = torch.fx.symbolic_trace(case.function)
    return plan(gm, case.args, lambda kernel: print_triton(kernel, kernel.name))


def kernels_of(case: Case) -> list[Kernel]:
    """The kernels of a case in the order of their launch."""
    return [kernel for _, kernel in planned(case).launched]
