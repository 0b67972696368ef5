"""Lists, tuples, dicts, sets, strings: building, changing, and what the caller sees afterwards."""

from collections import OrderedDict, defaultdict, namedtuple

from programs import T, program

Point = namedtuple("Point", "x y")


@program(T(3), T(3))
def append_then_sum(x, y):
    xs = [x]
    xs.append(y)
    return sum(xs)


@program([T(3)], T(3))
def the_caller_sees_the_append(xs, y):
    xs.append(y + 1)
    return xs[0] * 2


@program([T(3), T(3, seed=1), T(3, seed=2)])
def list_methods(xs):
    last = xs.pop()
    xs.insert(0, last)
    xs.reverse()
    xs.extend([last * 2, 5])
    xs[1] = "text"
    del xs[0]
    return xs[0], xs[-1] * 2 + last, len(xs), xs.index("text"), xs[1:], xs + [1], [0] * 3


@program({"a": T(3), "b": 2})
def dict_changes_are_seen(d):
    d["c"] = d["a"] * d["b"]
    d["a"] = 1
    del d["b"]
    d.setdefault("e", 5)
    d.update(f=6, c=d["c"] + 1)
    return d.get("zz", 3), d["c"], d.pop("f"), list(d.keys()), "e" in d


@program({"a": 1, "b": 2}, T(2))
def dict_iteration(d, x):
    for k, v in d.items():
        x = x * v + len(k)
    return {k: v * x for k, v in d.items()}, dict(d, c=3), {**d, "z": x}


@program(T(3))
def sets_and_strings(x):
    s = {1, 2}
    s.add(3)
    name = f"n{len(s)}-{x.shape[0]:03d}"
    parts = name.upper().split("-")
    return x * (2 in s) + len(parts), name, "%d" % 5, "x".join(["a", "b"]), name[::-1], s | {7}


@program(T(3))
def tuples_and_unpacking(x):
    a, (b, *c), d = x, (1, 2, 3), "d"
    t = (a, b) + (d,)
    first, *rest = t
    return first + b, rest, c, t[::-1], len(t), (1, 2) == (1, 2), b in (2, 1)


@program(T(3), T(3))
def named_tuples(x, y):
    p = Point(x, y=y)
    q = p._replace(x=p.y * 2)
    return p.x + q.x, q, p[1]


@program(Point(T(3), 3))
def a_named_tuple_argument(p):
    return p.x * p.y


@program(T(2))
def special_dicts(x):
    d = defaultdict(list)
    d["a"].append(x)
    d["b"].append(x + 1)
    o = OrderedDict([("x", 1), ("y", 2)])
    o.move_to_end("x")
    return d, o, sum(d["b"])


@program(OrderedDict(a=1, b=2), T(2))
def move_to_end_is_repeated(o, x):
    o.move_to_end("a")
    return x + o["a"]


@program(T(3))
def the_same_object_twice(x):
    inner = [x + 1]
    outer = [inner, inner]
    inner.append(2)
    return outer, outer[0] is outer[1]


@program([1, 2], T(2))
def a_list_inside_a_dict(xs, x):
    d = {"xs": xs}
    d["xs"].append(3)
    xs[0] = 9
    return d, x * sum(xs)


@program(T(3))
def comprehensions(x):
    xs = [x * i for i in range(4) if i % 2]
    d = {i: x + i for i in range(2)}
    s = {i * i for i in (1, 2)}
    nested = [[i * j for j in range(2)] for i in range(2)]
    total = sum(y.sum() for y in xs)
    return xs, d, s, nested, total, any(i > 2 for i in range(4)), all(i > 2 for i in range(4))


@program([3, 1, 2], T(2))
def sorting(xs, x):
    xs.sort(reverse=True)
    return sorted(xs), x * xs[0], max(xs, key=lambda v: -v), sorted(["b", "a"], key=str.lower)


@program(T(3))
def a_missing_key(x):
    d = {"a": x}
    try:
        return d["b"]
    except KeyError as error:
        return x + 1, str(error)
