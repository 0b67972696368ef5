"""A `random.Random(seed)` that is made inside: what it draws is known while capturing."""

from __future__ import annotations

import random
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynajit.values.base import Emitter, Handle, Tracer, Value, no_kwargs
from dynajit.values.constant import Constant, plain
from dynajit.values.sequence import ListValue, new_list

# Methods that take and give numbers.
_NUMBERS = frozenset({"random", "uniform", "triangular", "randint", "randrange", "getrandbits", "gauss",
                      "normalvariate", "lognormvariate", "expovariate", "betavariate", "gammavariate", "paretovariate",
                      "weibullvariate", "vonmisesvariate", "seed"})  # fmt: skip


@dataclass(frozen=True, eq=False)
class SeededRandom(Handle):
    """Contents: the state."""

    kind = "random.Random"

    def python_type(self) -> type:
        return random.Random

    def truth(self, m: Tracer) -> bool:
        return True

    def getattr(self, m: Tracer, name: str) -> Value:
        if name in _NUMBERS or name in _ITEMS:
            return SeededMethod(self, name)
        self.missing(f"attribute {name!r}")

    def draw(self, m: Tracer, name: str, *args: Any, **kwargs: Any) -> Any:
        """What the method of a generator in this state returns; its new state is kept."""
        generator = random.Random()
        generator.setstate(m.heap[self.key])
        try:
            return getattr(generator, name)(*args, **kwargs)
        except Exception as error:
            m.throw(type(error), *error.args)
        finally:
            m.heap.put(self.key, generator.getstate())

    def reload(self, emit: Emitter) -> None:
        emit.call(_in_state, Constant(emit.heap[self.key]))


def _in_state(state: Any) -> random.Random:
    generator = random.Random()
    generator.setstate(state)
    return generator


@dataclass(frozen=True, eq=False)
class SeededMethod(Value):
    owner: SeededRandom
    name: str

    kind = "method"

    def python_type(self) -> type:
        return types.MethodType

    def call(self, m: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        if self.name in _NUMBERS:
            named = {name: plain(m, value) for name, value in kwargs.items()}
            if self.name == "seed" and not isinstance(named.get("a", plain(m, args[0]) if args else None), SEEDS):
                self.missing("seeding by the time")
            return m.constant(self.owner.draw(m, self.name, *(plain(m, arg) for arg in args), **named))
        return _ITEMS[self.name](m, self.owner, *args, **kwargs)

    def reload(self, emit: Emitter) -> None:
        emit.load(self.owner)
        emit.instruction("LOAD_ATTR", self.name)


SEEDS = (int, float, str, bytes)


def _choice(m: Tracer, owner: SeededRandom, seq: Value) -> Value:
    items = _places(m, owner, seq)
    return items[owner.draw(m, "choice", range(len(items)))] if items else _of_none(m, owner, "choice")


def _of_none(m: Tracer, owner: SeededRandom, name: str) -> Value:
    return m.constant(owner.draw(m, name, []))


def _places(m: Tracer, owner: SeededRandom, seq: Value) -> tuple[Value, ...]:
    seq = m.realize(seq)
    sequence = seq.kind in ("list", "tuple") or (isinstance(seq, Constant) and isinstance(seq.value, (str, range)))
    if not sequence:
        owner.missing(f"drawing from {seq.describe()}")
    return m.unpack(seq)


def _shuffle(m: Tracer, owner: SeededRandom, x: Value) -> Value:
    items = _places(m, owner, x)
    if not isinstance(m.realize(x), ListValue):
        owner.missing("shuffle() of what is no list")
    order = list(range(len(items)))
    owner.draw(m, "shuffle", order)
    x.setitem(m, Constant(slice(None)), new_list(m, [items[place] for place in order]))
    return Constant(None)


def _sample(m: Tracer, owner: SeededRandom, population: Value, k: Value, **kwargs: Value) -> Value:
    no_kwargs("sample", kwargs)
    items = _places(m, owner, population)
    return new_list(m, [items[place] for place in owner.draw(m, "sample", range(len(items)), plain(m, k))])


def _choices(m: Tracer, owner: SeededRandom, population: Value, weights: Value | None = None, **kwargs: Value) -> Value:
    items = _places(m, owner, population)
    if not items:
        owner.missing("choices() from nothing")
    named = {name: plain(m, value) for name, value in kwargs.items() if name == "k"}
    if weights is not None or set(kwargs) - {"k"}:
        given = kwargs.get("cum_weights", weights)
        if given is None or set(kwargs) - {"k", "cum_weights"} or (weights is not None and "cum_weights" in kwargs):
            owner.missing("choices() with these arguments")
        name = "cum_weights" if "cum_weights" in kwargs else "weights"
        named[name] = [plain(m, item) for item in m.unpack(given)]
    return new_list(m, [items[place] for place in owner.draw(m, "choices", range(len(items)), **named)])


_ITEMS: dict[str, Callable[..., Value]] = {
    "choice": _choice,
    "shuffle": _shuffle,
    "sample": _sample,
    "choices": _choices,
}


def new_seeded(m: Tracer, seed: Any) -> SeededRandom:
    key = m.new_key()
    m.heap.new(key, random.Random(seed).getstate(), existing=False)
    return SeededRandom(key)
