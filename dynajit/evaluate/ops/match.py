"""The match statement."""

from __future__ import annotations

from dynajit import reasons
from dynajit.bytecode import Instr
from dynajit.errors import GraphBreak, Raised
from dynajit.evaluate.machine import Machine
from dynajit.evaluate.op import op
from dynajit.values.base import Value
from dynajit.values.builtin import BuiltinValue
from dynajit.values.constant import Constant, plain
from dynajit.values.klass import ClassValue
from dynajit.values.mapping import DictValue
from dynajit.values.sequence import TupleValue

_SEQUENCE, _MAPPING = 1 << 5, 1 << 6  # Py_TPFLAGS_SEQUENCE and _MAPPING, Include/object.h
_ITSELF = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)  # PEP 634


def _top(m: Machine, depth: int = 1) -> Value:
    return m.realize(m.frame.stack[-depth])


@op("GET_LEN", pops=lambda instr: 0)
def get_len(m: Machine, instr: Instr) -> Value:
    return Constant(_top(m).length(m))


@op("MATCH_SEQUENCE", pops=lambda instr: 0)
def match_sequence(m: Machine, instr: Instr) -> Value:
    return Constant(bool(_top(m).python_type().__flags__ & _SEQUENCE))


@op("MATCH_MAPPING", pops=lambda instr: 0)
def match_mapping(m: Machine, instr: Instr) -> Value:
    return Constant(bool(_top(m).python_type().__flags__ & _MAPPING))


@op("MATCH_KEYS", pops=lambda instr: 0)
def match_keys(m: Machine, instr: Instr) -> Value:
    subject, keys = _top(m, 2), m.unpack(_top(m))
    if not isinstance(subject, DictValue):
        raise GraphBreak(reasons.NO_OPERATION, f"matching the keys of {subject.describe()}")
    found = [subject.find(m, key) for key in keys]
    return Constant(None) if None in found else TupleValue(tuple(value for value in found if value is not None))


@op("MATCH_CLASS", pops=lambda instr: 3)
def match_class(m: Machine, instr: Instr, subject: Value, cls: Value, names: Value) -> Value:
    if not isinstance(cls, ClassValue):
        raise GraphBreak(reasons.NO_OPERATION, f"case {cls.describe()}")
    if not m.is_true(m.call(BuiltinValue(isinstance), [subject, cls], {})):
        return Constant(None)
    wanted: list[str] = list(plain(m, names))
    if instr.arg and cls.cls in _ITSELF:
        return TupleValue((subject,)) if not wanted and instr.arg == 1 else _refuse(m, cls)
    positional = getattr(cls.cls, "__match_args__", ())
    if instr.arg > len(positional):
        return _refuse(m, cls)
    found = []
    for name in [*positional[: instr.arg], *wanted]:
        try:
            found.append(m.getattr(subject, name))
        except Raised as error:
            if issubclass(error.value.python_type(), AttributeError):
                return Constant(None)
            raise
    return TupleValue(tuple(found))


def _refuse(m: Machine, cls: ClassValue) -> Value:
    """Python itself says what is wrong with the pattern."""
    raise GraphBreak(reasons.UNCAUGHT, f"TypeError: {cls.describe()} in a pattern")
