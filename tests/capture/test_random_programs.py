"""Random small programs: control flow, containers, objects, breaks and errors, mixed, compiled against eager."""

import contextlib
import io
import linecache
import random

import pytest
import torch

import dynajit
from dynajit.errors import InternalError


class Box:
    def __init__(self, v):
        self.v = v

    def bump(self, k):
        self.v = self.v + k
        return self


class Manager:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")

    def __exit__(self, *error):
        self.log.append("out")
        return error[0] is KeyError


def helper(a, b=2, *c):
    if b > 3:
        raise ValueError("b")
    return a * b + len(c)


def noisy(a):
    b = a * 2
    print("noisy")
    return b - a


def nested(a, k=1, *rest, log=()):
    """Breaks at several depths, with a closure, handlers and a loop alive."""
    total = a + k

    def inner(v):
        nonlocal total
        total = total * 1 + v
        try:
            v = noisy(v) + total
            if k > 2:
                raise KeyError(k)
            return v
        except KeyError:
            print("caught")
            return total
        finally:
            total = total + 1

    parts = [inner(a + i) for i in range(2)]
    return parts[0] + parts[1] + total + len(rest)


def numbers(n):
    yield from range(n)


SIMPLE = ["x", "y", "x", "i0", "n", "2", "1.5", "b.v"]
NUMBERS = ["1", "2", "i0", "n", "len(xs)", "len(log)", "x.shape[0]"]
ITERABLES = ["range(3)", "range(1)", "list(xs)", "numbers(3)", "enumerate(xs[:2])", "zip(xs[:2], log)"]
CONDITIONS = ["x.sum() > {n}", "1 in d", "len(xs) % 2", "not xs", "b.v is y", "n == 3 or n > 1", "{n} > {m}"]
LINES = ["n = {n}", "xs.append({e})", "print('p', n, len(xs))", "d[1] = {e}", "d[2] = {e}", "b.v = {e}", "x.add_(1)",
         "log.append({n})", "x = x * 0 + {e}", "y = x * 0 + {e}", "y = x * 0 + {e}"]  # fmt: skip
EXPRESSIONS = ["({e} + {f})", "({e} * {f})", "({e} - {f})", "torch.tanh(x + {n})", "helper({e}, {n})",
               "noisy({e})", "nested({e}, {n})", "nested({e}, *[1, {n}], log=log)", "(x if {c} else {e})",
               "sum([{n} for q in range(2)])", "xs[{n}]", "b.bump({n}).v", "d.get('k', {n})"]  # fmt: skip
BLOCKS = ["if {c}:", "for i0 in {it}:", "try:", "with Manager(log):"]


class Writer:
    """Writes the program of a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def fill(self, text, depth):
        choose = self.random.choice
        for key, make in (("{e}", self.expression), ("{f}", self.expression)):
            while key in text:
                text = text.replace(key, make(depth + 1), 1)
        for key, options in (("{c}", CONDITIONS), ("{it}", ITERABLES), ("{n}", NUMBERS), ("{m}", NUMBERS)):
            while key in text:
                text = text.replace(key, choose(options), 1)
        return text

    def expression(self, depth=0):
        if depth > 2 or self.random.random() < 0.3:
            return self.random.choice(SIMPLE)
        return self.fill(self.random.choice(EXPRESSIONS), depth)

    def block(self, indent, depth):
        return [line for _ in range(self.random.randrange(1, 4)) for line in self.statement(indent, depth)]

    def statement(self, indent, depth):
        pad = "    " * indent
        if depth >= 3 or self.random.random() < 0.6:
            return [pad + self.fill(self.random.choice(LINES), 0)]
        head = self.fill(self.random.choice(BLOCKS), 0)
        inside = "    " * (indent + 1)
        body = self.block(indent + 1, depth + 1)
        if head.startswith("for"):
            body = [f"{inside}i0 = i0 if isinstance(i0, int) else 1", *body]
            if self.random.random() < 0.4:
                body.append(f"{inside}if len(xs) % 2: {self.random.choice(['break', 'continue'])}")
        if head == "try:":
            body += [f"{inside}raise KeyError(n)"] if self.random.random() < 0.3 else []
            kind = self.random.choice(["ValueError", "(IndexError, KeyError)", "Exception"])
            body += [f"{pad}except {kind} as error:", f"{inside}log.append(type(error).__name__)"]
            if self.random.random() < 0.4:
                body += [f"{pad}finally:", *self.block(indent + 1, depth + 1)]
        elif head.startswith("if") and self.random.random() < 0.5:
            body += [f"{pad}else:", *self.block(indent + 1, depth + 1)]
        return [pad + head, *body]

    def program(self):
        lines = [line for _ in range(self.random.randrange(3, 8)) for line in self.statement(1, 0)]
        head = ["def f(x, y, n, xs, d, b, log):", "    i0 = 0"]
        return "\n".join([*head, *lines, "    return x, y, n, xs, d, b.v, log", ""])


def run(fn, k):
    """Outcome, arguments afterwards, printed text."""
    args = (torch.arange(3.0) + k, torch.ones(3) * k, k, [torch.ones(3), 2][: 1 + k % 2], {1: 5}, Box(k), [])
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            outcome = ("returned", fn(*args))
        except InternalError:
            raise
        except Exception as error:
            outcome = ("raised", type(error), str(error).split("\n")[0])
    return outcome, args, out.getvalue()


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return same(a.v, b.v) if isinstance(a, Box) else a == b


@pytest.mark.parametrize("seed", range(0, 200, 10))
def test_random_programs(seed):
    for number in range(seed, seed + 10):
        text, name = Writer(number).program(), f"<random {number}>"
        namespace = dict(globals())
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec"), namespace)
        compiled = dynajit.compile(namespace["f"], backend="eager")
        for k in (1, 2, 1, 3):
            got, want = run(compiled, k), run(namespace["f"], k)
            assert same(got, want), f"n = {k}\n{text}\ngot {got}\neager {want}"
        dynajit.reset(compiled)
