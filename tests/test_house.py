"""The rules of the house: who may import whom, nothing hidden in functions, where the Python version may be asked for.

Each rule is a function from a parsed module to complaints. Planted violations at the end show that each one works.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]

LAYERS = [  # a module may import from the lines above its own; names on one line do not import each other
    "reasons events markers",
    "errors",
    "options marks",
    "bytecode frame caching",
    "stance",
    "tracebacks",
    "source lower",
    "symbol",
    "guards schedule",
    "values codegen",
    "trace runtime",
    "graph",
    "evaluate",
    "rewrite backends",
    "report",
    "records",
    "content building misses",
    "compile",
    "summary exporting",
    "api",
    "__init__",
]
RANK = {name: rank for rank, line in enumerate(LAYERS) for name in line.split()}
CAPTURE = frozenset("bytecode frame source symbol guards values trace graph evaluate rewrite".split())
LOWERING = frozenset({"lower", "schedule", "codegen", "runtime", "backends"})
WITHOUT_TORCH = frozenset({"bytecode", "frame", "caching"})
PUBLIC = {"dynajit", *(f"dynajit.{name}" for name in ("events", "report", "reasons", "errors", "options"))}
PEERS = ("torch._dynamo", "torch._inductor")
NOTEBOOK = ("IPython", "ipywidgets")
ADAPTER = Path("dynajit/backends/inductor.py")  # hands a graph to Inductor, and may import it
VERSIONS = Path("dynajit/bytecode/versions")

FILES = sorted(
    path.relative_to(ROOT) for package in ("dynajit", "kernel_ext") for path in (ROOT / package).rglob("*.py")
)


class Import(NamedTuple):
    name: str  # the full name of what is imported: a module, or a name in one
    line: int
    hidden: bool


def imports(tree: ast.Module, path: Path) -> Iterator[Import]:
    inside = {id(node) for function in ast.walk(tree) if is_function(function) for node in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{origin(node, path)}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (Import(name, node.lineno, id(node) in inside) for name in names)


def is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def origin(node: ast.ImportFrom, path: Path) -> str:
    """The full name of the module that is imported from, in the file `path`."""
    if not node.level:
        return node.module or ""
    package = path.parts[: -node.level]
    return ".".join([*package, *(node.module or "").split(".")]).rstrip(".")


def starts(name: str, modules: tuple[str, ...]) -> bool:
    return any(name == module or name.startswith(module + ".") for module in modules)


def layer(name: str) -> str:
    """The part of dynajit that a full name belongs to."""
    part = name.split(".")[1] if "." in name else "__init__"
    return part if part in RANK else "__init__"  # `from dynajit import Options` reads the package itself


# ---- the rules ----


def layers(tree: ast.Module, path: Path) -> Iterator[str]:
    here = path.with_suffix("").parts[1]
    if path.parts[0] != "dynajit":
        return
    if here not in RANK:
        yield f"line 1: {here} has no layer: give it one in tests/test_house.py, and in the design"
        return
    for item in imports(tree, path):
        if not starts(item.name, ("dynajit",)):
            continue
        there = layer(item.name)
        if item.hidden:
            yield f"line {item.line}: {item.name} is imported inside a function"
        if any(here in a and there in b for a, b in itertools.permutations((CAPTURE, LOWERING))):
            yield f"line {item.line}: {here} and {there} are of different towers"
        elif there != here and RANK[there] >= RANK[here]:
            yield f"line {item.line}: {here} may not import {there}"


def foreign(tree: ast.Module, path: Path) -> Iterator[str]:
    forbidden: tuple[str, ...] = PEERS if path.parts[0] == "kernel_ext" else PEERS + NOTEBOOK
    if path == ADAPTER:
        forbidden = tuple(name for name in forbidden if name != "torch._inductor")
    for item in imports(tree, path):
        if starts(item.name, forbidden):
            yield f"line {item.line}: {item.name} is not for us"
        if path.parts[1] in WITHOUT_TORCH and starts(item.name, ("torch",)):
            yield f"line {item.line}: {path.parts[1]} does without torch"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in forbidden:
            yield f"line {node.lineno}: {ast.unparse(node)} is not for us"


def public_only(tree: ast.Module, path: Path) -> Iterator[str]:
    if path.parts[0] != "kernel_ext":
        return
    for item in imports(tree, path):
        module, _, name = item.name.rpartition(".")
        fine = item.name in PUBLIC or (module in PUBLIC and not name.startswith("_"))
        if module == "dynajit":
            fine = item.name in PUBLIC or name in public_names()
        if starts(item.name, ("dynajit",)) and not fine:
            yield f"line {item.line}: {item.name} is not a public name of dynajit"


def public_names() -> list[str]:
    """`dynajit.__all__`, without importing it."""
    for node in ast.parse((ROOT / "dynajit" / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    raise AssertionError("dynajit/__init__.py has no __all__")


def versions(tree: ast.Module, path: Path) -> Iterator[str]:
    if VERSIONS in path.parents:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.alias):
            asked = node.attr if isinstance(node, ast.Attribute) else node.name
            if asked in ("version_info", "hexversion"):
                yield f"line {node.lineno}: the Python version is asked for outside of {VERSIONS}"


def no_global(tree: ast.Module, path: Path) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield f"line {node.lineno}: a module-level variable is reassigned"


RULES = (layers, foreign, public_only, versions, no_global)


def complaints(source: str, path: Path) -> list[str]:
    tree = ast.parse(source)
    return [text for rule in RULES for text in rule(tree, path)]


@pytest.mark.parametrize("path", FILES, ids=str)
def test_house(path: Path) -> None:
    assert complaints((ROOT / path).read_text(), path) == []


def test_python_versions_in_c() -> None:
    """Only the header that picks one of the three asks which Python is compiling."""
    asking = {
        path.name
        for pattern in ("*.c", "*.h")
        for path in (ROOT / "dynajit").rglob(pattern)
        if "PY_VERSION_HEX" in path.read_text()
    }
    assert asking <= {"compat.h"}


@pytest.mark.parametrize(
    ("path", "source", "said"),
    [
        ("dynajit/values/a.py", "from dynajit.evaluate import Machine", "values may not import evaluate"),
        ("dynajit/values/a.py", "import dynajit.evaluate.machine", "values may not import evaluate"),
        ("dynajit/values/a.py", "from dynajit import evaluate", "values may not import evaluate"),
        ("dynajit/values/a.py", "from ..evaluate import machine", "values may not import evaluate"),
        ("dynajit/values/a.py", "from dynajit import compile_it", "values may not import __init__"),
        ("dynajit/frame/a.py", "from dynajit import bytecode", "frame may not import bytecode"),
        ("dynajit/report.py", "from dynajit.compile import x", "report may not import compile"),
        ("dynajit/codegen/a.py", "from dynajit.values import x", "different towers"),
        ("dynajit/rewrite/a.py", "from dynajit.lower.ir import x", "different towers"),
        ("dynajit/values/a.py", "def f():\n    from dynajit.source import x", "inside a function"),
        ("dynajit/values/a.py", "async def f():\n    import dynajit.source", "inside a function"),
        ("dynajit/helpers.py", "", "has no layer"),
        ("dynajit/backends/a.py", "import torch._inductor.compile_fx", "is not for us"),
        ("dynajit/backends/a.py", "import torch\ntorch._dynamo.reset()", "is not for us"),
        ("dynajit/backends/inductor.py", "from torch import _dynamo", "is not for us"),
        ("dynajit/report.py", "import ipywidgets", "is not for us"),
        ("dynajit/report.py", "from IPython.display import HTML", "is not for us"),
        ("kernel_ext/card.py", "import torch._dynamo", "is not for us"),
        ("dynajit/bytecode/a.py", "from torch import Tensor", "does without torch"),
        ("kernel_ext/card.py", "from dynajit.values import base", "not a public name"),
        ("kernel_ext/card.py", "from dynajit import values", "not a public name"),
        ("kernel_ext/card.py", "from dynajit.report import _lines", "not a public name"),
        ("dynajit/frame/a.py", "import sys\nif sys.version_info > (3, 11): pass", "Python version"),
        ("dynajit/frame/a.py", "from sys import version_info", "Python version"),
        ("dynajit/caching/a.py", "def f():\n    global x\n    x = 1", "is reassigned"),
    ],
)
def test_planted_violations_are_found(path: str, source: str, said: str) -> None:
    assert [said in text for text in complaints(source, Path(path))] == [True]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("dynajit/values/a.py", "from dynajit.source import Local\nfrom dynajit.values.base import Value"),
        ("dynajit/values/a.py", "from dynajit import bytecode\nfrom .base import Value"),
        ("dynajit/compile.py", "from dynajit import backends, rewrite"),
        ("dynajit/errors.py", "from dynajit.reasons import Reason"),
        ("dynajit/options.py", "from dynajit.errors import OptionError"),
        ("dynajit/backends/inductor.py", "import torch._inductor.compile_fx"),
        ("dynajit/bytecode/versions/a.py", "import sys\nsys.version_info"),
        (
            "kernel_ext/card.py",
            "import IPython\nfrom dynajit import compile, events\nfrom dynajit.report import Report",
        ),
        ("kernel_ext/card.py", "import dynajit\nfrom kernel_ext.session import Session"),
    ],
)
def test_what_is_allowed(path: str, source: str) -> None:
    assert complaints(source, Path(path)) == []
