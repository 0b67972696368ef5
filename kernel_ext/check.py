"""`--check` and `%compile check`: a call by eager and compiled, on copies of its arguments. Results, what was written,
what was printed, errors and the state of the random numbers are compared.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernel_ext import late

if TYPE_CHECKING:
    from kernel_ext.targets import Target


@dataclass(frozen=True)
class Outcome:
    """What a call did. args: as they are afterwards."""

    value: Any
    error: BaseException | None
    args: Any
    printed: str
    random: Any


def observe(call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], shown: bool = False) -> Outcome:
    """shown: what it prints comes out."""
    value, error, text = None, None, io.StringIO()
    with contextlib.nullcontext() if shown else contextlib.redirect_stdout(text):
        try:
            value = call(*args, **kwargs)
        except Exception as raised:
            error = raised
    return Outcome(value, error, (args, kwargs), text.getvalue(), late.torch().random.get_rng_state())


def check(compiled: Callable[..., Any], eager: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> list[str]:
    """One line for each thing that was compared; each call gets copies of its own."""
    torch = late.torch()
    state = torch.random.get_rng_state()
    outcomes = []
    for call in (eager, compiled):
        torch.random.set_rng_state(state)
        outcomes.append(observe(call, *copy.deepcopy((args, kwargs))))
    torch.random.set_rng_state(state)
    return compare(*outcomes)


def compare(eager: Outcome, compiled: Outcome) -> list[str]:
    if eager.error is not None or compiled.error is not None:
        said = [_compare_errors(eager.error, compiled.error)]
    else:
        said = [_compare("result", eager.value, compiled.value)]
    said.append(_compare("arguments afterwards", eager.args, compiled.args))
    printed = eager.printed == compiled.printed
    said.append("✓ printed text: the same" if printed else
                f"✗ printed text: eager {eager.printed!r}, compiled {compiled.printed!r}")  # fmt: skip
    same = bool((eager.random == compiled.random).all())
    said.append("✓ random numbers: the same state" if same else "✗ random numbers: another state")
    return said


def _compare_errors(eager: BaseException | None, compiled: BaseException | None) -> str:
    if type(eager) is type(compiled) and str(eager) == str(compiled):
        return f"✓ error: the same {type(eager).__name__}"
    return f"✗ error: eager {_error(eager)}, compiled {_error(compiled)}"


def _error(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}" if error is not None else "raises nothing"


def _compare(what: str, eager: Any, compiled: Any) -> str:
    torch = late.torch()
    worst = 0.0
    for where, mine, theirs in _leaves(compiled, eager, ""):
        if not (isinstance(mine, torch.Tensor) and isinstance(theirs, torch.Tensor)):
            if not _equal(mine, theirs):
                return f"✗ {what}{where}: eager {theirs!r}, compiled {mine!r}"
            continue
        for name in ("dtype", "shape", "device", "requires_grad"):
            if getattr(mine, name) != getattr(theirs, name):
                return f"✗ {what}{where}: {name} {getattr(theirs, name)} in eager, {getattr(mine, name)} compiled"
        try:
            torch.testing.assert_close(mine, theirs, equal_nan=True)
        except AssertionError as error:
            return f"✗ {what}{where}: {str(error).splitlines()[0]}"
        if mine.numel() and not mine.is_complex():
            difference = (mine.detach().double() - theirs.detach().double()).abs().nan_to_num(0.0)
            worst = max(worst, float(difference.max()))
    return f"✓ {what}: same as eager, largest difference {worst:.2g}" if worst else f"✓ {what}: equal in every bit"


def _equal(mine: Any, theirs: Any) -> bool:
    if type(mine) is not type(theirs):
        return False
    try:
        return mine is theirs or bool(mine == theirs) or mine != mine or "__eq__" not in vars(type(mine))
    except Exception:
        return True  # they cannot be compared


def _leaves(mine: Any, theirs: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    """Pairs of what is not a container, with the way to them."""
    if isinstance(mine, dict) and isinstance(theirs, dict) and mine.keys() == theirs.keys():
        for key in mine:
            yield from _leaves(mine[key], theirs[key], f"{where}[{key!r}]")
    elif isinstance(mine, list | tuple) and isinstance(theirs, list | tuple) and len(mine) == len(theirs):
        for i, pair in enumerate(zip(mine, theirs, strict=True)):
            yield from _leaves(*pair, f"{where}[{i}]")
    else:
        yield where, mine, theirs


# ---- the first call of a cell with `--check` ----
def checked(made: Any, target: Target, namespace: dict[str, Any]) -> Any:
    """Stands for the compiled object until its first call is over, then gives its place back."""
    if late.is_module_class(made):
        inner = made.__dict__["forward"]
        made.forward = _first_call(inner, target, lambda: setattr(made, "forward", inner))
        return made
    if late.is_module(made):
        inner = made.__dict__["forward"]
        made.__dict__["forward"] = _first_call(inner, target, lambda: made.__dict__.__setitem__("forward", inner))
        return made

    def give_back() -> None:
        if namespace.get(target.name) is stand_in:
            namespace[target.name] = made

    stand_in = _first_call(made, target, give_back)
    return stand_in


def _first_call(made: Any, target: Target, give_back: Any) -> Any:
    eager = getattr(made, "__func__", made).__wrapped__
    bound = (made.__self__,) if hasattr(made, "__self__") else ()

    @functools.wraps(eager)
    def call(*args: Any, **kwargs: Any) -> Any:
        if target.checked:
            return made(*args, **kwargs)
        give_back()
        torch = late.torch()
        state = torch.random.get_rng_state()
        try:
            expected = observe(eager, *copy.deepcopy(((*bound, *args), kwargs)))
        except Exception as error:
            target.checked = f"not checked: the arguments cannot be copied ({error})"
            return made(*args, **kwargs)
        torch.random.set_rng_state(state)
        found = observe(made, args, kwargs, shown=True)
        if bound:
            found = Outcome(found.value, found.error, ((*bound, *args), kwargs), found.printed, found.random)
        said = [line for line in compare(expected, found) if "printed text" not in line]
        wrong = [line for line in said if line.startswith("✗")]
        first = (wrong or said)[0]
        target.checked = f"{first[0]} check: {'; '.join(line[2:] for line in wrong or said[:1])}"
        target.heard += 1
        if found.error is not None:
            raise found.error
        return found.value

    call.__compiled__ = made  # type: ignore[attr-defined]
    return call
