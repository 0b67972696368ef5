"""Programs for test_language.py, in a file of its own: pytest rewrites the assert statements of test files."""

# ruff: noqa

import abc
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import heapq
import json
import math
import operator
import random
import re
import string
import sys
import types
import typing
import warnings

import torch

T = torch.ones
WHOLE: dict = {}
RIGHT: dict = {}


def whole(fn):
    """It is captured as one graph."""
    WHOLE[fn.__name__] = fn
    return fn


def right(fn):
    """It breaks somewhere."""
    RIGHT[fn.__name__] = fn
    return fn


@whole
def gen_send(x):
    def g():
        r = yield 1
        s = yield r * 2
        return s

    it = g()
    a = next(it)
    b = it.send(x)
    try:
        it.send(3)
    except StopIteration as e:
        c = e.value
    return a, b, c


@whole
def gen_throw(x):
    def g():
        try:
            yield x
        except ValueError:
            yield x * 2
        finally:
            pass

    it = g()
    a = next(it)
    b = it.throw(ValueError("q"))
    it.close()
    return a, b


@whole
def gen_from(x):
    def a():
        r = yield 1
        return 5

    def b():
        v = yield from a()
        yield v * x

    return list(b())


@whole
def gen_escape(x):
    def g():
        for i in range(2):
            yield x * i

    return [type(g()).__name__], x + 1


@right
def exc_group(x):
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
    except* ValueError as e:
        y = x + 1
    except* TypeError:
        y = x + 3
    return y


@whole
def raise_from(x):
    try:
        try:
            raise KeyError("a")
        except KeyError as e:
            raise ValueError("b") from e
    except ValueError as v:
        return x + 1, type(v.__cause__).__name__, v.args, str(v)


@whole
def fin(x):
    l = []
    try:
        try:
            l.append(1)
            1 / 0
        finally:
            l.append(2)
    except ZeroDivisionError as e:
        l.append(str(e))
    else:
        l.append(9)
    return x * len(l), l


class CM:
    def __init__(s, l):
        s.l = l

    def __enter__(s):
        s.l.append("e")
        return s

    def __exit__(s, *a):
        s.l.append(a[0].__name__ if a[0] else None)
        return True


@whole
def cms(x):
    l = []
    with CM(l) as c, CM(l):
        l.append(1)
        raise ValueError
    return x + len(l), l


@contextlib.contextmanager
def cman(l):
    l.append("in")
    try:
        yield 5
    finally:
        l.append("out")


@whole
def ctxman(x):
    l = []
    with cman(l) as v:
        y = x * v
    return y, l


@whole
def exitstack(x):
    l = []
    with contextlib.ExitStack() as st:
        st.enter_context(CM(l))
        st.callback(l.append, 7)
        y = x + 1
    with contextlib.suppress(KeyError):
        {}["a"]
    with contextlib.nullcontext(3) as n:
        y = y * n
    return y, l


@whole
def match_(x):
    out = []
    for v in [1, (1, 2), {"a": 1, "b": 2}, "s", [1, 2, 3], None]:
        match v:
            case 1:
                out.append("one")
            case (a, b):
                out.append(a + b)
            case {"a": q, **rest}:
                out.append((q, rest))
            case [f, *r]:
                out.append((f, r))
            case None:
                out.append("none")
            case _:
                out.append("else")
    return x + 1, out


@whole
def fmt(x):
    n = 3
    s = "a"
    return (
        x * n,
        f"{n:>4}|{s!r}|{n+1=}|{3.14159:.2f}",
        "%s %d" % (s, n),
        "{0} {k}".format(s, k=n),
        s.join(["x", "y"]),
        "abc".upper().split("B"),
        s * 3,
        "a-b".replace("-", "+"),
        "abc"[::-1],
        "abc".find("c"),
        "A,B".partition(","),
        "x".zfill(3),
        b"ab".decode(),
        str(1.5),
        repr("q"),
        "abc".startswith("a"),
        "  a ".strip(),
        "a b".title(),
        "ab" in "cab",
    )


@right
def classstmt(x):
    class A:
        k = 2

        def f(s, v):
            return v * s.k

    return A().f(x)


class Desc:
    def __get__(s, o, t):
        return 4


class Meta(type):
    def __call__(c, *a):
        o = super().__call__(*a)
        o.m = 1
        return o


class B:
    __slots__ = ("a", "b")
    d = Desc()

    def __init__(s, a):
        s.a = a
        s.b = 1

    @property
    def p(s):
        return s.a * 2

    @p.setter
    def p(s, v):
        s.a = v

    @classmethod
    def mk(c, a):
        return c(a)

    @staticmethod
    def st(a):
        return a + 1

    def __getattr__(s, n):
        if n == "zz":
            return 9
        raise AttributeError(n)

    def __len__(s):
        return 3

    def __getitem__(s, k):
        return s.a * k

    def __contains__(s, k):
        return k == 2

    def __eq__(s, o):
        return isinstance(o, B) and s.b == o.b

    def __hash__(s):
        return 5

    def __bool__(s):
        return False

    def __iter__(s):
        yield 1
        yield 2


class C2(B):
    def __init__(s, a):
        super().__init__(a + 1)

    def st2(s):
        return super().st(1)


@whole
def classes(x):
    b = B.mk(x)
    b.p = x + 1
    c = C2(x)
    return (
        b.p,
        b.d,
        b.st(1),
        b.zz,
        len(b),
        b[3],
        2 in b,
        b == c,
        bool(b),
        list(b),
        c.a,
        c.st2(),
        hasattr(b, "yy"),
        getattr(b, "q", 7),
        isinstance(c, B),
        hash(b),
        {b: 1}[c],
    )


class WM(metaclass=Meta):
    def __init__(s, a):
        s.a = a


@whole
def metac(x):
    w = WM(x)
    return w.a + w.m


@dataclasses.dataclass
class D:
    a: object
    b: int = 2
    c: list = dataclasses.field(default_factory=list)

    def __post_init__(s):
        s.c.append(s.b)


@dataclasses.dataclass(frozen=True, order=True)
class DF:
    a: int
    b: int = 3


@whole
def dcs(x):
    d = D(x)
    e = dataclasses.replace(d, b=5)
    f = DF(1)
    g = DF(2)
    return (
        d.a * d.b,
        d.c,
        e.b,
        f < g,
        f == DF(1),
        repr(f),
        dataclasses.asdict(f),
        [q.name for q in dataclasses.fields(d)],
        hash(f) == hash(DF(1)),
        dataclasses.astuple(f),
    )


NT = collections.namedtuple("NT", "a b", defaults=[3])


class NT2(typing.NamedTuple):
    a: int
    b: str = "q"


@whole
def nts(x):
    n = NT(x)
    m = NT2(1)
    a, b = n
    return n, n.a * b, m._replace(a=4), m._asdict(), n._fields, m[0], isinstance(n, tuple), len(m), NT._make([1, 2])


class E(enum.Enum):
    A = 1
    B = "b"


class IE(enum.IntEnum):
    X = 2
    Y = 3


class FL(enum.Flag):
    R = 1
    W = 2


@whole
def enums(x):
    return (
        x * IE.X,
        E.A.name,
        E("b"),
        E["A"],
        E.A is E.A,
        E.A == 1,
        IE.X + 1,
        list(E),
        FL.R | FL.W,
        FL.R in (FL.R | FL.W),
        IE.X < IE.Y,
        E.A in {E.A: 1},
        len(E),
    )


@right
def colls(x):
    c = collections.Counter("abca")
    d = collections.defaultdict(list)
    d["a"].append(x)
    o = collections.OrderedDict(a=1, b=2)
    o.move_to_end("a")
    q = collections.deque([1, 2], maxlen=3)
    q.append(3)
    q.appendleft(0)
    q.rotate(1)
    cm = collections.ChainMap({"a": 1}, {"b": 2})
    return (
        c.most_common(1),
        c["a"],
        d["a"][0] + 1,
        list(o),
        list(q),
        q.popleft(),
        cm["b"],
        c + collections.Counter("a"),
        dict(c),
    )


class ML(list):
    def twice(s):
        return s + s


class MD(dict):
    def __missing__(s, k):
        return k


class MT(tuple):
    pass


class MS(set):
    pass


class MI(int):
    pass


class MStr(str):
    pass


@whole
def subs(x):
    l = ML([1, 2])
    l.append(3)
    d = MD(a=1)
    t = MT((1, 2))
    s = MS([1])
    s.add(2)
    return (
        x + len(l),
        l.twice(),
        d["zz"],
        d["a"],
        type(l).__name__,
        type(t).__name__,
        t[1],
        2 in s,
        MI(3) + 1,
        MStr("a").upper(),
    )


@right
def ftools(x):
    f = functools.partial(lambda a, b=1: a * b, b=3)
    r = functools.reduce(operator.add, [x, x])

    @functools.wraps(f)
    def w(*a):
        return f(*a)

    return (
        f(x),
        r,
        w(x),
        functools.cmp_to_key(lambda a, b: a - b) and sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a)),
    )


@functools.lru_cache(None)
def cached(n):
    return n * 2


@functools.singledispatch
def sd(v):
    return "obj"


@sd.register
def _(v: int):
    return "int"


class CP:
    def __init__(s, x):
        s.x = x
        s.n = 0

    @functools.cached_property
    def v(s):
        s.n += 1
        return s.x * 2


@right
def fcache(x):
    c = CP(x)
    return x * cached(4), sd(3), sd("a"), c.v, c.v, c.n


@whole
def maths(x):
    return (
        x * math.pi,
        math.sqrt(4),
        math.floor(2.5),
        math.gcd(4, 6),
        math.inf,
        math.isnan(math.nan),
        math.prod([1, 2, 3]),
        math.ceil(1.2),
        math.log2(8),
        divmod(7, 2),
        pow(2, 5),
        round(2.567, 2),
        abs(-3),
        int("7"),
        float("1.5"),
        bin(5),
        hex(255),
        ord("a"),
        chr(98),
        sum([1, 2]),
        min(3, 1),
        max([1, 5, 2]),
        any([0, 1]),
        all([1, 1]),
        complex(1, 2),
        7 // 2,
        -7 % 3,
        2**-1,
        1 << 3,
        5 & 3,
        5 ^ 3,
        ~5,
    )


@whole
def sorts(x):
    l = [3, 1, 2]
    l.sort(reverse=True)
    d = {"b": 1, "a": 2}
    return (
        x + 1,
        l,
        sorted(d),
        sorted(d.items(), key=lambda kv: kv[1]),
        sorted("bca"),
        list(reversed(l)),
        max(d, key=d.get),
        min([(2, "a"), (1, "b")]),
        sorted([(2, "a"), (1, "b")], key=operator.itemgetter(1)),
        l.index(1),
        l.count(2),
        l[::2],
        l[-1],
    )


@whole
def dicts(x):
    d = {"a": 1, **{"b": 2}}
    d.update(c=3)
    d.setdefault("e", []).append(1)
    v = d.pop("a")
    d |= {"z": 0}
    del d["b"]
    return (
        x * v,
        d,
        list(d.items()),
        {k: v for k, v in d.items()},
        d.get("q", 5),
        "c" in d,
        len(d),
        dict(zip("ab", [1, 2])),
        dict.fromkeys("ab"),
        list(d.keys())[0],
        d.copy(),
        d == {"c": 3},
        {**d},
    )


@whole
def sets_(x):
    s = {1, 2}
    s.add(3)
    s |= {4}
    s.discard(1)
    t = {2, 3}
    return (
        x + len(s),
        s & t,
        s - t,
        s | t,
        s ^ t,
        t <= s,
        2 in s,
        len(s),
        sorted(s),
        frozenset([1]),
        s.isdisjoint({9}),
        {i % 2 for i in range(4)},
    )


@whole
def stars(x):
    a, *b, c = [1, 2, 3, 4]
    (d, e), f = (1, 2), 3
    g, h = x.unbind() if x.dim() > 1 else (x, x)

    def k(*a, z=1, **kw):
        return len(a) + z + len(kw)

    return x + a, b, c, d, e, f, k(*b, **{"q": 1}), [*b, *b], (*b, 1), {**{"a": 1}}, (w := 5) + w, 1 < a + 1 <= 3


@right
def dels(x):
    a = 1
    del a
    try:
        a
    except UnboundLocalError as e:
        m = type(e).__name__
    l = [1, 2, 3]
    del l[0]
    del l[:1]

    class O:
        pass

    return x + 1, m, l


GL = 1


@whole
def globs(x):
    global GL, GNEW
    GL = GL + 1
    GNEW = 5
    r = GL + GNEW
    del GNEW
    GL = 1
    return x * r


@right
def imps(x):
    import math as mm
    import os.path
    from collections import OrderedDict as OD

    return x * mm.pi, OD(a=1), os.path.join("a", "b")


@whole
def lateb(x):
    fs = [lambda i=i: x * i for i in range(3)]
    gs = [lambda: x * j for j in range(3)]
    return [f() for f in fs], [g() for g in gs]


@whole
def nonl(x):
    n = 0

    def inc():
        nonlocal n
        n += 1
        return n

    inc()
    inc()
    return x * n, n


@right
def rand(x):
    random.seed(3)
    return x * random.random(), random.randint(1, 5), random.choice([1, 2]), random.uniform(0, 1)


@whole
def copies(x):
    l = [[1], x]
    a = copy.copy(l)
    b = copy.deepcopy([[1], {"a": 2}])
    return x + 1, a[0] is l[0], b


@whole
def kinds_of_objects(x):
    return (
        x + 1,
        isinstance(x, torch.Tensor),
        isinstance(3, (int, str)),
        hasattr(x, "shape"),
        callable(len),
        type(x) is torch.Tensor,
        issubclass(bool, int),
        id(x) == id(x),
        x is x,
        None is None,
        isinstance([], collections.abc.Sequence),
        isinstance({}, collections.abc.Mapping),
        type(3).__name__,
    )


@right
def regexes(x):
    return (
        x + 1,
        re.sub("a", "b", "cat"),
        re.match(r"(\d+)", "12a").group(1),
        json.dumps({"a": 1}),
        string.ascii_letters[:3],
    )


@whole
def loops(x):
    out = []
    for i, (a, b) in enumerate(zip([1, 2, 3], "abc"), 1):
        if i == 2:
            continue
        out.append((i, a, b))
    else:
        out.append("else")
    n = 0
    while True:
        n += 1
        if n > 3:
            break
    for i in range(3):
        for j in range(3):
            if j == 1:
                break
        else:
            continue
    return (
        x * n,
        out,
        [i for i in range(5) if i % 2],
        {i: j for i, j in zip("ab", [1, 2])},
        [[j for j in range(i)] for i in range(3)],
        list(map(lambda a: a + 1, [1, 2])),
        list(filter(None, [0, 1])),
        sum(i for i in range(4)),
        any(i > 2 for i in range(4)),
    )


@whole
def asserts(x):
    assert x.shape[0] == 2, "bad"
    try:
        assert False, "msg"
    except AssertionError as e:
        s = str(e)
    return x + 1, s


@right
def locs(x):
    a = 1
    return x + 1, sorted(locals())


@right
def warn(x):
    warnings.warn("w")
    return x + 1


@whole
def heap(x):
    h = [3, 1, 2]
    heapq.heapify(h)
    heapq.heappush(h, 0)
    return x * heapq.heappop(h), heapq.nsmallest(2, h)


@whole
def typing_(x):
    y: typing.Optional[int] = 3
    z = typing.cast(int, 4)
    return x * y * z


@right
def bytes_(x):
    b = bytearray(b"ab")
    b.append(99)
    return x + len(b), bytes(b), memoryview(b)[0], (1).to_bytes(2, "big"), int.from_bytes(b"\x01\x02", "big")


@whole
def attrs(x):
    class_ = types.SimpleNamespace(a=1)
    class_.b = x
    setattr(class_, "c", 3)
    delattr(class_, "a")
    return class_.b + class_.c, vars(class_).keys()


@whole
def deco(x):
    def twice(f):
        def w(*a, **k):
            return f(*a, **k) * 2

        return w

    @twice
    def g(v, k=1):
        return v + k

    return g(x, k=3)


@whole
def abcs(x):
    return Impl().run(x)


class Base(abc.ABC):
    @abc.abstractmethod
    def f(self, x): ...
    def run(self, x):
        return self.f(x) + 1


class Impl(Base):
    def f(self, x):
        return x * 2


@whole
def slices(x):
    s = slice(1, 3)
    l = [1, 2, 3, 4]
    l[1:2] = [9, 9]
    return x[slice(None)], l[s], s.indices(5), l, x[..., None].shape, x[:, None].shape, (1, 2, 3)[::-1]


@right
def excattrs(x):
    class MyE(Exception):
        def __init__(s, a):
            super().__init__(a)
            s.a = a

    try:
        raise MyE(x)
    except MyE as e:
        return e.a + 1, len(e.args), type(e).__name__


@whole
def trystar(x):
    def f():
        try:
            return 1
        finally:
            l.append(2)

    l = []
    r = f()
    return x * r, l


@whole
def sysexc(x):
    try:
        1 / 0
    except Exception:
        t = sys.exc_info()[0].__name__
    return x + 1, t


@right
def iterprot(x):
    class It:
        def __init__(s):
            s.n = 0

        def __iter__(s):
            return s

        def __next__(s):
            s.n += 1
            if s.n > 3:
                raise StopIteration
            return s.n * x

    return (
        list(It()),
        [v for v in It()],
        dict(enumerate("ab")),
        next(iter([1])),
        next(iter([]), 5),
        list(iter(functools.partial(next, iter([1, 2, 3])), 3)),
    )


@whole
def ops(x):
    a = [1]
    a += [2]
    a *= 2
    b = (1,) + (2,)
    c = "a" + "b"
    y = x.clone()
    y += 1
    y -= 2
    y @ y
    z = +x
    w = -x
    v = ~torch.tensor(True)
    t = x // 2
    u = x % 2
    s = x**2
    r = 2**x
    q = 1 / x
    return a, b, c, y, z, w, v, t, u, s, r, q, x > 0, x == 1, x != 1, 3 - x, x.__add__(1), operator.add(x, 1), x <= x


class Singled:
    _i = None

    def __new__(cls, *a, **k):
        o = super().__new__(cls)
        o.made = 1
        return o

    def __init__(s, a):
        s.a = a


class NoInit:
    def __new__(cls, a):
        o = object.__new__(cls)
        o.a = a
        return o


class Other:
    def __new__(cls, a):
        return a * 2


class Counting(type):
    def __call__(cls, *a):
        o = super().__call__(*a)
        o.m = 5
        return o


class Counted(metaclass=Counting):
    def __init__(s, a):
        s.a = a


@whole
def own_new(x):
    s = Singled(x)
    return s.a + s.made, NoInit(x).a, Other(x)


@whole
def own_metaclass_call(x):
    w = Counted(x)
    return w.a + w.m


@whole
def plain_objects(x):
    a = object()
    b = object()
    return x + (a is b) + (a is a)


class Doubled(list):
    def twice(s):
        return len(s) * 2


class Cnt(list):
    def __init__(s, *a):
        super().__init__(*a)
        s.n = 0

    def append(s, v):
        s.n += 1
        super().append(v)

    def __getitem__(s, i):
        return super().__getitem__(i)


@whole
def derived_lists(x):
    c = Cnt([1])
    c.append(x)
    c += [4]
    d = c + [3]
    return (
        c.n,
        len(c),
        c[1],
        type(d).__name__,
        d,
        [*c],
        c == [1],
        list(reversed(c)),
        sorted(Doubled([3, 1])),
        Doubled([1]) == [1],
        Doubled([1]) * 2,
    )


class Marks(set):
    pass


@whole
def derived_sets(x):
    s = Marks([1])
    s.add(2)
    return len(s), 2 in s, s == {1, 2}, x + 1


class Totals(typing.NamedTuple):
    a: int
    b: int = 3

    def tot(s):
        return s.a + s.b

    @property
    def dbl(s):
        return s.a * 2

    @classmethod
    def mk(c, a):
        return c(a)

    K = 7


class Firsts(tuple):
    def first(s):
        return s[0]


@whole
def named_tuples_with_methods(x):
    n = Totals(x)
    return (
        n.tot(),
        n.dbl,
        n.mk(x).b,
        n.K,
        n.__len__(),
        x.shape.__len__(),
        [1].__len__(),
        {1: 2}.__contains__(1),
        {1: 2}.__getitem__(1),
        n._asdict()["a"],
    )


@whole
def derived_tuples(x):
    t = Firsts((x, 1))
    return t.first(), len(t), t[1]


@whole
def identity_of_numbers(x):
    a, b = len(x) + 29, 0
    return x + (a is b) + (b is b), b is len([])


@whole
def exc_info_in_a_handler(x):
    try:
        raise ValueError("q")
    except ValueError:
        t, v, tb = sys.exc_info()
        return t.__name__, str(v), x + 1, sys.exception() is v


@whole
def exc_info_outside(x):
    return sys.exc_info(), sys.exception(), x + 1


@whole
def exit_stack_of_callbacks(x):
    import contextlib

    l = []
    with contextlib.ExitStack() as st:
        st.callback(l.append, 1)
        st.enter_context(contextlib.nullcontext())
        l.append(0)
    return l, x + 1


@whole
def iter_with_a_sentinel(x):
    l = [3, 2, 1, 0]
    return list(iter(l.pop, 0)), x + 1


def scr(x):
    return torch.tanh(x) * 2


def telling(x):
    print("scripted")
    return x * 2


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    scr, telling = torch.jit.script(scr), torch.jit.script(telling)


@whole
def a_scripted_function(x):
    return scr(x) + 1


@whole
def namespaces(x):
    n = types.SimpleNamespace(a=x, b=2)
    n.c = 3
    del n.b
    return n.a + n.c, hasattr(n, "b"), sorted(vars(n)), n.__dict__["c"], n


G = types.SimpleNamespace(k=2)


@whole
def a_namespace_of_the_module(x):
    G.k
    return x * G.k


@whole
def regular_expressions(x):
    m = re.match(r"(\d+)a", "12ab")
    return (
        int(m.group(1)) + x,
        m[0],
        bool(re.search("z", "q")),
        re.sub("a", "b", "aaa"),
        [q.start() for q in [m]],
        re.compile("a+").findall("aab"),
    )


PAT = re.compile("x(.)")


@whole
def a_compiled_pattern(x):
    return PAT.sub("y", "xa"), PAT.match("xb").groups(), x + 1


@whole
def the_version_of_torch(x):
    return x + (torch.__version__ >= "1.7"), torch.__version__.split(".")[0], torch.__version__.startswith("2")


@whole
def own_hash(x):
    return hash(Hashed(3)), x + 1


class Hashed:
    def __init__(s, a):
        s.a = a

    def __hash__(s):
        return hash((s.a, 1))

    def __eq__(s, o):
        return s.a == o.a


@whole
def a_method_made_by_hand(x):
    return types.MethodType(lambda s, k: s * k, x)(3)


class Slotless:
    __slots__ = ("a",)


@whole
def no_slot_for_it(x):
    s = Slotless()
    s.a = x
    try:
        s.b = 1
    except AttributeError as e:
        return s.a, str(e)


@whole
def no_attribute_of_object(x):
    o = object()
    try:
        o.b = 1
    except AttributeError as e:
        return x + 1, str(e)


@right
def equal_namespaces(x):
    return types.SimpleNamespace(a=1) == types.SimpleNamespace(a=1), types.SimpleNamespace(a=1) != 3, x + 1
