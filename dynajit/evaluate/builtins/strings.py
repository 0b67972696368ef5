"""Text of values."""

from __future__ import annotations

import re
from typing import Any

from dynajit.evaluate import texts
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.values.base import Value
from dynajit.values.constant import Constant, fold, is_known, plain
from dynajit.values.instance import InstanceValue
from dynajit.values.sequence import TupleValue


@builtin(str)
def str_(m: Machine, value: Value | None = None, *rest: Value) -> Value:
    if value is None:
        return Constant("")
    return fold(m, str, [value, *rest]) if rest else texts.text(m, value)


@builtin(repr)
def repr_(m: Machine, value: Value) -> Value:
    return texts.represented(m, value)


@builtin(format)
def format_(m: Machine, value: Value, spec: Value | None = None) -> Value:
    return texts.formatted(m, value, spec)


class _Hashed:
    """Stands for an object in a tuple whose hash is asked for."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        return self.value


@builtin(hash)
def hash_(m: Machine, value: Value) -> Value:
    if isinstance(value, TupleValue) and not is_known(m, value):
        return m.constant(hash(tuple(_Hashed(plain(m, hash_(m, m.realize(item)))) for item in value.items)))
    own = value.method(m, "__hash__") if isinstance(value, InstanceValue) else None
    return fold(m, hash, [value]) if own is None else m.call(own, [value], {})


def _of_patterns(function: Any) -> None:
    """What the functions of `re` say of constants: facts, and their cache is nobody's business."""
    builtin(function)(lambda m, *args, **kwargs: fold(m, function, args, kwargs))


for _function in (re.match, re.search, re.fullmatch, re.sub, re.subn, re.split, re.findall, re.compile, re.escape):
    _of_patterns(_function)
