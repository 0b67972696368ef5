"""What the commands of `%compile` share: options, calls as expressions, texts of graphs, kernels and the cache."""

from __future__ import annotations

import ast
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel_ext import current
from kernel_ext.arguments import UsageFault, split
from kernel_ext.collapse import NAMED, at_level
from kernel_ext.forms import to_dot, to_html
from kernel_ext.names import kernel_labels, relabelled
from kernel_ext.panels.passes import stages_of
from kernel_ext.picture import draw
from kernel_ext.targets import is_compiled
from kernel_ext.units import size

if TYPE_CHECKING:
    from dynajit.report import KernelReport, Report

SUFFIXES = {"c": ".c", "triton": ".py"}


def options_of(text: str, known: Mapping[str, bool]) -> tuple[list[str], dict[str, str]]:
    """The words of a command, and its options. known: whether an option takes a value."""
    words, found = [], {}
    rest = iter(split(text))
    for word in rest:
        name, equals, value = word.partition("=")
        if name in known:
            if known[name] and not equals:
                value = next(rest, "")
                if not value:
                    raise UsageFault(f"{name} needs a value")
            found[name] = value
        elif word.startswith("-"):
            raise UsageFault(f"there is no option {name}: use {', '.join(known)}")
        else:
            words.append(word)
    return words, found


def number_of(options: Mapping[str, str], name: str, usual: int) -> int:
    value = options.get(name, str(usual))
    if not value.isdigit() or int(value) < 1:
        raise UsageFault(f"{name} needs a number, not {value!r}")
    return int(value)


@dataclass(frozen=True)
class Call:
    """`f(x, y=1)` with everything but the call itself done. made: what is called, if it is compiled."""

    function: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    def __call__(self) -> Any:
        return self.function(*self.args, **self.kwargs)


def parsed_call(text: str, names: Mapping[str, Any], command: str) -> Call:
    """The call of something compiled that an expression is."""
    if not text.strip():
        raise UsageFault(f"{command} needs a call: {command} f(x)")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise UsageFault(f"{text!r} is not an expression: use {command} f(x)") from None
    if not isinstance(tree, ast.Call):
        raise UsageFault(f"{command} needs a call: {command} f(x)")
    function = _value(tree.func, names)
    if not is_compiled(function):
        raise UsageFault(f"{ast.unparse(tree.func)} is not compiled")
    tree.func = ast.Name("__arguments__", ast.Load())
    args, kwargs = _value(tree, {**names, "__arguments__": lambda *args, **kwargs: (args, kwargs)})
    return Call(function, args, kwargs)


def _value(tree: ast.expr, names: Mapping[str, Any]) -> Any:
    return eval(compile(ast.fix_missing_locations(ast.Expression(tree)), "<%compile>", "eval"), dict(names))


# ---- kernels ----
def chosen_kernels(report: Report, label: str, language: str) -> tuple[KernelReport, ...]:
    """Of one short name or all, in one language or all."""
    labels = kernel_labels(report)
    known = list(dict.fromkeys(labels.values()))
    if label and label not in known:
        raise UsageFault(f"{report.name} has no kernel {label!r}" + (f"; it has {', '.join(known)}" if known else ""))
    languages = sorted({kernel.language for kernel in report.kernels})
    if language and language not in languages:
        raise UsageFault(
            f"there is no text in {language!r}" + (f"; there is {', '.join(languages)}" if languages else "")
        )
    return tuple(
        kernel
        for kernel in report.kernels
        if (not label or labels[kernel.name, kernel.graph] == label) and (not language or kernel.language == language)
    )


def save_kernels(kernels: Sequence[KernelReport], folder: str) -> list[str]:
    """One file each; returns their names."""
    home = Path(folder).expanduser()
    home.mkdir(parents=True, exist_ok=True)
    written = []
    for kernel in {(kernel.name, kernel.language): kernel for kernel in kernels}.values():
        path = home / (kernel.name + SUFFIXES.get(kernel.language, ".txt"))
        path.write_text(kernel.source + "\n", encoding="utf-8")
        written.append(str(path))
    return written


def edit_text(report: Report, words: Sequence[str], kernels: Sequence[KernelReport]) -> str:
    """A cell with a copy of a kernel, to be changed and run."""
    if len(words) < 2:
        raise UsageFault("--edit needs a kernel: %compile kernels f k0 --edit")
    found = next((kernel for kernel in kernels if kernel.language == "c" and kernel.launched), None)
    if found is None:
        raise UsageFault(f"{words[1]} of {report.name} has no text in C that runs here")
    return f"%%compile_kernel {words[0]} {words[1]}\n{found.source}"


# ---- graphs ----
def graph_text(report: Report, level: str, step: str) -> str:
    """The graphs as Python, as the boxes of a level, or as the program after a pass."""
    if not report.graphs:
        return f"{report.name}: no graph was captured"
    parts = []
    for graph in report.graphs:
        title = f"# graph {graph.index}, {graph.backend}, ran {graph.calls} times"
        if step:
            stages = dict(stages_of(graph))
            if step not in stages:
                raise UsageFault(f"there is no pass {step!r}; there is {', '.join(stages)}")
            parts.append(f"{title}, {step}\n{stages[step].strip()}\n")
        elif level:
            if level not in NAMED:
                raise UsageFault(f"there is no level {level!r}: use {', '.join(NAMED)}")
            boxes = at_level(report, graph, level)
            rows = [
                f"{box.key}: {box.title}  {box.subtitle}  {box.kernel}  <- {', '.join(box.inputs)}" for box in boxes
            ]
            parts.append("\n".join([f"{title}, by {level}", *rows, ""]))
        else:
            parts.append(f"{title}\n{graph.code.strip()}\n")
    return "\n".join(parts)


def save_graph(report: Report, file: str) -> None:
    """The first graph as a picture or as DOT text, or the whole report as a page."""
    suffix = Path(file).suffix
    if suffix == ".html":
        to_html(report, file)
        return
    if not report.graphs:
        raise UsageFault(f"{report.name} has no graph yet")
    if suffix == ".dot":
        text = to_dot(report)
    elif suffix == ".svg":
        known = relabelled(report, current.label)
        text = draw(at_level(known, known.graphs[0], "op"), f"graph 0 of {report.name}")
    else:
        raise UsageFault(f"{file!r}: the name must end in .svg, .dot or .html")
    Path(file).expanduser().write_text(text, encoding="utf-8")


# ---- the cache on disk ----
def cache_text(compiler: Any, word: str) -> str:
    folder = compiler.cache_dir()
    if word == "path":
        return str(folder)
    if word == "clear":
        return f"{compiler.clear_cache()} kernels' files removed from {folder}"
    if word not in ("", "ls"):
        raise UsageFault(f"there is no 'cache {word}': use cache ls, cache path, cache clear")
    files = sorted(
        (path for path in folder.glob("??/*") if path.suffix in (".so", ".py")), key=lambda p: p.stat().st_mtime
    )
    total = sum(path.stat().st_size for path in folder.glob("??/*") if path.is_file())
    said = [f"{len(files)} libraries of kernels, {size(total)}, in {folder}"]
    if word == "ls":
        for path in files[-40:]:
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime))
            said.append(f"  {when}  {size(path.stat().st_size):>8}  {path.name}")
    return "\n".join(said)
