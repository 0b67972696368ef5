"""`torch.Generator` objects: inputs of the graph, whose state its operations change in order."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.source import Source
from dynajit.values.base import Emitter, Tracer, Value
from dynajit.values.constant import Constant
from dynajit.values.unknown import UnknownValue
from dynajit.values.wrap import kind

# What changes a generator's state and returns the generator itself.
_CHANGES = frozenset({"manual_seed", "set_state"})
_READS = frozenset({"initial_seed", "get_state", "seed"})


@dataclass(frozen=True, eq=False)
class GeneratorInput(Value):
    """node: its place in the graph."""

    node: Any
    device: torch.device

    kind = "generator of random numbers"

    def python_type(self) -> type:
        return torch.Generator

    def identity(self) -> Any:
        return ("node", self.node)

    def truth(self, m: Tracer) -> bool:
        return True

    def getattr(self, m: Tracer, name: str) -> Value:
        if name == "device":
            return Constant(self.device)
        if name in _CHANGES or name in _READS:
            return GeneratorMethod(self, name)
        self.missing(f"attribute {name!r}")

    def reload(self, emit: Emitter) -> None:
        emit.load_node(self.node)


@dataclass(frozen=True, eq=False)
class GeneratorMethod(Value):
    owner: GeneratorInput
    name: str

    kind = "method"

    def python_type(self) -> type:
        return types.BuiltinMethodType

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        if kwargs:
            raise GraphBreak(reasons.NO_OPERATION, f"keyword arguments of Generator.{self.name}")
        node = m.record_effect(_FUNCTIONS[self.name], (self.owner, *args), writes=self._shows())
        if self.name in _CHANGES:
            return self.owner
        cls = torch.Tensor if self.name == "get_state" else int
        return UnknownValue(node, cls, reasons.GLOBAL_STATE, f"Generator.{self.name}")

    def _shows(self) -> bool:
        """Whether to repeat it makes a difference: a generator made here is made again, too."""
        return self.owner.source is not None and self.name != "initial_seed"

    def reload(self, emit: Emitter) -> None:
        emit.load(self.owner)
        emit.instruction("LOAD_ATTR", self.name)


def manual_seed(generator: torch.Generator, seed: int) -> torch.Generator:
    return generator.manual_seed(seed)


def set_state(generator: torch.Generator, state: torch.Tensor) -> torch.Generator:
    return generator.set_state(state)


def initial_seed(generator: torch.Generator) -> int:
    return generator.initial_seed()


def get_state(generator: torch.Generator) -> torch.Tensor:
    return generator.get_state()


def seed(generator: torch.Generator) -> int:
    return generator.seed()


_FUNCTIONS: dict[str, Any] = {
    "manual_seed": manual_seed, "set_state": set_state, "initial_seed": initial_seed, "get_state": get_state,
    "seed": seed,
}  # fmt: skip


@kind(torch.Generator)
def wrap_generator(m: Tracer, obj: torch.Generator, source: Source) -> Value:
    m.guard(source, "TYPE_IS", torch.Generator)
    return GeneratorInput(m.object_input(obj, source), obj.device, source=source)
