"""Numbers: conversions, rounding, math and the operator module."""

from __future__ import annotations

import builtins
import cmath
import math
import operator
from collections.abc import Callable
from typing import Any

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate import arrays, operators
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.symbol import TEXTS
from dynajit.values.array import ArrayValue
from dynajit.values.base import Value
from dynajit.values.constant import Constant, SymbolicNumber, fold
from dynajit.values.instance import InstanceValue
from dynajit.values.sequence import ListValue, TupleValue
from dynajit.values.tensor import TensorValue


def _register_folded() -> None:
    pure = [obj for module in (math, cmath) for obj in vars(module).values() if callable(obj)]
    pure += [builtins.chr, builtins.ord, builtins.hex, builtins.oct, builtins.bin, complex]
    for function in pure:
        builtin(function)(_folding(function))


def _folding(function: Callable[..., Any]) -> Callable[..., Value]:
    def run(m: Machine, *args: Value, **kwargs: Value) -> Value:
        args = tuple(TupleValue(arg.items_now(m)) if isinstance(arg, ListValue) else arg for arg in args)
        _refuse_tensors(args, function)
        if function in TEXTS and not kwargs and any(isinstance(arg, SymbolicNumber) for arg in args):
            return m.compute(function, *args)
        return fold(m, function, args, kwargs)

    return run


def _refuse_tensors(args: tuple[Value, ...], function: Any) -> None:
    for arg in args:
        if isinstance(arg, ArrayValue) and function is not round:
            arg.needs_data(f"{getattr(function, '__name__', function)}()")
        if isinstance(arg, TensorValue):
            raise GraphBreak(reasons.TENSOR_DATA, f"{getattr(function, '__name__', function)}({arg.describe()})")


_register_folded()


def _by_special(function: Callable[..., Any], special: str) -> Callable[..., Value]:
    def run(m: Machine, value: Value, *rest: Value) -> Value:
        if isinstance(value, InstanceValue) and (method := value.method(m, special)) is not None:
            return m.call(method, [value, *rest], {})
        value = value.bare()
        _refuse_tensors((value,), function)
        if isinstance(value, ArrayValue) and function is round:
            return m.array("call_function", round, (value, *rest), {})
        if isinstance(value, SymbolicNumber) and not rest:
            return m.compute(function, value)
        return fold(m, function, [value, *rest])

    return run


builtin(round)(_by_special(round, "__round__"))
builtin(int)(lambda m, *args, **kw: _convert(m, int, "__int__", *args, **kw))
builtin(float)(lambda m, *args: _convert(m, float, "__float__", *args))


def _convert(m: Machine, cls: type, special: str, *args: Value, **kwargs: Value) -> Value:
    if len(args) == 1 and isinstance(args[0], InstanceValue) and args[0].method(m, special) is None:
        args = (args[0].bare(),)
    if len(args) == 1 and isinstance(args[0], SymbolicNumber) and args[0].python_type() is cls:
        return args[0]
    if len(args) == 1 and isinstance(args[0], SymbolicNumber):
        return m.compute(cls, args[0])
    if len(args) == 1 and not kwargs and isinstance(args[0], ArrayValue):
        return arrays.as_number(m, cls, args[0])
    if len(args) == 1 and not kwargs and isinstance(args[0], TensorValue):
        return m.record("call_function", cls, args, {})
    if len(args) == 1 and isinstance(args[0], InstanceValue):
        return _by_special(cls, special)(m, *args)
    return fold(m, cls, args, kwargs)


@builtin(bool)
def bool_(m: Machine, value: Value | None = None) -> Value:
    if isinstance(value, TensorValue):
        return m.record("call_function", bool, (value,), {})
    return Constant(False if value is None else m.is_true(value))


@builtin(abs)
def abs_(m: Machine, value: Value) -> Value:
    if isinstance(value, TensorValue):
        return m.record("call_function", abs, (value,), {})
    if isinstance(value, ArrayValue):
        return m.array("call_function", abs, (value,), {})
    return _by_special(abs, "__abs__")(m, value)


@builtin(pow)
def pow_(m: Machine, base: Value, exponent: Value, *modulus: Value) -> Value:
    return fold(m, pow, [base, exponent, *modulus]) if modulus else m.binary("**", base, exponent)


@builtin(divmod)
def divmod_(m: Machine, left: Value, right: Value) -> Value:
    if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
        return m.array("call_function", divmod, (left, right), {})
    return fold(m, divmod, [left, right])


def _operator(function: Any, symbol: str) -> None:
    builtin(function)(lambda m, left, right: m.binary(symbol, left, right))


for _symbol, (_function, _) in operators.BINARY.items():
    _operator(_function, _symbol)
for _symbol, _function in operators.INPLACE.items():
    _operator(_function, _symbol + "=")
for _symbol, (_function, _, _) in operators.COMPARE.items():
    builtin(_function)(lambda m, left, right, symbol=_symbol: m.compare(symbol, left, right))
for _name, (_unary, _) in operators.UNARY.items():
    builtin(_unary)(lambda m, value, name=_name: operators.unary(m, name, value))


@builtin(operator.getitem)
def getitem(m: Machine, owner: Value, key: Value) -> Value:
    return owner.getitem(m, key)


@builtin(operator.setitem)
def setitem(m: Machine, owner: Value, key: Value, value: Value) -> None:
    owner.setitem(m, key, value)


@builtin(operator.delitem)
def delitem(m: Machine, owner: Value, key: Value) -> None:
    owner.delitem(m, key)


@builtin(operator.contains)
def contains(m: Machine, owner: Value, item: Value) -> Value:
    return Constant(operators.contains(m, item, owner))


@builtin(operator.not_)
def not_(m: Machine, value: Value) -> Value:
    return Constant(not m.is_true(value))


@builtin(operator.truth)
def truth(m: Machine, value: Value) -> Value:
    return Constant(m.is_true(value))


@builtin(operator.is_)
def is_(m: Machine, left: Value, right: Value) -> Value:
    return Constant(operators.is_same(m, left, right))


@builtin(operator.is_not)
def is_not(m: Machine, left: Value, right: Value) -> Value:
    return Constant(not operators.is_same(m, left, right))


@builtin(operator.index)
def index(m: Machine, value: Value) -> Value:
    _refuse_tensors((value,), operator.index)
    return fold(m, operator.index, [value])
