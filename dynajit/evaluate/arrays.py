"""Putting NumPy's functions into the graph, and turning what they return for stand-ins into values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate import overrides, recording
from dynajit.graph import arrays
from dynajit.graph import meta as metas
from dynajit.source import Attr, Known, Source
from dynajit.symbol import UNBACKED_EXAMPLES, unbacked
from dynajit.values.array import TAKES_ARRAYS, WRITES, ArrayValue
from dynajit.values.base import Value
from dynajit.values.builtin import OpaqueValue
from dynajit.values.constant import Constant, SliceValue, SymbolicNumber, as_plain
from dynajit.values.klass import ClassValue
from dynajit.values.sequence import ListValue, TupleValue, new_list
from dynajit.values.tensor import TensorValue
from dynajit.values.unknown import UnknownValue, demand_known

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine

_SIMPLE = (int, float, bool, str, type(None), type(Ellipsis), torch.dtype)  # as they print in a graph
_NOT_IN_PLACE = {
    getattr(operator, f"i{name}"): getattr(operator, f"{name}_" if name in ("and", "or") else name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift",
                 "rshift")
}  # fmt: skip


def array_input(m: Machine, obj: Any, source: Source) -> Value:
    """An existing array: a placeholder, guarded by all that decides about types and layouts.

    One whose shape differs from call to call stays with Python, as does one that is not of numbers.
    """
    m.guard(source, "TYPE_IS", np.ndarray)
    changes = source in m.plan.sizes
    made = None
    flags = obj.flags.num
    if arrays.BY_TYPE and not changes and arrays.is_plain_dtype(obj.dtype) and arrays.are_plain(flags):
        made = arrays.stand_in(obj.shape, obj.strides, obj.dtype, writeable=bool(flags & arrays.WRITEABLE))
    if made is None:
        return OpaqueValue(obj, source=source)
    m.guard(Attr(source, "dtype"), "IS", obj.dtype)
    m.guard(Attr(source, "shape"), "EQUALS", obj.shape)
    m.guard(Attr(source, "strides"), "EQUALS", obj.strides)
    m.guard(Attr(Attr(source, "flags"), "num"), "EQUALS", flags)
    _count(m, made)
    _existed(m, made)
    return ArrayValue(m.object_input(obj, source), made, source=source)


def _count(m: Machine, stand_in: Any) -> None:
    m.array_elements += stand_in.size
    if stand_in.size > arrays.SIZE_LIMIT or m.array_elements > arrays.TOTAL_LIMIT:
        raise GraphBreak(reasons.LARGE_ARRAY, f"{stand_in.size} elements")


def _existed(m: Machine, stand_in: Any) -> None:
    """Its memory is not only the graph's: a write to it shows outside."""
    owner = arrays.memory(stand_in)
    m.array_memory[id(owner)] = owner


class _Arguments:
    """Turns values into arguments of a node and of the run on stand-ins.

    data: whether there may be arrays and tensors. numbers: whether a number that changes may stay one.
    """

    def __init__(self, m: Machine, *, numbers: bool = False) -> None:
        self.m, self.numbers = m, numbers
        self.symbolic = False
        self.arrays: list[ArrayValue] = []
        self.tensors: list[TensorValue] = []
        self.mixed: dict[int, TensorValue] = {}

    @property
    def known(self) -> bool:
        return not (self.arrays or self.tensors or self.symbolic)

    def convert(self, value: Value, data: bool = True) -> tuple[Any, Any]:
        """(argument of the node, argument of the run)."""
        value = self.m.realize(value)
        if isinstance(value, SymbolicNumber) and not (self.numbers and data):
            value = self.m.specialise(value)
        if isinstance(value, SymbolicNumber):
            self.symbolic = True
            return value.node, value.example
        if isinstance(value, (ArrayValue, TensorValue)):
            if not data:
                raise GraphBreak(reasons.TENSOR_DATA, f"{value.describe()} as an argument that decides about a size")
            return self._array(value) if isinstance(value, ArrayValue) else self._tensor(value)
        if isinstance(value, Constant):
            return self._literal(value.value)
        if isinstance(value, ClassValue):
            return self._literal(value.cls)
        if isinstance(value, TupleValue) and value.cls in (tuple, torch.Size):
            return self._each(value.items, data, tuple)
        if isinstance(value, ListValue) and value.cls is list:
            return self._each(value.items_now(self.m), data, list)
        if isinstance(value, SliceValue):
            return self._each(value.parts, False, lambda parts: slice(*parts))
        demand_known(value)
        raise GraphBreak(reasons.OPAQUE_CALL, f"an operation of NumPy on {value.describe()}")

    def _array(self, value: ArrayValue) -> tuple[Any, Any]:
        self.arrays.append(value)
        return value.node, value.stand_in

    def _tensor(self, value: TensorValue) -> tuple[Any, Any]:
        why = unfit(value)
        made = None if why else arrays.tensor_stand_in(value.meta)
        if made is None:
            raise GraphBreak(reasons.OPAQUE_CALL, f"an operation of NumPy on {value.describe()} {why}")
        self.tensors.append(value)
        self.mixed[id(made)] = value
        return value.node, made

    def _literal(self, obj: Any) -> tuple[Any, Any]:
        if type(obj) in _SIMPLE or (isinstance(obj, slice) and all(_is_simple(part) for part in
                                                                    (obj.start, obj.stop, obj.step))):  # fmt: skip
            return obj, obj
        if isinstance(obj, (tuple, list)):
            parts = [self._literal(item) for item in obj]
            return type(obj)(part[0] for part in parts), type(obj)(part[1] for part in parts)
        node = self.m.recorder.call("call_function", arrays.literal(obj), (), {}, self.m.origin())
        node.meta["array"], node.meta["writes"] = True, False
        return node, obj

    def _each(self, items: Sequence[Value], data: bool, made: Callable[[Any], Any]) -> tuple[Any, Any]:
        pairs = [self.convert(item, data) for item in items]
        return made([pair[0] for pair in pairs]), made([pair[1] for pair in pairs])


def _is_simple(obj: Any) -> bool:
    return obj is None or type(obj) is int


def unfit(value: TensorValue) -> str:
    """Why NumPy cannot be given a tensor; empty if it can."""
    if value.other is not None:
        return "of symbolic sizes"
    if value.device.type != "cpu":
        return f"on {value.device}"
    if value.cls not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return f"of class {value.cls.__name__}"
    return "" if value.exact_layout else "whose strides depend on the kernel that runs"


def function(m: Machine, fn: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """A call of one of `arrays.FUNCTIONS`, or of one of NumPy's types."""
    positions = arrays.FUNCTIONS.get(fn)
    may_be_data = [positions is None or i in positions for i in range(len(args))]
    if fn is np.where and len(args) != 3:
        raise GraphBreak(reasons.DYNAMIC_SHAPE, "numpy.where with one argument")
    target = arrays.method_of(fn) if isinstance(getattr(fn, "__self__", None), np.ufunc) else fn
    if isinstance(fn, type):
        target = arrays.named(lambda *values: fn(*values), fn.__name__)
    numbers = isinstance(fn, (np.ufunc, type))
    return _call(m, "call_function", target, fn, args, kwargs, may_be_data, numbers=numbers)


def fact(m: Machine, fn: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """A call of one of `arrays.FACTS`."""
    mark = m.recorder.mark
    converter = _Arguments(m)
    given = [converter.convert(arg)[1] for arg in args]
    named = {name: converter.convert(value)[1] for name, value in kwargs.items()}
    m.recorder.roll_back(mark)
    return m.constant(_run(fn, fn, given, named))


def array(m: Machine, op: str, target: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """An operator, a subscript or a method of an array."""
    if op == "call_method":
        data = target in TAKES_ARRAYS or target.startswith("__")
        return _call(m, op, target, target, args, kwargs, [True] + [data] * (len(args) - 1))
    numbers = target is not getattr
    if target in _NOT_IN_PLACE and not (isinstance(args[0], ArrayValue) and not args[0].is_scalar):
        target = _NOT_IN_PLACE[target]  # a scalar or a number stays as it is, and the name gets another
    if target is operator.getitem:
        args = (args[0], _key(m, args[1]))
    elif target is operator.setitem:
        args = (args[0], _key(m, args[1], args[2]), args[2])
    return _call(m, op, target, target, args, kwargs, [True] * len(args), numbers=numbers)


def _key(m: Machine, key: Value, assigned: Value | None = None) -> Value:
    """An index. How many items a mask takes only the data tells: a single one may be assigned to all of them."""
    key = m.realize(key)
    parts = key.items if isinstance(key, TupleValue) else (key,)
    for part in map(m.realize, parts):
        if isinstance(part, TensorValue):
            raise GraphBreak(reasons.OPAQUE_CALL, "a tensor as an index of an array")
        if isinstance(part, ArrayValue) and part.stand_in.dtype.kind == "b" and not _is_single(m, assigned):
            raise GraphBreak(reasons.DYNAMIC_SHAPE, f"an index that is the mask {part.describe()}")
    return key


def _is_single(m: Machine, value: Value | None) -> bool:
    value = None if value is None else m.realize(value)
    if isinstance(value, ArrayValue):
        return bool(value.stand_in.ndim == 0)
    return isinstance(value, (Constant, SymbolicNumber))


def _call(
    m: Machine, op: str, target: Any, fn: Any, args: Sequence[Value], kwargs: Mapping[str, Value],
    may_be_data: Sequence[bool], *, numbers: bool = False,
) -> Value:  # fmt: skip
    """fn: what runs on the stand-ins. may_be_data: for each argument, whether it may be an array of the program."""
    if not arrays.BY_TYPE:
        raise GraphBreak(reasons.OPAQUE_CALL, f"{metas.name_of(target)}: NumPy before 2.0")
    mark = m.recorder.mark
    converter = _Arguments(m, numbers=numbers)
    pairs = [converter.convert(arg, data) for arg, data in zip(args, may_be_data, strict=True)]
    named = {name: converter.convert(value, name in arrays.NAMED_DATA) for name, value in kwargs.items()}
    given, given_named = [pair[1] for pair in pairs], {name: pair[1] for name, pair in named.items()}
    if converter.tensors and overrides.wanted(m, converter.tensors):
        raise GraphBreak(reasons.TENSOR_KIND, f"{metas.name_of(target)} of a tensor that is looked after")
    if converter.known and op == "call_function":
        result = _run_known(fn, given, given_named)
        if not isinstance(result, (np.ndarray, torch.Tensor)) and not _holds_arrays(result):
            m.recorder.roll_back(mark)
            return m.constant(result)
    else:
        result = _run(fn, target, given, given_named)
    if target in _NOT_IN_PLACE and result is not given[0]:
        raise GraphBreak(reasons.OPAQUE_CALL, f"{metas.name_of(target)} that makes another object")
    node = m.recorder.call(op, target, [p[0] for p in pairs], {name: p[0] for name, p in named.items()}, m.origin())
    writes = _writes(target, fn, given, kwargs)
    shows = writes and _shows(m, given, given_named)
    _note(m, node, shows, _is_risky(metas.name_of(fn), converter))
    known: dict[int, Value] = {id(value.stand_in): value for value in converter.arrays if not value.is_scalar}
    known.update(converter.mixed)
    return _value(m, node, result, known)


def _holds_arrays(result: Any) -> bool:
    return isinstance(result, (tuple, list)) and any(isinstance(item, np.ndarray) for item in result)


def _run_known(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A call with known arguments, where Python raises or warns if NumPy has something to say."""
    try:
        with np.errstate(all="raise"):
            return fn(*args, **kwargs)
    except Exception as error:
        raise GraphBreak(reasons.OPAQUE_CALL, f"numpy.{metas.name_of(fn)}: {error}") from None


def _run(fn: Any, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The call on stand-ins."""
    name = metas.name_of(fn)
    if name in arrays.INDEXED:
        args = [args[0], *(_as_index(arg) for arg in args[1:2]), *args[2:]]
        kwargs = {key: _as_index(value) if key == "indices" else value for key, value in kwargs.items()}
    if fn in arrays.CONVERSIONS:
        args = [arrays.writable(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    try:
        with np.errstate(all="ignore"):
            if isinstance(fn, str):
                return getattr(args[0], fn)(*args[1:], **kwargs)
            return fn(*args, **kwargs)
    except Exception as error:
        text = str(error).splitlines()
        raise GraphBreak(reasons.META_FAILED, f"{name}: {text[0] if text else type(error).__name__}") from None


def _as_index(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(map(_as_index, key))
    return arrays.zeros_for_indices(key) if isinstance(key, (np.ndarray, np.integer)) else key


def _writes(target: Any, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Value]) -> bool:
    name = metas.name_of(fn)
    if target is operator.setitem or target in _NOT_IN_PLACE or "out" in kwargs or name in arrays.WRITES:
        return True
    if isinstance(fn, np.ufunc) and len(args) > fn.nin:  # the results by position
        return True
    if isinstance(fn, str) and fn in WRITES:
        return True
    return name == "at" or len(args) > _OUT_AT.get(name, len(args))


# Where functions take an array for their result by position.
_OUT_AT = {
    "sum": 3, "prod": 3, "mean": 3, "any": 2, "all": 2, "max": 2, "min": 2, "amax": 2, "amin": 2, "cumsum": 3,
    "cumprod": 3, "argmax": 2, "argmin": 2, "clip": 3, "dot": 2, "outer": 2, "take": 3, "round": 2, "around": 2,
    "concatenate": 2, "trace": 5, "std": 3, "var": 3, "reduce": 3, "accumulate": 3, "reduceat": 4, "nansum": 3,
    "median": 2, "stack": 2, "ptp": 2, "fix": 1, "isneginf": 1, "isposinf": 1,
}  # fmt: skip


def _shows(m: Machine, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a write may be one to memory that existed before the graph: only that cannot be done twice."""
    found = [*args, *kwargs.values()]
    for value in [item for arg in found for item in (arg if isinstance(arg, (tuple, list)) else (arg,))]:
        if isinstance(value, torch.Tensor):
            return True
        if isinstance(value, np.ndarray) and id(arrays.memory(value)) in m.array_memory:
            return True
    return False


def _note(m: Machine, node: Any, writes: bool, risky: bool) -> None:
    """risky: whether it may raise for the data that it meets. NumPy's warnings are errors where the user says so."""
    node.meta["array"], node.meta["writes"] = True, writes
    recording.keep_errors_apart(m, node, writes, risky)
    if recording.errors_show(m) and any(node.meta.get("writes") for node in m.recorder.nodes):
        modes = np.geterr()
        m.guard(Known(np.geterr), "STATE", ((np.geterr, modes),))
        if not {"raise", "call"}.isdisjoint(modes.values()):
            raise GraphBreak(reasons.WRITE_AND_ERROR, metas.name_of(node.target))


def _is_risky(name: str, converter: _Arguments) -> bool:
    """Whether a function raises for some data: an index out of range, a negative power, a number that does not fit."""
    arrays_given = [value.stand_in.dtype.kind for value in converter.arrays]
    if name in arrays.INDEXED:
        return len(arrays_given) > 1
    return converter.symbolic or name == "int" or (name in ("pow", "ipow", "power") and set(arrays_given) <= {"i", "u"})


def _value(m: Machine, node: Any, result: Any, known: Mapping[int, Value]) -> Value:
    found = known.get(id(result))
    if found is not None:
        return found
    if type(result) is np.ndarray or isinstance(result, np.generic):
        if not arrays.is_plain_dtype(result.dtype):
            raise GraphBreak(reasons.OPAQUE_CALL, f"an array of {result.dtype}")
        _count(m, result)
        return ArrayValue(node, result)
    if isinstance(result, torch.Tensor):
        return _tensor(m, node, result)
    if type(result) in (tuple, list):
        return _items(m, node, result, known)
    if result is None:
        return Constant(None)
    if type(result) in UNBACKED_EXAMPLES:
        return SymbolicNumber(node, unbacked(node, type(result)))
    if type(result) in (bool, complex):
        return UnknownValue(node, type(result), reasons.TENSOR_DATA, metas.name_of(node.target))
    raise GraphBreak(reasons.OPAQUE_CALL, f"a result of type {type(result).__name__}")


def _items(m: Machine, node: Any, result: Any, known: Mapping[int, Value]) -> Value:
    items = []
    for place, item in enumerate(result):
        part = m.recorder.call("call_function", operator.getitem, (node, place), {}, m.origin())
        part.meta["array"], part.meta["writes"] = True, False
        items.append(_value(m, part, item, known))
    return new_list(m, items) if isinstance(result, list) else TupleValue(tuple(items))


def _tensor(m: Machine, node: Any, result: torch.Tensor) -> Value:
    if type(result) is not torch.Tensor or result.device.type != "cpu":
        raise GraphBreak(reasons.TENSOR_KIND, f"a {type(result).__name__} on {result.device}")
    meta = metas.meta_like(result)
    node.meta["val"], node.meta["device"] = meta, result.device
    m.shares_with_numpy = True
    return TensorValue(node, meta, result.device)


def from_tensor(m: Machine, tensor: TensorValue, kwargs: Mapping[str, Value]) -> Value:
    """`tensor.numpy()`: an array of the tensor's memory."""
    force = m.realize(kwargs["force"]) if set(kwargs) == {"force"} else Constant(False)
    if (kwargs and "force" not in kwargs) or not isinstance(force, Constant):
        raise GraphBreak(reasons.TENSOR_DATA, f"{tensor.describe()}.numpy()")
    why = unfit(tensor)
    dtype = None if why else arrays.numpy_dtype(tensor.meta.dtype)
    if why or dtype is None or tensor.meta.is_conj() or tensor.meta.is_neg() or not arrays.BY_TYPE:
        raise GraphBreak(reasons.TENSOR_DATA, f"{tensor.describe()}.numpy() {why}".rstrip())
    if tensor.meta.requires_grad and not force.value:
        m.throw(RuntimeError, "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    strides = [stride * dtype.itemsize for stride in tensor.meta.stride()]
    made = arrays.stand_in(tuple(tensor.meta.shape), strides, dtype)
    if made is None:
        raise GraphBreak(reasons.LARGE_ARRAY, tensor.describe())
    _count(m, made)
    _existed(m, made)
    named = {"force": force.value} if kwargs else {}
    node = m.recorder.call("call_method", "numpy", (tensor.node,), named, m.origin())
    _note(m, node, False, False)
    m.shares_with_numpy = True
    return ArrayValue(node, made)


def converted(m: Machine, target: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """`torch.from_numpy(array)` and its like."""
    first = m.realize(args[0]) if args else None
    if isinstance(first, (ListValue, TupleValue)) and any(
        isinstance(item, ArrayValue) and not item.is_scalar for item in map(m.realize, m.unpack(first))
    ):
        raise GraphBreak(
            reasons.OPAQUE_CALL, "a tensor of a list of arrays"
        )  # of which PyTorch warns once in a process
    return _call(m, "call_function", target, target, args, kwargs, [True] + [False] * (len(args) - 1))


def as_number(m: Machine, cls: Any, value: ArrayValue) -> Value:
    """`float(array)` and its like."""
    if value.stand_in.size != 1 or cls is bool:
        value.needs_data(f"{cls.__name__}()")
    return _call(m, "call_function", cls, cls, [value], {}, [True])


def holds_numpy(m: Machine, value: Value) -> bool:
    """Whether it is one of NumPy's objects, or a sequence that has some."""
    value = m.realize(value)
    if isinstance(value, (TupleValue, ListValue)):
        return any(holds_numpy(m, item) for item in m.unpack(value))
    known = isinstance(value, Constant) and isinstance(value.value, np.generic)
    return known or isinstance(value, ArrayValue) or isinstance(getattr(value, "example", None), np.generic)


def is_operand(m: Machine, value: Value) -> bool:
    """Whether an operator with an array may have it on its other side."""
    if isinstance(value, (ArrayValue, TensorValue, SymbolicNumber)):
        return True
    known = as_plain(m, value)
    return isinstance(known, (int, float, complex, np.generic))
