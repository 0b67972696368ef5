"""What the program changes outside itself: lists, dicts, attributes, cells, globals; once each, in order."""

from programs import T, program

COUNT = 0
NAMES = ["a"]
SETTINGS = {"scale": 2}


class Box:
    def __init__(self, v):
        self.v = v

    def set(self, v):
        self.v = v
        return self

    @property
    def double(self):
        return self.v * 2

    @double.setter
    def double(self, v):
        self.v = v / 2


class Slots:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = 1


@program(T(3))
def globals_are_written(x):
    global COUNT
    COUNT += 1
    NAMES.append(COUNT)
    SETTINGS["scale"] *= 3
    return x * COUNT * SETTINGS["scale"]


@program(T(3))
def a_new_global(x):
    global FRESH
    FRESH = x + 1
    return FRESH * 2


@program(T(3), Box(3))
def attributes_are_written(x, box):
    box.v = x * box.v
    box.new = [box.v]
    box.double = 10
    return box.v, box.double


@program(T(3), Box(1), graphs=0)
def attributes_are_deleted(x, box):
    box.w = 2
    del box.v
    return x, hasattr(box, "v"), box.w


@program(T(3))
def objects_made_inside(x):
    box = Box(x).set(x + 1)
    other = Box(box)
    box.link = other
    return box.v * 2, other.v is box, box.link.v.double


@program(T(3))
def an_object_that_escapes(x):
    box = Box(x + 1)
    box.tags = {"k": [1, 2]}
    return box


@program(T(3), make=lambda: (T(3), Slots()))
def slots(x, s):
    s.b = s.a + 1
    s.a = x * s.b
    return s.a, s.b, hasattr(s, "b")


@program(T(3), [Box(1), Box(2)])
def objects_in_a_list(x, boxes):
    for box in boxes:
        box.v = box.v + 1
        x = x * box.v
    boxes[0], boxes[1] = boxes[1], boxes[0]
    return x


def _shared():
    xs = [1]
    return T(3), xs, xs


@program(make=_shared)
def the_same_list_passed_twice(x, a, b):
    a.append(2)
    return x * len(b), a is b


@program(make=lambda: (T(3), [1], [1]))
def two_equal_lists(x, a, b):
    a.append(2)
    return x * len(b), a is b


def _same_tensor():
    x = T(3)
    return x, x


@program(make=_same_tensor)
def the_same_tensor_twice(x, y):
    x += 1
    return y * 2, x is y


def _overlapping():
    base = T(6)
    return base[:4], base[2:]


@program(make=_overlapping)
def overlapping_views(a, b):
    a.add_(1)
    b.mul_(2)
    return a + b[:4]


@program(make=_same_tensor)
def a_view_of_an_argument_is_returned(x, y):
    return x[1:], x.view(3, 1)


@program(T(3))
def identity_of_results(x):
    y = x + 1
    return y, y, [y]


@program(T(3))
def the_argument_itself_is_returned(x):
    x.add_(1)
    return x
