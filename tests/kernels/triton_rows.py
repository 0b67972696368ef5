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
    Case("no_dimensions", lambda x, y: (x * y + 1,), (t(), t())),
    Case("batch_norm", lambda x, m, v: (F.batch_norm(x, m, v.abs()),), (t(2, 6, 50), t(6), t(6)), exact=False),
]


def planned(case: Case) -> Plan:
    gm = torch.fx.symbolic_trace(case.function)
    return plan(gm, case.args, lambda kernel: print_triton(kernel, kernel.name))


def kernels_of(case: Case) -> list[Kernel]:
    """The kernels of a case in the order of their launch."""
    return [kernel for _, kernel in planned(case).launched]
