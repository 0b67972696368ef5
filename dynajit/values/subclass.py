"""Classes derived from Tensor that handle PyTorch's functions as Tensor itself does.

`Tensor.__torch_function__` runs the function and gives what it returns the derived class (torch/_tensor.py). So a
recorded call does the same in the graph, and here only the class of each result has to be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.source import Known, Source
from dynajit.values.base import Tracer, Value
from dynajit.values.klass import lookup
from dynajit.values.special import of_class
from dynajit.values.tensor import TensorValue, dense
from dynajit.values.wrap import rule

# What any class statement writes, and what plays no role for an object that exists.
_UNIMPORTANT = frozenset({"__module__", "__doc__", "__dict__", "__weakref__", "__qualname__", "__annotations__",
                          "__firstlineno__", "__static_attributes__", "__new__", "__init__"})  # fmt: skip
PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


_HANDLER = "__torch_function__"
# What a class that handles PyTorch's functions may have of its own beside that: Python runs it.
_SHOWN = frozenset({_HANDLER, "__repr__", "__str__", "__format__"})


# What operators and PyTorch's own dispatch look for on the class.
_LOOKED_FOR = tuple(
    name for name in dir(torch.Tensor) if name.startswith("__") and callable(getattr(torch.Tensor, name))
    and name not in ("__class__", "__new__", "__init__", "__init_subclass__", "__subclasshook__", "__dir__")
)  # fmt: skip


def is_quiet(cls: type) -> bool:
    """Whether a derived class adds names of its own only: all that Tensor has is Tensor's."""
    return _changes(cls) == frozenset()


def _changes(cls: type) -> frozenset[str] | None:
    """What of Tensor a derived class has otherwise; None if it cannot be told."""
    if not issubclass(cls, torch.Tensor) or cls in PLAIN or issubclass(cls, torch.nn.Parameter):
        return None
    own = {name for base in cls.__mro__[: cls.__mro__.index(torch.Tensor)] for name in base.__dict__}
    dispatch = cls.__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl
    if not dispatch or "__getattr__" in own or "__getattribute__" in own:
        return None
    return frozenset(name for name in own if hasattr(torch.Tensor, name)) - _UNIMPORTANT


def is_muted(cls: type) -> bool:
    """Whether PyTorch's functions take it for a Tensor and never ask it."""
    return cls.__torch_function__ is torch._C._disabled_torch_function_impl  # type: ignore[attr-defined]


def is_loud(cls: type) -> bool:
    """Whether a derived class handles PyTorch's functions itself, and changes nothing else of Tensor."""
    changed = _changes(cls)
    return changed is not None and _HANDLER in changed and changed <= _SHOWN and not is_muted(cls)


def is_silent(cls: type) -> bool:
    """Whether a derived class is a Tensor to PyTorch: results are plain tensors."""
    changed = _changes(cls)
    return changed is not None and _HANDLER in changed and changed <= _SHOWN and is_muted(cls)


def is_modelled(cls: type) -> bool:
    return is_quiet(cls) or is_loud(cls) or is_silent(cls)


def result_class(inputs: Sequence[TensorValue]) -> type:
    """The class of what an operation on these tensors returns."""
    derived = {value.cls for value in inputs if value.cls not in PLAIN and is_quiet(value.cls)}
    if not derived:
        return torch.Tensor
    for cls in derived:
        if all(issubclass(cls, other) for other in derived):
            return cls
    raise GraphBreak(reasons.TENSOR_KIND, f"{', '.join(sorted(cls.__qualname__ for cls in derived))} in one operation")


def attribute(m: Tracer, owner: TensorValue, name: str) -> Value | None:
    """What the derived class adds, or None where Tensor answers."""
    if owner.cls in PLAIN or not is_modelled(owner.cls):
        return None
    if hasattr(torch.Tensor, name):
        lookup(m, owner.cls, name)
        return None
    if not hasattr(owner.cls, name):
        return None
    raw = lookup(m, owner.cls, name)
    if owner.source is not None and not isinstance(raw, property):
        if name in getattr(m.real_tensor(owner), "__dict__", {}):
            return None  # the object's own
        m.guard(owner.source, "INSTANCE_ABSENT", None, name)
    return of_class(m, owner, owner.cls, name)


def stays_quiet(m: Tracer, cls: type) -> None:
    """Guard that the class goes on leaving to Tensor what it leaves now."""
    for name in _LOOKED_FOR:
        lookup(m, cls, name)


@rule(-1, lambda obj: isinstance(obj, torch.Tensor) and is_modelled(type(obj)))
def wrap_modelled_subclass(m: Tracer, obj: Any, source: Source) -> Value:
    if not dense(obj):
        m.guard(source, "TYPE_IS", type(obj))
        raise GraphBreak(reasons.TENSOR_KIND, f"{source.text} ({type(obj).__name__})")
    stays_quiet(m, type(obj))
    asked = torch._C._is_torch_function_enabled  # a thread can switch it off
    m.guard(Known(asked), "STATE", ((asked, True),))
    return m.graph_input(obj, source)  # type: ignore[no-any-return]


def facts_of(tensor: Any) -> tuple[Any, ...]:
    """What a guard compares of a tensor whose class would be asked for each of its attributes."""
    with torch._C.DisableTorchFunctionSubclass():
        known = dense(tensor), tensor.dtype, str(tensor.device), tensor.requires_grad, tensor.is_leaf
        return (*known, tuple(tensor.shape), tensor.stride())
