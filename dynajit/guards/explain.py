"""Guards in words, and which of an entry's guards does not hold."""

from __future__ import annotations

import re
from types import FunctionType
from typing import Any

import torch

from dynajit import frame
from dynajit.guards.build import Built
from dynajit.guards.guard import Guard, tensor_spec
from dynajit.source import Known, Source


def describe_spec(spec: tuple[Any, ...]) -> str:
    """The tensor that a TENSOR check demands."""
    _, dtype, device, _, requires_grad, shape, strides, _ = spec
    size = ", ".join("*" if n is None else str(n) for n in shape)
    grad = ", requires grad" if requires_grad else ""
    return f"{str(dtype).removeprefix('torch.')}[{size}] on {device}, {_layout(shape, strides)}{grad}"


def _layout(shape: tuple[int | None, ...], strides: tuple[int | None, ...]) -> str:
    expected: int | None = 1
    inner = 0
    for dim in reversed(range(len(shape))):
        stride, size = strides[dim], shape[dim]
        if stride is None:
            continue
        if stride != (-2 - inner if stride < 0 else expected):
            return f"strides ({', '.join(_stride(stride) for stride in strides)})"
        inner, expected = dim, None if size is None or expected is None else expected * size
    return "contiguous"


def _stride(stride: int | None) -> str:
    if stride is None:
        return "*"
    return str(stride) if stride >= 0 else f"past dim {-2 - stride}"


def describe_tensor(obj: torch.Tensor) -> str:
    return describe_spec(tensor_spec(obj))


def words(guard: Guard) -> str:
    """One guard as a sentence that names the program's own expression."""
    source, expected = guard.source.text, guard.expected
    match guard.kind:
        case "TENSOR":
            return f"{source} is a tensor {describe_spec(expected)}"
        case "TYPE_IS":
            return f"{source} is a {expected.__qualname__}"
        case "EQUALS":
            return f"{source} == {_short(expected)}"
        case "LENGTH":
            return f"len({source}) == {expected}"
        case "KEYS":
            return f"the keys of {source} are {_short(list(expected))}"
        case "SET_EQUALS":
            return f"{source} == {_short(set(expected))}"
        case "OBJECTS":
            return f"{source} is ({', '.join(_name(item) for item in expected)})"
        case "RELATION":
            text = expected.text
            for root in expected.roots:
                text = re.sub(rf"\b{root.name}\b", root.source.text.replace("\\", r"\\"), text)
            return text if expected.value else f"not {text}"
        case "IS":
            return f"{source} is {_name(expected)}"
        case "CODE":
            where = "" if isinstance(guard.source, Known) else f"{source} is the function "
            return f"{where}{expected.co_qualname}{' is unchanged' if not where else ''}"
        case "ABSENT":
            return f"{source} is not set"
        case "ITEM_ABSENT":
            return f"{source} has no entry {guard.name!r}"
        case "INSTANCE_ABSENT":
            return f"{source} has no own attribute {guard.name!r}"
        case "EMPTY":
            return f"{source}.{guard.name} is empty"
        case "CLASS_ATTR":
            found = "is not defined" if expected is frame.MISSING else "is unchanged"
            return f"{source}.{guard.name} {found}"
        case "SAME":
            return f"{source} is {expected.text}"
        case "NOT_SAME":
            return f"{source} is not {expected.text}"
        case "STATE":
            return "grad mode, autocast, default dtype and function modes are as they were"
        case _:
            return f"{source}: {guard.kind} {_short(expected)}"


def _short(obj: Any) -> str:
    text = repr(obj)
    return text if len(text) <= 80 else text[:77] + "..."


def _name(obj: Any) -> str:
    if isinstance(obj, dict) and isinstance(obj.get("__name__"), str):
        return f"the namespace of {obj['__name__']}"
    if isinstance(obj, dict):
        return "the same dict"
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
    return name if isinstance(name, str) else _short(obj)


def failing(built: Built, func: FunctionType, args: tuple[Any, ...]) -> tuple[Guard | None, Any] | None:
    """The first guard that does not hold for this call, with the value that was found; None if all hold."""
    found = built.check.explain(func, args)
    if found is None:
        return None
    node, check, value = found
    guards = built.guards[node]
    _, _, _, checks = built.check.nodes[node]
    if check < len(checks) and checks[check][0] in _OF_NAMES:
        kind, expected = checks[check]
        return _failing_name(guards, kind, expected, value), value
    return (guards[check] if 0 <= check < len(guards) else None), value


def current(source: Source, func: FunctionType, args: tuple[Any, ...]) -> Any:
    """What is found at `source` in this call; MISSING if nothing is."""
    path: list[Source] = []
    here: Source | None = source
    while here is not None:
        path.insert(0, here)
        here = here.parent
    rows = [(position - 1, *step.accessor, ()) for position, step in enumerate(path)]
    found = frame.Check(rows, [len(rows) - 1]).run(func, args)
    return found[0] if found is not None else frame.MISSING


_OF_NAMES = (frame.TYPE_ATTRS, frame.DICT_VALUES, frame.INSTANCE_VALUES, frame.EMPTY)


def _failing_name(guards: tuple[Guard, ...], kind: int, expected: dict[str, Any], owner: Any) -> Guard | None:
    for guard in guards:
        name = guard.name or getattr(guard.source, "key", "")
        if name not in expected:
            continue
        if kind == frame.EMPTY and guard.kind == "EMPTY" and getattr(owner, "__dict__", {}).get(name) != {}:
            return guard
        if kind != frame.EMPTY and guard.kind != "EMPTY" and _current(owner, name, kind) is not expected[name]:
            return guard
    return None


def _current(owner: Any, name: str, kind: int) -> Any:
    if kind == frame.INSTANCE_VALUES:
        return getattr(owner, "__dict__", {}).get(name, frame.MISSING)
    if isinstance(owner, dict):
        return owner.get(name, frame.MISSING)
    for base in owner.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return frame.MISSING


def found_words(guard: Guard | None, value: Any) -> str:
    """What was found instead."""
    if value is frame.MISSING:
        return "nothing"
    if isinstance(value, torch.Tensor):
        return describe_tensor(value)
    if guard is not None and guard.kind in ("LENGTH",):
        return str(len(value))
    if guard is not None and guard.kind == "TYPE_IS":
        return type(value).__qualname__
    return _short(value) if isinstance(value, (int, float, str, bool, type(None), tuple)) else type(value).__qualname__
