"""The public functions: compile, disable, is_compiling, graph_break, reset, explain, profile, report."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from dynajit import content, frame, summary, tracebacks
from dynajit.building import observe_frames
from dynajit.caching.store import Store, default_root
from dynajit.compile import on_miss
from dynajit.errors import OptionError
from dynajit.exporting import Exported
from dynajit.exporting import export as _export
from dynajit.markers import graph_break, is_compiling
from dynajit.marks import (
    DISABLED,
    allow_in_graph,
    assume_constant_result,
    disallow_in_graph,
    mark_dynamic,
    mark_function,
    mark_static,
)  # fmt: skip
from dynajit.options import Options, intern
from dynajit.records import all_records, forget, known, record_of
from dynajit.report import Report
from dynajit.stance import run, set_stance, switched_off

F = TypeVar("F", bound=Callable[..., Any])

frame.configure(torch)
frame.set_code_equal(content.same_code)
frame.set_traceback_fixer(tracebacks.clean)
frame.set_observer(observe_frames)
frame.set_reducer(lambda compiled: compiled.__qualname__)  # found again by its name, as functions are


def compile(
    fn: Any = None,
    *,
    backend: str | Callable[..., Any] = "auto",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    numerics: str = "eager",
    build: str = "sync",
    limit: int = 16,
) -> Any:
    """Compile a function, a method or a module: it is captured when it is first called.

    Use it as a decorator, with or without options, or as a call. A function gives a callable that behaves as the
    function; a module is returned itself, with its `forward` compiled, so `isinstance`, `state_dict` keys, hooks and
    pickling stay as they are.

    backend: `"auto"`, `"native"`, `"eager"`, another registered name, or a callable
    `(GraphModule, example_inputs) -> callable`. fullgraph: a graph break is an error that names the line and what to
    try. dynamic, numerics, build, limit: see `dynajit.options.Options`.

    With `DYNAJIT_DISABLE=1` in the environment everything is returned as it is.

    Raises `OptionError` (a ValueError) for an option that does not exist, `TypeError` for what cannot be compiled.
    """
    options = intern(Options(backend, fullgraph, dynamic, numerics, build, limit))
    summary.check_backend(options)
    if fn is None:
        return functools.partial(_unless_off, options=options)
    return _unless_off(fn, options=options)


def _unless_off(fn: Any, *, options: Options) -> Any:
    return fn if switched_off() else _compile(fn, options=options)


def _compile(fn: Any, *, options: Options) -> Any:
    if isinstance(fn, frame.Dispatcher):
        fn = fn.__wrapped__
    if isinstance(fn, nn.Module):
        return _compile_module(fn, options)
    if isinstance(fn, types.MethodType):
        return types.MethodType(_compile(fn.__func__, options=options), fn.__self__)
    if isinstance(fn, staticmethod | classmethod):
        return type(fn)(_compile(fn.__func__, options=options))
    if isinstance(fn, type):
        if issubclass(fn, nn.Module) and isinstance(fn.__dict__.get("forward"), types.FunctionType):
            fn.forward = _compile(fn.__dict__["forward"], options=options)
            return fn
        raise TypeError(f"cannot compile the class {fn.__qualname__}: only nn.Module classes with a forward method")
    if isinstance(fn, types.FunctionType):
        record_of(fn.__code__).explicit = True
        frame.skip(fn.__code__, False)
        return frame.Dispatcher(fn, options, on_miss)
    if callable(fn) and not isinstance(fn, types.BuiltinFunctionType):
        call = type(fn).__call__
        if isinstance(call, types.FunctionType):
            return types.MethodType(_compile(call, options=options), fn)
    if callable(fn):
        return _compile(_python_wrapper(fn), options=options)
    raise TypeError(f"cannot compile a {type(fn).__name__}: it is not callable")


def _python_wrapper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Builtins have no frame: give them one."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return call


def _compile_module(module: nn.Module, options: Options) -> nn.Module:
    """`module.forward` becomes a compiled bound method in the instance's own dict."""
    forward: Any = inspect.getattr_static(type(module), "forward", None)
    static = isinstance(forward, staticmethod)
    forward = forward.__func__ if static else forward
    if isinstance(forward, frame.Dispatcher):
        forward = forward.__wrapped__
    if not isinstance(forward, types.FunctionType):
        raise TypeError(f"cannot compile {type(module).__qualname__}: its forward is not a Python function")
    compiled = _compile(forward, options=options)
    module.__dict__["forward"] = compiled if static else types.MethodType(compiled, module)
    return module


def disable(fn: F) -> F:
    """Run `fn` as it is, also when compiled code calls it. Its own callees may still be captured."""
    target = fn.__wrapped__ if isinstance(fn, frame.Dispatcher) else fn
    mark_function(target, DISABLED)
    if isinstance(target, types.FunctionType):
        frame.skip(target.__code__)
    return target  # type: ignore[return-value]


def _unwrap(fn: Any) -> types.FunctionType | None:
    if isinstance(fn, nn.Module):
        fn = fn.forward
    if isinstance(fn, types.MethodType):
        fn = fn.__func__
    if isinstance(fn, frame.Dispatcher):
        fn = fn.__wrapped__
    return fn if isinstance(fn, types.FunctionType) else None


def reset(fn: Any = None) -> None:
    """Forget the entries of `fn`, or of everything: it is captured anew when it is called again."""
    if fn is None:
        for record in all_records():
            forget(record)
        content.clear()
        return
    function = _unwrap(fn)
    if function is None:
        raise TypeError(f"{fn!r} is not a compiled function")
    found = known(function.__code__)
    if found is not None:
        forget(found)
    content.forget_code(function.__code__)


def report(fn: Any, source: Sequence[str] | None = None) -> Report:
    """What happened to a compiled function so far, as data: `print` it, or read its fields.

    `source`: the lines of the function, for one whose text Python cannot find.
    """
    function = _unwrap(fn)
    if function is None:
        raise TypeError(f"{fn!r} is not a compiled function")
    return summary.summarise(function, source)


def profile(fn: Any, repeat: int = 20) -> Callable[..., Report]:
    """`profile(fn)(*args)`: call the compiled `fn` with these arguments `repeat` times, each of its kernels timed.

    The kernels of its report then say how long a launch took.
    """
    function = _unwrap(fn)
    if function is None:
        raise TypeError(f"{fn!r} is not a compiled function")

    def run(*args: Any, **kwargs: Any) -> Report:
        summary.profile(function, lambda: fn(*args, **kwargs), repeat)
        return report(fn)

    return run


def cache_dir() -> Path:
    """The folder where built kernels are kept: `$DYNAJIT_CACHE_DIR`, else a folder of the user's."""
    return default_root()


def clear_cache() -> int:
    """Remove all kernels from that folder; returns how many files there were. What is loaded stays loaded."""
    return Store().clear()


def resources(fn: Any, target: str = "sm_90", names: Collection[str] | None = None) -> dict[str, tuple[Any, ...]]:
    """Registers, spills, shared memory and assembler text of the compiled `fn`'s Triton kernels, by their names.

    They are compiled for `target` ("sm_80", "sm_90", "gfx942"), which need not be here; Triton must be installed.
    """
    function = _unwrap(fn)
    if function is None:
        raise TypeError(f"{fn!r} is not a compiled function")
    known = {kernel.name for kernel in report(fn).kernels}
    return summary.resources(function, known if names is None else names, target)


def edit_kernel(fn: Any, name: str, text: str) -> int:
    """Run a C kernel of the compiled `fn` by another text until `reset(fn)`; in how many graphs.

    Raises `ToolchainError` if the text cannot be built: then nothing has changed. What the text computes is nobody's
    care but yours.
    """
    function = _unwrap(fn)
    if function is None:
        raise TypeError(f"{fn!r} is not a compiled function")
    return summary.edit_kernel(function, name, text)


def explain(fn: Any) -> Callable[..., Report]:
    """`explain(fn)(*args)`: call `fn` with these arguments under a compiler of its own and report what was captured.

    The function is run once; entries that it has already are neither used nor changed.
    """
    function = _unwrap(fn)
    if function is None:
        raise TypeError(f"{fn!r} is not a function or module")

    def run(*args: Any, **kwargs: Any) -> Report:
        bound = fn if isinstance(fn, types.MethodType | nn.Module) else None
        owner = [bound] if isinstance(bound, nn.Module) else [bound.__self__] if bound is not None else []
        return summary.explain(function, (*owner, *args), kwargs)

    return run


def export(fn: Any, *args: Any, **kwargs: Any) -> Exported:
    """The whole of `fn` as a `torch.fx.GraphModule` that takes its arguments, and the guards under which that is right.

    The function is called once with these arguments. Sizes and other values that it reads are those of this call.
    Tensors that are not arguments (weights, globals) become parameters and buffers of the module; Python side effects
    are not part of it. Raises `CompileError`, with the line, where the graph breaks.
    """
    function = _unwrap(fn)
    if function is None:
        raise TypeError(f"{fn!r} is not a function or module")
    bound = fn if isinstance(fn, types.MethodType | nn.Module) else None
    owner = [bound] if isinstance(bound, nn.Module) else [bound.__self__] if bound is not None else []
    return _export(function, owner, args, kwargs)


__all__ = [
    "OptionError",
    "allow_in_graph",
    "assume_constant_result",
    "cache_dir",
    "clear_cache",
    "compile",
    "disable",
    "disallow_in_graph",
    "edit_kernel",
    "explain",
    "export",
    "graph_break",
    "is_compiling",
    "mark_dynamic",
    "mark_static",
    "report",
    "reset",
    "resources",
    "run",
    "set_stance",
]
