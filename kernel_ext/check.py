"""`--check`: the first call is also run by eager, on copies of its arguments, and the two results are compared."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
from typing import TYPE_CHECKING, Any

from kernel_ext import late

if TYPE_CHECKING:
    from kernel_ext.targets import Target


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
        expected = _eagerly(eager, (*bound, *args), kwargs)
        torch.random.set_rng_state(state)
        found = made(*args, **kwargs)
        target.checked = _compare(found, expected)
        target.heard += 1
        return found

    call.__compiled__ = made  # type: ignore[attr-defined]
    return call


def _eagerly(eager: Any, args: Any, kwargs: Any) -> Any:
    """Its result, or the exception; what it prints is not shown, what it changes are copies."""
    try:
        args, kwargs = copy.deepcopy((args, kwargs))
    except Exception as error:
        return _NotCopied(error)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return eager(*args, **kwargs)
    except Exception as error:
        return error


class _NotCopied:
    def __init__(self, error: Exception) -> None:
        self.error = error


def _compare(found: Any, expected: Any) -> str:
    if isinstance(expected, _NotCopied):
        return f"not checked: the arguments cannot be copied ({expected.error})"
    if isinstance(expected, Exception):
        return f"✗ check: eager raises {type(expected).__name__}: {expected}"
    pairs = list(_pairs(found, expected))
    if not pairs:
        same = type(found) is type(expected) and (found is expected or found == expected)
        return "✓ check: same result as eager" if same else f"✗ check: eager gives {expected!r}, compiled {found!r}"
    torch = late.torch()
    worst = 0.0
    for mine, theirs in pairs:
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return f"✗ check: eager gives {theirs.dtype} {list(theirs.shape)}, compiled {mine.dtype} {list(mine.shape)}"
        try:
            torch.testing.assert_close(mine, theirs, equal_nan=True)
        except AssertionError as error:
            return f"✗ check: {str(error).splitlines()[0]}"
        difference = (mine.detach().double() - theirs.detach().double()).abs().nan_to_num(0.0) if mine.numel() else None
        worst = max(worst, float(difference.max()) if difference is not None else 0.0)
    return (
        f"✓ check: same as eager, largest difference {worst:.2g}" if worst else "✓ check: equal to eager in every bit"
    )


def _pairs(found: Any, expected: Any) -> Any:
    torch = late.torch()
    if isinstance(found, torch.Tensor) and isinstance(expected, torch.Tensor):
        yield found, expected
    elif isinstance(found, dict) and isinstance(expected, dict):
        for key in found.keys() & expected.keys():
            yield from _pairs(found[key], expected[key])
    elif isinstance(found, list | tuple) and isinstance(expected, list | tuple):
        for mine, theirs in zip(found, expected, strict=False):
            yield from _pairs(mine, theirs)
