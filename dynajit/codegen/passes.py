"""How often a row has to be walked: a reduction of something that depends on another reduction needs a further pass."""

from __future__ import annotations

from dynajit.codegen.kernel import Kernel, Stmt


class Passes:
    """Reductions by the pass that computes them; outputs and values by the pass after which they are known."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.after: dict[int, int] = {}
        self.first: dict[int, int] = {}  # the pass that computes a value which later passes read again
        self.reduces: list[list[Stmt]] = []
        for stmt in kernel.body:
            below = max((self.after[serial] for serial in stmt.sources), default=0)
            if stmt.op == "reduce":
                self.reduces += [[] for _ in range(below + 1 - len(self.reduces))]
                self.reduces[below].append(stmt)
                below += 1
            self.after[stmt.serial] = below
        self.count = max([len(self.reduces), *(self.after[serial] + 1 for serial, _ in kernel.stores)])

    @property
    def is_single(self) -> bool:
        """Is each element read once, and nothing of a row stored?"""
        return len(self.reduces) == 1 and not any(self.is_full(k) for _, k in self.kernel.stores)

    def stores(self, step: int, full: bool) -> list[tuple[int, int]]:
        """(serial, output) pairs that can be stored in pass `step`; full: elements of rows, else whole rows' values."""
        return [(s, k) for s, k in self.kernel.stores if self.after[s] == step and self.is_full(k) == full]

    def is_full(self, k: int) -> bool:
        steps = self.kernel.outputs[k].steps
        return any(step != 0 and i in self.kernel.reduced for i, step in enumerate(steps))

    def row_values(self, step: int) -> list[Stmt]:
        """Values of the row as a whole that the passes before `step` made computable."""
        return [
            stmt
            for stmt in self.kernel.body
            if not stmt.vary & self.kernel.reduced and self.after[stmt.serial] == step and stmt.op != "reduce"
        ]

    def needs(self, step: int) -> set[int]:
        """Everything that pass `step` computes or reads."""
        stack = [serial for serial, _ in self.stores(step, True)]
        stack += [serial for reduce in self.reduces[step : step + 1] for stmt in reduce for serial in stmt.sources]
        stmts = {stmt.serial: stmt for stmt in self.kernel.body}
        found: set[int] = set()
        while stack:
            serial = stack.pop()
            if serial not in found:
                found.add(serial)
                if stmts[serial].op != "reduce":
                    stack.extend(stmts[serial].sources)
        return found
