"""`%%compile` as an input transformer: its first line becomes a call on the same line, the rest stays the editor's.

Line numbers, `await`, other magics, the last value and tracebacks are then those of a plain cell. A second step, on
the tree, puts the interceptor in front of what the cell defines at its top level.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

CALL = "__compile_cell__"
"""The name of the session's hook among the builtins of a cell."""

_FIRST = re.compile(r"%%compile(?![\w?])(.*)")
_RAW = frozenset({"triton", "numba", "jax", "cuda", "cupy", "jit", "njit", "vectorize"})
"""Decorators of compilers that need the plain function."""


class TextStep:
    """lines -> lines; `keep(lines)` remembers the text of the cell and returns its key."""

    has_side_effects = True  # a terminal must not ask it whether a cell is complete

    def __init__(self, keep: Callable[[list[str]], str]) -> None:
        self.keep = keep

    def __call__(self, lines: list[str]) -> list[str]:
        found = _FIRST.match(lines[0]) if lines else None
        if found is None:
            return lines
        key = self.keep([line.rstrip("\n") for line in lines])
        return [f"{CALL}({key!r}, {found[1].strip()!r})\n", *lines[1:]]


class TreeStep(ast.NodeTransformer):
    """Functions get a decorator; lambdas and other values bound to one name pass through a call."""

    def visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, ast.Module):
            return node
        at = next((i for i, item in enumerate(node.body) if _is_hook(item)), None)
        if at is None:
            return node
        hook = node.body.pop(at)
        names = _Definitions()
        node.body = [names.visit(item) for item in node.body]
        assert isinstance(hook, ast.Expr)
        assert isinstance(hook.value, ast.Call)
        defined: list[ast.expr] = [ast.Constant(name) for name in names.found]
        hook.value.args.append(ast.Tuple(defined, ast.Load()))
        node.body.insert(_after_future(node.body, at), hook)
        return ast.fix_missing_locations(node)


def _is_hook(item: ast.stmt) -> bool:
    call = item.value if isinstance(item, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == CALL


def _after_future(body: list[ast.stmt], at: int) -> int:
    """`from __future__ import ...` must stay the first statement."""
    future = [i for i, item in enumerate(body) if isinstance(item, ast.ImportFrom) and item.module == "__future__"]
    return max(future) + 1 if future else at


class _Definitions(ast.NodeTransformer):
    """Walks statements of the module, also in `if`, `with` and `try`, but not into functions and classes."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._decorated(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._decorated(node)

    def _decorated(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self.found.append(node.name)
        if not any(_words(decorator) & _RAW for decorator in node.decorator_list):
            node.decorator_list.append(_located(_method("function"), node))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.found.append(node.name)
        node.decorator_list.insert(
            0, _located(_method("klass"), node.decorator_list[0] if node.decorator_list else node)
        )
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Name):
            node.value = self._passed(target.id, node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if isinstance(node.target, ast.Name) and node.value is not None:
            node.value = self._passed(node.target.id, node.value)
        return node

    def _passed(self, name: str, value: ast.expr) -> ast.expr:
        if not isinstance(
            value, ast.Lambda | ast.Call | ast.Await | ast.Name | ast.Attribute | ast.Subscript | ast.IfExp
        ):
            return value
        self.found.append(name)
        kind = ast.Constant(isinstance(value, ast.Lambda))
        return _located(ast.Call(_method("value"), [ast.Constant(name), kind, value], []), value)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return node


def _method(name: str) -> ast.expr:
    return ast.Attribute(ast.Name(CALL, ast.Load()), name, ast.Load())


def _located(new: ast.expr, old: ast.AST) -> ast.expr:
    for node in (new, *(child for child in ast.walk(new) if not hasattr(child, "lineno"))):
        ast.copy_location(node, old)
    return new


def _words(decorator: ast.expr) -> set[str]:
    return {
        word
        for node in ast.walk(decorator)
        for word in (
            [node.id] if isinstance(node, ast.Name) else [node.attr] if isinstance(node, ast.Attribute) else []
        )
    }
