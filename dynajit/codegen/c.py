"""The C printer: one function per kernel, for which sizes and strides are arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from dynajit.codegen.c_loops import print_loops
from dynajit.codegen.c_text import REGISTER, STORAGE
from dynajit.codegen.c_tile import Tiles
from dynajit.codegen.functions import Function
from dynajit.codegen.kernel import Kernel, Lookup
from dynajit.lower.ir import Origin


@dataclass(frozen=True)
class CKernel:
    """text: the function; bare: without comments. origins: of the text's lines. prelude, functions: what it needs of
    its file.
    """

    name: str
    text: str
    bare: str
    origins: tuple[Origin | None, ...]
    prelude: frozenset[str]
    functions: tuple[str, ...]


def print_kernel(kernel: Kernel, name: str, find: Callable[[str], Function | None], fast: bool = False) -> CKernel:
    """One kernel as a C function of pointers `p`, sizes and strides `z`, and the graph's numbers `s`.

    `find` gives a mathematical function by name. fast: functions may be inlined, and halves are rounded only where they
    are stored. Raises NoSpelling for what cannot be printed.
    """
    tiles = Tiles(kernel, find, fast)
    text = tiles.text
    text.add(f"void {name}(void *const *p, const long *z, const union number *s)")
    with text.block(""):
        _arguments(tiles)
        print_loops(tiles)
    functions = tuple(sorted(tiles.functions))
    return CKernel(name, "\n".join(text.lines), text.bare, tuple(text.origins), frozenset(tiles.prelude), functions)


def _arguments(tiles: Tiles) -> None:
    """Names for pointers, sizes, strides and numbers."""
    kernel, text, names = tiles.kernel, tiles.text, tiles.names
    pointers = [names["in", i] for i in range(len(kernel.inputs))]
    pointers += [names["out", i] for i in range(len(kernel.outputs))]
    loaded = {stmt.arg for stmt in kernel.body if stmt.op == "load"}
    loaded |= {stmt.arg.operand for stmt in kernel.body if isinstance(stmt.arg, Lookup)}
    for i, operand in enumerate(kernel.inputs):
        if i in loaded:
            text.add(f"const {STORAGE[operand.dtype]} *const {pointers[i]} = p[{i}];")
    for i, operand in enumerate(kernel.outputs, len(kernel.inputs)):
        text.add(f"{STORAGE[operand.dtype]} *restrict const {pointers[i]} = p[{i}];")
    for i in range(len(kernel.loops)):
        text.add(f"const long n{i} = z[{i}];")
    for k, operand in enumerate(kernel.operands, 1):
        for i, step in enumerate(operand.steps):
            if step is None:
                text.add(f"const long {pointers[k - 1]}_{i} = z[{k * len(kernel.loops) + i}];")
    if kernel.checks:
        text.add(f"long *const flag = (long *)z + {kernel.flag};")
    at = kernel.flag + 1
    for i, operand in enumerate(kernel.inputs):
        for d in operand.picked:
            stride = "1" if d in operand.units else f"z[{at}]"
            text.add(f"const long {pointers[i]}_step{d} = {stride}, {pointers[i]}_rows{d} = z[{at + 1}];")
            at += 2
    for stmt in kernel.body:
        if stmt.op == "extent":
            assert isinstance(stmt.arg, tuple)
            tiles.known[stmt.serial] = f"{pointers[stmt.arg[0]]}_rows{stmt.arg[1]}"
        if stmt.op == "scalar":
            member = "i" if stmt.dtype == torch.int64 else "f"
            text.add(f"const {REGISTER[stmt.dtype]} {names[stmt.serial]} = s[{stmt.arg}].{member};")
            tiles.known[stmt.serial] = names[stmt.serial]
        elif stmt.op == "count":
            assert isinstance(stmt.arg, frozenset)
            product = " * ".join(f"n{i}" for i in sorted(stmt.arg)) or "1"
            text.add(f"const {REGISTER[stmt.dtype]} {names[stmt.serial]} = {product};")
            tiles.known[stmt.serial] = names[stmt.serial]
    if any(tiles.is_function(stmt) and tiles.function(stmt).has_tail for stmt in kernel.body):
        text.add(f"const long total = {' * '.join(f'n{i}' for i in range(len(kernel.loops)))};")
        text.add("const long part = eager_part(total);")
        tiles.prelude.add("eager_part")
