"""NumPy's arrays, and the scalars that its functions return: a node of the graph, and a stand-in without the data.

The graph runs NumPy's own functions, in the program's order, so that rounding, types and shared memory are NumPy's.
What a function returns is known from a run on stand-ins: arrays of ones of the same dtype, shape and strides. How they
are made and which functions are run is in graph/arrays.py; evaluate/arrays.py puts them into the graph.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.source import Source
from dynajit.values.base import Emitter, Tracer, Value
from dynajit.values.constant import Constant
from dynajit.values.iterator import Iterator
from dynajit.values.wrap import kind

# Attributes that the dtype, the shape and the strides tell.
FACTS = frozenset({"shape", "ndim", "size", "itemsize", "nbytes", "dtype", "strides"})
COMPUTED = frozenset({"T", "mT", "real", "imag"})
# Methods whose results are of a type and a size that dtypes and shapes tell.
METHODS = frozenset(
    """
sum prod mean std var min max argmin argmax any all cumsum cumprod round clip dot trace transpose reshape ravel flatten
squeeze swapaxes repeat astype copy view conj conjugate diagonal take searchsorted argsort argpartition fill sort
partition
""".split()
)
# Methods of which an argument may be an array, too; elsewhere it may decide about a size.
TAKES_ARRAYS = frozenset({"clip", "dot", "take", "searchsorted", "fill"})
WRITES = frozenset({"fill", "sort", "partition"})
# Methods that are operators.
_OPERATORS: dict[str, Any] = {
    f"__{name.strip('_')}__": getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift",
                 "rshift", "lt", "le", "eq", "ne", "gt", "ge", "neg", "pos", "invert", "abs", "getitem")
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class ArrayValue(Value):
    """stand_in: an array, or a scalar of NumPy, that agrees with the real one in all but the data."""

    node: Any
    stand_in: Any

    kind = "numpy array"

    @property
    def is_scalar(self) -> bool:
        return isinstance(self.stand_in, np.generic)

    def python_type(self) -> type:
        return type(self.stand_in)

    def describe(self) -> str:
        name = self.source.text if self.source is not None else self.node.name
        return f"{'numpy scalar' if self.is_scalar else 'numpy array'} {name}"

    def identity(self) -> Any:
        return None if self.is_scalar else ("node", self.node)

    def needs_data(self, what: str) -> Any:
        raise GraphBreak(reasons.TENSOR_DATA, f"{what} of {self.describe()}")

    def getattr(self, m: Tracer, name: str) -> Value:
        if name in FACTS:
            return m.constant(getattr(self.stand_in, name))
        if name in COMPUTED:
            return m.array("call_function", getattr, (self, Constant(name)), {})
        if name in METHODS or name in _OPERATORS or name in ("item", "__len__", "__iter__", "__setitem__"):
            if not hasattr(self.stand_in, name):
                m.throw(AttributeError, f"'{self._type_name()}' object has no attribute '{name}'")
            return ArrayMethod(self, name)
        if not hasattr(self.stand_in, name):
            m.throw(AttributeError, f"'{self._type_name()}' object has no attribute '{name}'")
        return self.needs_data(f"attribute {name!r}")  # type: ignore[no-any-return]

    def _type_name(self) -> str:
        cls = type(self.stand_in)
        return f"{cls.__module__}.{cls.__name__}"

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        m.throw(TypeError, f"'{self._type_name()}' object is not callable")

    def getitem(self, m: Tracer, key: Value) -> Value:
        return m.array("call_function", operator.getitem, (self, key), {})

    def setitem(self, m: Tracer, key: Value, value: Value) -> None:
        m.array("call_function", operator.setitem, (self, key, value), {})

    def length(self, m: Tracer) -> int:
        if self.is_scalar:
            m.throw(TypeError, f"object of type '{self._type_name()}' has no len()")
        if self.stand_in.ndim == 0:
            m.throw(TypeError, "len() of unsized object")
        return len(self.stand_in)

    def truth(self, m: Tracer) -> bool:
        raise GraphBreak(reasons.BRANCH_ON_TENSOR, self.describe())

    def contains(self, m: Tracer, item: Value) -> bool:
        return self.needs_data("`in`")  # type: ignore[no-any-return]

    def iterate(self, m: Tracer) -> Value:
        if self.is_scalar:
            m.throw(TypeError, f"'{self._type_name()}' object is not iterable")
        if self.stand_in.ndim == 0:
            m.throw(TypeError, "iteration over a 0-d array")
        key = m.new_key()
        m.heap.new(key, 0, existing=False)
        return ArrayIterator(key, self)

    def reload(self, emit: Emitter) -> None:
        emit.load_node(self.node)


@dataclass(frozen=True, eq=False)
class ArrayIterator(Iterator):
    """Contents: the next index. Each item is read when its turn comes."""

    owner: ArrayValue

    def python_type(self) -> type:
        return type(iter(np.empty(0)))

    def next(self, m: Tracer) -> Value | None:
        place: int = m.heap[self.key]
        if place >= self.owner.length(m):
            return None
        m.heap.put(self.key, place + 1)
        return self.owner.getitem(m, Constant(place))

    def reload(self, emit: Emitter) -> None:
        emit.call(_iterator_at, self.owner, Constant(emit.heap[self.key]))


def _iterator_at(array: Any, place: int) -> Any:
    made: Any = iter(array)
    made.__setstate__(place)
    return made


@dataclass(frozen=True, eq=False)
class ArrayMethod(Value):
    """A method of an array, bound."""

    owner: ArrayValue
    name: str

    kind = "array method"

    def python_type(self) -> type:
        return types.BuiltinMethodType

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        owner, name = self.owner, self.name
        if name in _OPERATORS and not kwargs:
            return m.array("call_method", name, (owner, *args), {})
        if name == "__setitem__" and len(args) == 2 and not kwargs:
            owner.setitem(m, *args)
            return Constant(None)
        if name == "__len__" and not args and not kwargs:
            return Constant(owner.length(m))
        if name == "__iter__" and not args and not kwargs:
            return owner.iterate(m)
        if name not in METHODS and not (name == "item" and not args and not kwargs and owner.stand_in.size == 1):
            owner.needs_data(f"{name}()")
        return m.array("call_method", name, (owner, *args), kwargs)

    def reload(self, emit: Emitter) -> None:
        emit.load(self.owner)
        emit.instruction("LOAD_ATTR", self.name)


@kind(np.ndarray)
def wrap_array(m: Tracer, obj: Any, source: Source) -> Value:
    return m.array_input(obj, source)
