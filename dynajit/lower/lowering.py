"""The table from aten operations to values. What it lacks, or what a rule refuses, runs as eager runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch

from dynajit.lower.build import SUPPORTED, Unsupported, cast
from dynajit.lower.ir import Value

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)

TABLE: dict[Any, Rule] = {}
RESHAPES: set[Any] = set()  # operations whose result is the operand's elements in row-major order, in another shape


def lowering(*ops: Any) -> Callable[[R], R]:
    """Register a rule for aten overloads. Tensor arguments arrive as `Value`s, all others as they are."""

    def register(rule: R) -> R:
        TABLE.update(dict.fromkeys(ops, rule))
        return rule

    return register


def lower(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any, device: str) -> Any:
    """The values of one aten call on a kind of device; `result` is the meta tensor it returned."""
    where = kwargs.get("device")
    if where is not None:  # meta: the device of an operand, as the recorder had it
        if where.type not in ("meta", device):
            raise Unsupported(f"a tensor on {where}")
        kwargs = {**kwargs, "device": None}
    for value in (*args, *kwargs.values()):
        if isinstance(value, Value) and value.dtype not in SUPPORTED:
            raise Unsupported(f"{op} on {value.dtype}")
    if op in RESHAPES:
        return Value("reshape", (args[0],), tuple(result.shape), args[0].dtype)
    inplace = op not in TABLE and op._schema.is_mutable
    rule = TABLE.get(functional(op) if inplace else op)
    if rule is None:
        raise Unsupported(f"{op} has no lowering")
    try:
        values = rule(*args, **kwargs)
    except TypeError as error:  # an argument this rule does not know
        raise Unsupported(f"{op}: {error}") from error
    return cast(values, args[0].dtype) if inplace else values


def functional(op: Any) -> Any:
    """`aten.add.Tensor` for `aten.add_.Tensor`; None where there is no such pair."""
    name = op._schema.name.removeprefix("aten::")
    if not name.endswith("_") or name.endswith("__"):
        return None
    packet = getattr(torch.ops.aten, name[:-1], None)
    return getattr(packet, op._overloadname, None)
