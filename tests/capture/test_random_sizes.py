"""Random programs that read, compute with and branch on sizes, called with many sizes, compiled against eager."""

import linecache
import random

import pytest
import torch

import dynajit
from dynajit.errors import InternalError

COMPARE = ["<", ">", "==", "!=", "<=", ">="]


class Maker:
    """One program. tensors: names with ranks, numbers: names, of which statements choose."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.tensors = [("x", 2), ("y", 2)]
        self.numbers = ["n", "2", "3"]
        self.lines = ["def f(x, y, n):"]

    def number(self, *more):
        return self.random.choice([*self.numbers, *more])

    def tensor(self, rank):
        return self.random.choice([name for name, other in self.tensors if other == rank])

    def keep(self, text, rank=None):
        kept, prefix = (self.numbers, "k") if rank is None else (self.tensors, "t")
        name = f"{prefix}{len(self.lines)}"
        self.lines.append(f"    {name} = {text}")
        kept.append(name if rank is None else (name, rank))

    def of_numbers(self):
        a, b = self.number(), self.number("4")
        return self.random.choice([
            f"{a} {self.random.choice(['+', '-', '*', '//', '%'])} {b}", f"max({a}, {b})", f"min({a}, {b})",
            f"int({a} / 2)", f"abs({a} - 4)",
        ])  # fmt: skip

    def made(self):
        a = self.number()
        return self.random.choice([
            (f"torch.zeros({a}, {self.number()})", 2), (f"torch.arange({a}).float()", 1),
            (f"x.new_ones({a}, 2)", 2), (f"torch.full(({a},), 0.5)", 1),
        ])  # fmt: skip

    def computed(self, v, r):
        dim, a = self.random.randrange(r), self.number()
        low, high = self.number("", "1", "-2"), self.number("", "3", "-1", "7")
        return self.random.choice([
            (f"{v}[{low}:{high}]", r), (f"{v} + {self.tensor(r)}", r), (f"{v}.reshape(-1)", 1),
            (f"{v}[..., None]", r + 1),
            (f"torch.cat([{v}, {self.tensor(r)}], {dim})", r), (f"{v}.sum({dim})", r - 1), (f"{v}.softmax({dim})", r),
            (f"{v}.reshape({v}.shape[0], -1)", 2), (f"{v}.unsqueeze({dim})", r + 1), (f"{v} * {a}", r),
            (f"torch.nn.functional.pad({v}, (1, {a}))", r), (f"{v}[{a}]", r - 1), (f"{v}.narrow(0, 0, {a})", r),
            (f"{v}.expand({a}, *{v}.shape)", r + 1), (f"torch.stack([{v}, {v}])", r + 1), (f"{v}.flip({dim})", r),
            (f"{v}.add_(1)", r), (f"{v}.chunk(2)[0]", r), (f"torch.ones_like({v})", r), (f"{v}.cumsum({dim})", r),
            (f"{v}.contiguous().view(2, -1)", 2), (f"{v}.transpose(0, {dim})", r), (f"{v}[::2]", r), (f"{v}[-{a}:]", r),
            (f"{v}.repeat({', '.join(['2', *[a] * (r - 1)])})", r), (f"{v}.squeeze({dim})", r - 1),
        ])  # fmt: skip

    def statement(self):
        choice = self.random.random()
        name, rank = self.random.choice(self.tensors)
        if choice < 0.15:
            comparison = f"{self.number()} {self.random.choice(COMPARE)} {self.number()}"
            self.lines.append(f"    if {comparison}:\n        x = x + 1\n    else:\n        y = y * 2")
        elif choice < 0.3:
            self.keep(self.of_numbers())
        elif choice < 0.4:
            self.keep(*self.made())
        elif rank == 0 or choice < 0.5:
            self.keep(f"{name}.numel()" if rank == 0 else f"{name}.shape[{self.random.randrange(rank)}]")
        else:
            self.keep(*self.computed(name, rank))

    def program(self):
        for _ in range(self.random.randint(3, 10)):
            self.statement()
        return "\n".join(
            [*self.lines, "    return " + ", ".join([*(name for name, _ in self.tensors), *self.numbers]), ""]
        )

    def arguments(self):
        a, b = self.random.choice([2, 3, 4, 5, 6, 7, 8, 1, 0, 12]), self.random.choice([2, 3, 4, 5, 8, 1, 12])
        c, d = (a, b) if self.random.random() < 0.6 else (self.random.choice([a, 5, 1]), self.random.choice([b, 3, 1]))
        n = self.random.choice([2, 3, 4, 5, 6, 1, 0, -1])
        return torch.arange(a * b).float().reshape(a, b), torch.arange(c * d).float().reshape(c, d) + 0.5, n


def run(fn, args):
    args = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args]
    try:
        return ("returned", *fn(*args), *args)
    except InternalError:
        raise
    except Exception as error:
        return ("raised", type(error), *args)


def same(a, b):
    if type(a) is not type(b):
        return False
    if not isinstance(a, torch.Tensor):
        return a == b
    alike = (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
    return alike and torch.equal(a.nan_to_num(), b.nan_to_num())


@pytest.mark.parametrize("seed", range(0, 160, 10))
def test_random_sizes(seed):
    for number in range(seed, seed + 10):
        maker = Maker(number)
        source, filename = maker.program(), f"<sizes {number}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        namespace = {"torch": torch}
        exec(compile(source, filename, "exec"), namespace)
        compiled = dynajit.compile(namespace["f"], backend="eager", dynamic=maker.random.choice([None, None, True]))
        for _ in range(6):
            args = maker.arguments()
            expected, found = run(namespace["f"], args), run(compiled, args)
            shapes = [tuple(arg.shape) if isinstance(arg, torch.Tensor) else arg for arg in args]
            assert len(expected) == len(found), f"{source}\n{shapes}: {expected[:2]} {found[:2]}"
            assert all(map(same, expected, found)), f"{source}\n{shapes}"
        dynajit.reset(compiled)
