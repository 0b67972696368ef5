"""Numbers known by name: sizes and Python numbers that may differ from call to call.

A `Symbol` has two values. `example` is its value in the call that is compiled. `other` is what it would be in another
call that takes the same way through the program, made up by the plan (evaluate/plan.py). Every operation on tensors is
asked for its shapes in both calls; what comes out the same depends on nothing, what differs is found again among the
symbols. `text` says how it follows from its roots, as Python; with it, a comparison can be guarded instead of a value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynajit.source import Source


@dataclass(frozen=True)
class Root:
    """A number that is read from the program's objects. size: of a tensor, so it is at least 2 (ones are static)."""

    name: str
    source: Source
    example: Any
    size: bool = False


@dataclass(frozen=True)
class Symbol:
    """text: None when only running the program tells the number.

    unbacked: for what a tensor's data decides, the node of the graph that reads it. Its values here are made up, and
    nothing may be decided by them.
    """

    text: str | None
    roots: tuple[Root, ...]
    example: Any
    other: Any
    unbacked: Any = None

    def __str__(self) -> str:
        return self.text if self.text is not None else f"?{self.example}"

    @property
    def root(self) -> Root | None:
        """The root itself, when this is one."""
        return self.roots[0] if len(self.roots) == 1 and self.text == self.roots[0].name else None


Number = int | float | Symbol

# Functions of numbers whose result follows by the same Python text.
TEXTS: dict[Callable[..., Any], str] = {
    operator.add: "({} + {})", operator.sub: "({} - {})", operator.mul: "({} * {})", operator.truediv: "({} / {})",
    operator.floordiv: "({} // {})", operator.mod: "({} % {})", operator.pow: "({} ** {})", operator.neg: "(-{})",
    operator.pos: "(+{})", operator.and_: "({} & {})", operator.or_: "({} | {})", operator.xor: "({} ^ {})",
    operator.lshift: "({} << {})", operator.rshift: "({} >> {})", operator.index: "{}", abs: "abs({})",
    int: "int({})", float: "float({})", round: "round({})", math.floor: "math.floor({})", math.ceil: "math.ceil({})",
    math.trunc: "math.trunc({})", math.sqrt: "math.sqrt({})", math.log: "math.log({})", math.log2: "math.log2({})",
    math.exp: "math.exp({})",
}  # fmt: skip
NAMESPACE = {
    "np": np,
    "math": math,
    "abs": abs,
    "bool": bool,
    "int": int,
    "float": float,
    "round": round,
    "__builtins__": {},
}


def is_number(obj: Any) -> bool:
    """Whether an object is a number that can be symbolic: of Python, or a scalar of NumPy."""
    return type(obj) in (int, float) or isinstance(obj, (np.integer, np.floating))


def example_of(number: Number) -> Any:
    return number.example if isinstance(number, Symbol) else number


def other_of(number: Number) -> Any:
    return number.other if isinstance(number, Symbol) else number


def text_of(number: Number) -> str | None:
    if isinstance(number, Symbol):
        return number.text
    if not math.isfinite(number) or (isinstance(number, np.generic) and not repr(number).startswith("np.")):
        return None  # NumPy before 2.0 does not write down what kind of number it is
    return repr(number) if number >= 0 else f"({number!r})"


def roots_of(numbers: Iterable[Any]) -> tuple[Root, ...]:
    return tuple(dict.fromkeys(root for number in numbers if isinstance(number, Symbol) for root in number.roots))


def apply(function: Callable[..., Any], *numbers: Number) -> Number:
    """`function(*numbers)` in both calls. Raises what the function raises for the examples.

    An error in the other call alone raises `OtherCallError`.
    """
    example = function(*map(example_of, numbers))
    roots = roots_of(numbers)
    if not any(isinstance(number, Symbol) for number in numbers):
        return example  # type: ignore[no-any-return]
    try:
        other = function(*map(other_of, numbers))
    except (ArithmeticError, ValueError) as error:
        raise OtherCallError(roots) from error
    if type(other) is not type(example):
        raise OtherCallError(roots)
    pattern, texts = TEXTS.get(function), [text_of(number) for number in numbers]
    text = pattern.format(*texts) if pattern is not None and None not in texts and _fits(pattern, texts) else None
    return Symbol(text, roots, example, other, unbacked_in(numbers))


def unbacked_in(numbers: Iterable[Any]) -> Any:
    """The node that decides one of the numbers, if the data of a tensor does."""
    found = (number.unbacked for number in numbers if isinstance(number, Symbol) and number.unbacked is not None)
    return next(found, None)


UNBACKED_EXAMPLES = {int: (1021, 2039), float: (1.5, 2.5)}  # made up: no size that a program has


def unbacked(node: Any, cls: type) -> Symbol:
    example, other = UNBACKED_EXAMPLES[cls]
    return Symbol(f"u_{node.name}", (), example, other, node)


def _fits(pattern: str, texts: Sequence[Any]) -> bool:
    return pattern.count("{}") == len(texts) and sum(map(len, texts)) < 400


class OtherCallError(Exception):
    """The made-up call would not take the way of the real one."""

    def __init__(self, roots: tuple[Root, ...]) -> None:
        super().__init__(", ".join(root.name for root in roots))
        self.roots = roots


def add(left: Number, right: Number) -> Number:
    if not isinstance(left, Symbol) and not left:
        return right
    return left if not isinstance(right, Symbol) and not right else apply(operator.add, left, right)


def subtract(left: Number, right: Number) -> Number:
    if isinstance(left, Symbol) and isinstance(right, Symbol) and left.text is not None and left.text == right.text:
        return 0
    return left if not isinstance(right, Symbol) and not right else apply(operator.sub, left, right)


def multiply(left: Number, right: Number) -> Number:
    if not isinstance(left, Symbol) and left == 1:
        return right
    return left if not isinstance(right, Symbol) and right == 1 else apply(operator.mul, left, right)


def product(numbers: Iterable[Number]) -> Number:
    result: Number = 1
    for number in numbers:
        result = multiply(result, number)
    return result
