"""Operators on values: who answers, and in which order."""

from __future__ import annotations

import operator
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from dynajit import reasons
from dynajit.errors import GraphBreak, Raised
from dynajit.evaluate import sizes
from dynajit.evaluate.arrays import is_operand
from dynajit.evaluate.overrides import handles
from dynajit.symbol import TEXTS, unbacked_in
from dynajit.values.array import ArrayValue
from dynajit.values.base import Handle, Value
from dynajit.values.builtin import BuiltinValue
from dynajit.values.comparing import Comparison
from dynajit.values.constant import Constant, SymbolicNumber, fold, is_known, plain
from dynajit.values.container_instance import ContainerInstance
from dynajit.values.instance import InstanceDict, InstanceValue, raw_attr
from dynajit.values.mapping import DictValue, DictView, hashable, new_dict, pairs
from dynajit.values.sequence import ListValue, TupleValue, new_list, same_or_equal
from dynajit.values.sets import SetValue, difference, intersection, union
from dynajit.values.tensor import TensorValue
from dynajit.values.unknown import UnknownValue, demand_known
from dynajit.values.value_instance import ValueInstance, arithmetic

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine

BINARY: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "+": (operator.add, "add"), "-": (operator.sub, "sub"), "*": (operator.mul, "mul"),
    "/": (operator.truediv, "truediv"), "//": (operator.floordiv, "floordiv"), "%": (operator.mod, "mod"),
    "**": (operator.pow, "pow"), "@": (operator.matmul, "matmul"), "&": (operator.and_, "and"),
    "|": (operator.or_, "or"), "^": (operator.xor, "xor"), "<<": (operator.lshift, "lshift"),
    ">>": (operator.rshift, "rshift"),
}  # fmt: skip
INPLACE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.iadd, "-": operator.isub, "*": operator.imul, "/": operator.itruediv, "//": operator.ifloordiv,
    "%": operator.imod, "**": operator.ipow, "@": operator.imatmul, "&": operator.iand, "|": operator.ior,
    "^": operator.ixor, "<<": operator.ilshift, ">>": operator.irshift,
}  # fmt: skip
COMPARE: dict[str, tuple[Callable[[Any, Any], Any], str, str]] = {
    "<": (operator.lt, "lt", "gt"), "<=": (operator.le, "le", "ge"), "==": (operator.eq, "eq", "eq"),
    "!=": (operator.ne, "ne", "ne"), ">": (operator.gt, "gt", "lt"), ">=": (operator.ge, "ge", "le"),
}  # fmt: skip
UNARY: dict[str, tuple[Callable[[Any], Any], str]] = {
    "UNARY_NEGATIVE": (operator.neg, "__neg__"),
    "UNARY_POSITIVE": (operator.pos, "__pos__"),
    "UNARY_INVERT": (operator.invert, "__invert__"),
}


def truth(m: Machine, value: Value) -> bool:
    if isinstance(value, SymbolicNumber):
        return truth(m, compare(m, "!=", value, Constant(0)))
    return value.truth(m)


def _symbolic(m: Machine, function: Any, left: Value, right: Value) -> Value | None:
    """Arithmetic of numbers that are inputs of the graph."""
    if not any(isinstance(value, SymbolicNumber) for value in (left, right)):
        return None
    if any(isinstance(value, TensorValue) for value in (left, right)):
        return m.record("call_function", function, (left, right), {})
    if function in TEXTS and sizes.number(left) is not None and sizes.number(right) is not None:
        return m.compute(function, left, right)
    return None


def binary(m: Machine, symbol: str, left: Value, right: Value) -> Value:
    """`left symbol right`; a symbol that ends in = is the in-place form."""
    demand_known(left, right)
    inplace = symbol.endswith("=")
    symbol = symbol.rstrip("=")
    plain_function, name = BINARY[symbol]
    if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
        return _with_array(m, INPLACE[symbol] if inplace else plain_function, left, right)
    if isinstance(right, InstanceValue) and isinstance(left, TensorValue) and handles(m, right):
        return m.record("call_function", INPLACE[symbol] if inplace else plain_function, (left, right), {})
    if isinstance(left, InstanceValue) and isinstance(right, TensorValue) and handles(m, left):
        own = [left.method(m, f"__{kind}{name}__") for kind in ("", "i")]
        if own == [None, None]:
            return m.record("call_function", plain_function, (left, right), {})
    if inplace and isinstance(left, TensorValue):
        return m.record("call_function", INPLACE[symbol], (left, right), {})
    if isinstance(right, ValueInstance) or isinstance(left, ValueInstance):
        values = _values(m, left, right, (f"__{name}__", f"__i{name}__", f"__r{name}__"))
        if values != (left, right):
            again = symbol + "=" if inplace else symbol
            return _in_their_words(left, right, lambda: binary(m, again, *values))
    found = _symbolic(m, plain_function, left, right)
    if found is not None:
        return found
    left, right = m.specialise(left), m.specialise(right)
    if isinstance(left, TensorValue) or isinstance(right, TensorValue):
        other = right if isinstance(left, TensorValue) else left
        if not isinstance(other, (InstanceValue, ListValue, TupleValue, DictValue)):
            return m.record("call_function", plain_function, (left, right), {})
    if isinstance(left, Constant) and isinstance(right, Constant):
        return fold(m, plain_function, [left, right])
    items, others = _items(m, left, name), _items(m, right, name)
    if inplace:
        changed = _inplace_container(m, symbol, items, others)
        if changed is not None:
            return left if changed is items else changed
    left, right = items, others
    if isinstance(left, InstanceValue) or isinstance(right, InstanceValue):
        return _special_methods(m, symbol, name, left, right, inplace)
    sizes = any(isinstance(value, TupleValue) and value.cls is not tuple for value in (left, right))
    if sizes and is_known(m, left) and is_known(m, right):
        return fold(m, plain_function, [left, right])  # torch.Size says itself what its sums and multiples are
    result = _containers(m, symbol, left, right)
    if result is not None:
        return result
    if is_known(m, left) and is_known(m, right):
        return fold(m, plain_function, [left, right])
    raise GraphBreak(reasons.NO_OPERATION, f"{left.describe()} {symbol} {right.describe()}")


def _with_array(m: Machine, function: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    """An operator of which one side is NumPy's: it decides what the other one may be."""
    if is_operand(m, left) and is_operand(m, right):
        return m.array("call_function", function, (left, right), {})
    raise GraphBreak(reasons.OPAQUE_CALL, f"{function.__name__} of {left.describe()} and {right.describe()}")


def _values(m: Machine, left: Value, right: Value, names: tuple[str, ...]) -> tuple[Value, Value]:
    """What derived numbers, texts and tuples are, where no side has a method of its own for this operator."""
    instances = [value for value in (left, right) if isinstance(value, InstanceValue)]
    own = any(value.method(m, name) is not None for value in instances for name in names)
    return (left, right) if own and not isinstance(left, TensorValue) else (left.bare(), right.bare())


def _in_their_words(left: Value, right: Value, act: Callable[[], Value]) -> Value:
    """An error of what they are would name the builtin classes: Python says it."""
    try:
        return act()
    except Raised as error:
        if not issubclass(error.value.python_type(), TypeError):
            raise
        raise GraphBreak(reasons.NO_OPERATION, f"{left.describe()} and {right.describe()}") from None


def _items(m: Machine, value: Value, name: str) -> Value:
    """The items of a derived list or dict that has no method of its own for this operator."""
    if isinstance(value, ValueInstance) or not isinstance(value, ContainerInstance):
        return value
    if isinstance(value.storage, SetValue):
        return value  # what sets make is of the derived class
    own = any(value.method(m, f"__{kind}{name}__") is not None for kind in ("", "i", "r"))
    return value if own else value.storage


def _inplace_container(m: Machine, symbol: str, left: Value, right: Value) -> Value | None:
    if symbol == "+" and isinstance(left, ListValue):
        m.heap.put(left.key, left.items_now(m) + m.unpack(right))
        return left
    if symbol == "*" and isinstance(left, ListValue):
        m.heap.put(left.key, left.items_now(m) * int(plain(m, right)))
        return left
    if symbol == "|" and isinstance(left, DictValue):
        for key, value in pairs(m, right):
            left.setitem(m, key, value)
        return left
    if symbol in ("|", "&", "-") and isinstance(left, SetValue):
        result = _containers(m, symbol, left, right)
        assert isinstance(result, SetValue)
        m.heap.put(left.key, result.elements(m))
        return left
    return None


def _containers(m: Machine, symbol: str, left: Value, right: Value) -> Value | None:
    if symbol == "+" and isinstance(left, ListValue) and isinstance(right, ListValue):
        return new_list(m, left.items_now(m) + right.items_now(m))
    if symbol == "+" and isinstance(left, TupleValue) and isinstance(right, TupleValue):
        return TupleValue(left.items + right.items)
    if symbol == "*":
        sequence, count = (left, right) if isinstance(left, (ListValue, TupleValue)) else (right, left)
        if isinstance(sequence, (ListValue, TupleValue)) and isinstance(count, Constant):
            times = int(plain(m, count))
            if isinstance(sequence, ListValue):
                return new_list(m, sequence.items_now(m) * times)
            return TupleValue(sequence.items * times)
    if symbol == "|" and isinstance(left, DictValue) and isinstance(right, DictValue):
        cls = left.cls if left.cls in (OrderedDict, defaultdict) else dict
        return new_dict(m, [*left.items_now(m).values(), *right.items_now(m).values()], cls)
    if isinstance(left, SetValue) and isinstance(right, (SetValue, DictView)):
        sets: dict[str, Callable[..., Value]] = {"|": union, "&": intersection, "-": difference}
        if symbol in sets:
            return sets[symbol](m, left, right)
        if symbol == "^" and isinstance(right, SetValue):
            return union(m, difference(m, left, right), difference(m, right, left))
    return None


def _special_methods(m: Machine, symbol: str, name: str, left: Value, right: Value, inplace: bool) -> Value:
    """`__iadd__`, `__add__`, `__radd__` in Python's order (Objects/abstract.c, binary_op1)."""
    attempts = [(left, f"__i{name}__", right)] if inplace else []
    forward, backward = (left, f"__{name}__", right), (right, f"__r{name}__", left)
    derived = left.python_type() is not right.python_type() and issubclass(right.python_type(), left.python_type())
    attempts += [backward, forward] if derived else [forward, backward]
    for owner, method, other in attempts:
        if owner is left and isinstance(owner, TensorValue):
            break  # Tensor.__add__ answers or raises before __radd__ is asked
        found = owner.method(m, method) if isinstance(owner, InstanceValue) else None
        if found is not None:
            result = m.realize(m.call(found, [owner, other], {}))
        elif isinstance(owner, ValueInstance) or isinstance(other, ValueInstance):
            result = arithmetic(m, owner.bare(), method, other.bare())
        else:
            continue
        if not (isinstance(result, Constant) and result.value is NotImplemented):
            return result
    if isinstance(left, ValueInstance) or isinstance(right, ValueInstance):
        return _joined(m, symbol, left, right)
    raise GraphBreak(reasons.NO_OPERATION, f"{left.describe()} {symbol} {right.describe()}")


def _joined(m: Machine, symbol: str, left: Value, right: Value) -> Value:
    """`+` and `*` of sequences, which are asked after all methods (Objects/abstract.c, PyNumber_Add)."""
    if any(isinstance(value, InstanceValue) and not isinstance(value, ValueInstance) for value in (left, right)):
        raise GraphBreak(reasons.NO_OPERATION, f"{left.describe()} {symbol} {right.describe()}")
    return m.binary(symbol, left.bare(), right.bare())


def _relation(m: Machine, symbol: str, left: Value, right: Value) -> Value | None:
    """A comparison of symbolic numbers: which way it went is guarded, not the numbers."""
    if not any(isinstance(value, SymbolicNumber) for value in (left, right)):
        return None
    mine, other = sizes.number(left), sizes.number(right)
    if mine is None or other is None:
        return None
    node = unbacked_in((mine, other))
    if node is not None:  # only the data decides; `torch._check` takes it as it is
        return sizes.unknown_comparison(m, COMPARE[symbol][0], left, right)
    return Constant(sizes.decide(m, symbol, mine, other))


def compare(m: Machine, symbol: str, left: Value, right: Value) -> Value:
    demand_known(left, right)
    function, name, mirrored = COMPARE[symbol]
    if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
        return _with_array(m, function, left, right)
    if isinstance(right, ValueInstance) or isinstance(left, ValueInstance):
        values = _values(m, left, right, (f"__{name}__", f"__{mirrored}__"))
        if values != (left, right):
            return _in_their_words(left, right, lambda: compare(m, symbol, *values))
    found = _relation(m, symbol, left, right)
    if found is not None:
        return found
    left, right = (v if isinstance(o, TensorValue) else m.specialise(v) for v, o in ((left, right), (right, left)))
    tensors = isinstance(left, TensorValue) or isinstance(right, TensorValue)
    if tensors and not isinstance(left, InstanceValue) and not isinstance(right, InstanceValue):
        strange = any(isinstance(v, Constant) and (v.value is None or isinstance(v.value, str)) for v in (left, right))
        if strange and symbol in ("==", "!="):
            return Constant(symbol == "!=")
        return m.record("call_function", function, (left, right), {})
    if is_known(m, left) and is_known(m, right):
        return fold(m, function, [left, right])
    left, right = _compared(m, left, name), _compared(m, right, mirrored)
    if isinstance(left, InstanceValue) or isinstance(right, InstanceValue):
        return _compare_instances(m, symbol, (name, mirrored), left, right)
    same_kind = isinstance(left, (ListValue, TupleValue)) and type(left) is type(right)
    if same_kind and symbol in ("==", "!="):
        assert isinstance(left, (ListValue, TupleValue))
        assert isinstance(right, (ListValue, TupleValue))
        mine, other = m.unpack(left), m.unpack(right)
        equal = len(mine) == len(other) and all(same_or_equal(m, a, b) for a, b in zip(mine, other, strict=True))
        return Constant(equal == (symbol == "=="))
    if same_kind:
        return _compare_in_turn(m, symbol, m.unpack(left), m.unpack(right))
    if isinstance(left, Comparison) and isinstance(right, Comparison):
        return left.compare(m, symbol, right)
    if isinstance(left, DictValue) and isinstance(right, DictValue) and symbol in ("==", "!="):
        return Constant(_equal_dicts(m, left, right) == (symbol == "=="))
    if isinstance(left, SetValue) and isinstance(right, SetValue):
        return Constant(bool(function(left.elements(m).keys(), right.elements(m).keys())))
    if symbol in ("==", "!="):
        mine_id, other_id = left.identity(), right.identity()
        by_identity = left.kind in _BY_IDENTITY or right.kind in _BY_IDENTITY
        if by_identity and mine_id is not None and other_id is not None:
            return Constant((mine_id == other_id) == (symbol == "=="))
        if by_identity and (isinstance(left, Constant) or isinstance(right, Constant)):
            return Constant(symbol == "!=")
        if left.kind in _PLAIN_KINDS and right.kind in _PLAIN_KINDS and left.python_type() is not right.python_type():
            return Constant(symbol == "!=")
    raise GraphBreak(reasons.NO_OPERATION, f"{left.describe()} {symbol} {right.describe()}")


def _compare_in_turn(m: Machine, symbol: str, left: tuple[Value, ...], right: tuple[Value, ...]) -> Value:
    """The order of sequences is that of the first items that differ, or of the lengths."""
    for mine, other in zip(left, right, strict=False):
        if not same_or_equal(m, mine, other):
            return m.compare(symbol, m.realize(mine), m.realize(other))
    return Constant(COMPARE[symbol][0](len(left), len(right)))


def _compared(m: Machine, value: Value, name: str) -> Value:
    derived = isinstance(value, ContainerInstance) and not isinstance(value, ValueInstance)
    return value.operand(m, f"__{name}__") if derived else value  # type: ignore[attr-defined]


_BY_IDENTITY = frozenset({"class", "function", "builtin", "module"})
_PLAIN_KINDS = frozenset({"constant", "list", "tuple", "dict", "set"})


def _equal_dicts(m: Machine, left: DictValue, right: DictValue) -> bool:
    mine, other = left.items_now(m), right.items_now(m)
    if mine.keys() != other.keys():
        return False
    return all(same_or_equal(m, value, other[key][1]) for key, (_, value) in mine.items())


def _compare_instances(m: Machine, symbol: str, names: tuple[str, str], left: Value, right: Value) -> Value:
    attempts = [(left, names[0], right), (right, names[1], left)]
    derived = isinstance(right, InstanceValue) and left.python_type() is not right.cls
    if derived and issubclass(right.python_type(), left.python_type()):
        attempts.reverse()  # as do_richcompare of Objects/object.c
    for owner, name, other in attempts:
        found = owner.method(m, f"__{name}__") if isinstance(owner, InstanceValue) else None
        if found is None and any(isinstance(value, ContainerInstance) for value in (owner, other)):
            mine, against = _storage(owner), _storage(other)
            if _compare_directly(mine, against):
                return m.compare(symbol if owner is left else _MIRRORED[symbol], mine, against)
            continue
        if not isinstance(owner, InstanceValue):
            continue
        if found is None and symbol == "!=" and (equal := owner.method(m, "__eq__")) is not None:
            result = m.realize(m.call(equal, [owner, other], {}))
            if not (isinstance(result, Constant) and result.value is NotImplemented):
                return Constant(not m.is_true(result))
            continue
        if found is None:
            continue
        result = m.realize(m.call(found, [owner, other], {}))
        if not (isinstance(result, Constant) and result.value is NotImplemented):
            return result
    if symbol in ("==", "!="):
        return Constant(_equal_instances(m, left, right) == (symbol == "=="))
    raise GraphBreak(reasons.NO_OPERATION, f"{left.describe()} {symbol} {right.describe()}")


_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}


def _storage(value: Value) -> Value:
    return value.storage if isinstance(value, ContainerInstance) else value


def _compare_directly(left: Value, right: Value) -> bool:
    """Whether the builtin class of one takes the other."""
    if isinstance(left, InstanceValue) or isinstance(right, InstanceValue):
        return False
    classes = left.python_type(), right.python_type()
    if issubclass(classes[0], int) and classes[1] is float:
        return False  # float answers
    return classes[0] is classes[1] or all(issubclass(cls, (int, float)) for cls in classes)


def _equal_instances(m: Machine, left: Value, right: Value) -> bool:
    """`==` of what has no method of its own in Python: by identity, or by the attributes of a namespace."""
    instances = [value for value in (left, right) if isinstance(value, InstanceValue)]
    if all(issubclass(value.cls, SimpleNamespace) for value in instances) and len(instances) == 2:
        mine, other = (InstanceDict(value).copied(m) for value in instances)
        return m.is_true(m.compare("==", mine, other))
    for value in instances:
        if not isinstance(raw_attr(value.cls, "__eq__"), FunctionType) and raw_attr(value.cls, "__eq__") is not _EQ:
            value.missing("==")
    return is_same(m, left, right)


_EQ = object.__eq__


def is_same(m: Machine, left: Value, right: Value) -> bool:
    """`left is right`. When two existing objects are not one, that becomes a guard."""
    if left is right:
        return True
    for value, against in ((left, right), (right, left)):
        if isinstance(value, UnknownValue) and (value.cls is None or value.cls is against.python_type()):
            value.missing("identity")
    mine, other = left.identity(), right.identity()
    if isinstance(left, BuiltinValue) and isinstance(right, BuiltinValue):
        return left.fn is right.fn
    if mine is not None and other is not None:
        if mine != other and left.source is not None and right.source is not None and "is" not in (mine[0], other[0]):
            m.guard(left.source, "NOT_SAME", right.source)
        return bool(mine == other)
    for value, against in ((left, right), (right, left)):
        singleton = against.identity() is not None and against.identity()[0] == "is" and value.identity() is None
        if singleton and (isinstance(value, (Constant, SymbolicNumber, TupleValue)) or value.source is None):
            return False
    values = (Constant, TupleValue)
    if isinstance(left, values) != isinstance(right, values):
        made = right if isinstance(left, values) else left
        if isinstance(made, Handle) and made.source is None:
            return False
    known = _same_number(left, right)
    if known is None:
        raise GraphBreak(reasons.NO_OPERATION, f"{left.describe()} is {right.describe()}")
    return known


def _same_number(left: Value, right: Value) -> bool | None:
    """Different numbers or strings are different objects; of equal ones only small ints are surely one object."""
    if not isinstance(left, Constant) or not isinstance(right, Constant):
        return None
    mine, other = left.value, right.value
    if type(mine) is not type(other):
        return False
    if type(mine) not in (int, float, complex, str, bytes):
        return None
    if mine != other and mine == mine and other == other:
        return False
    return True if type(mine) is int and -5 <= mine <= 256 else None


def contains(m: Machine, item: Value, container: Value) -> bool:
    container = m.realize(container)
    demand_known(container)
    if isinstance(container, DictView) and container.what == "keys":
        return hashable(m, item) in container.owner.items_now(m)
    if isinstance(container, Constant):
        item = m.specialise(m.realize(item))
    return container.contains(m, item)


def unary(m: Machine, op: str, value: Value) -> Value:
    function, special = UNARY[op]
    demand_known(value)
    if isinstance(value, ValueInstance) and value.method(m, special) is None:
        stored = value.storage
        return _in_their_words(value, value, lambda: unary(m, op, stored))
    if isinstance(value, SymbolicNumber) and function in TEXTS:
        return m.compute(function, value)
    value = m.specialise(value)
    if isinstance(value, TensorValue):
        return m.record("call_function", function, (value,), {})
    if isinstance(value, ArrayValue):
        return m.array("call_function", function, (value,), {})
    if isinstance(value, Constant):
        return fold(m, function, [value])
    if isinstance(value, InstanceValue) and (method := value.method(m, special)) is not None:
        return m.call(method, [value], {})
    raise GraphBreak(reasons.NO_OPERATION, f"{op} of {value.describe()}")
