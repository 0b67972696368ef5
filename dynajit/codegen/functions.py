"""Mathematical functions over blocks in C: adapters from `void f(long m, const T *x, T *y)` to what libtorch_cpu holds.

Eager has two ways to a transcendental. Operations of vml.h go through MKL's vector library where torch was built with
it; vectorised kernels (sigmoid, softmax ...) go through SLEEF. Calling the same functions gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

MKL_MODE = 0x140102  # VML_HA | VML_FTZDAZ_OFF | VML_ERRMODE_IGNORE, as aten/src/ATen/cpu/vml.h passes


# What is left over at the end of a thread's part is less than this many vectors (ATen/native/cpu/Loops.h,
# vectorized_loop).
UNROLL = 2


BINARY = frozenset(("fmod", "pow", "atan2", "hypot"))


@dataclass(frozen=True)
class Function:
    """One way to call a mathematical function, e.g. `exp` as "vec" of "f32".

    symbol: what to look up in libtorch_cpu; empty: libm for all elements. lanes: elements of a SLEEF vector; 0 for MKL,
    which takes arrays.
    """

    operation: str
    way: str
    dtype: str
    symbol: str
    lanes: int

    @property
    def name(self) -> str:
        return f"{self.operation}_{self.way}_{self.dtype}"

    @property
    def type(self) -> str:
        return "double" if self.dtype == "f64" else "float"

    @property
    def has_tail(self) -> bool:
        """Does it take the range of elements that libm computes?"""
        return self.way in ("vec", "vech") and self.lanes > 0

    @property
    def period(self) -> int:
        """Elements that eager's loop takes at a time; half vectors hold twice as many."""
        return UNROLL * self.lanes * (2 if self.way == "vech" else 1)

    @property
    def operands(self) -> tuple[str, ...]:
        return ("x", "w") if self.operation in BINARY else ("x",)

    def text(self, slot: int) -> str:
        """C text; `slot` is the place of the symbol in the table of functions."""
        c_name = self.operation + ("f" if self.type == "float" else "")
        each = ", ".join(f"{operand}[j]" for operand in self.operands)
        parts = []
        if self.has_tail or not self.symbol:
            # By another name: as a builtin, gcc would replace it by code that rounds or treats NaN in another way.
            parts.append(
                f'{self.type} libm_{c_name}({", ".join([self.type] * len(self.operands))}) __asm__("{c_name}");'
            )
        parts.append(self._head() + " {")
        if not self.symbol:
            parts.append(f"  for (long j = 0; j < m; j++) y[j] = libm_{c_name}({each});")
        elif not self.lanes:
            parts.append(f"  void (*const f)(int, const {self.type} *, {self.type} *, long long) = functions[{slot}];")
            parts.append(f"  f((int)m, x, y, {MKL_MODE:#x});  /* {self.symbol} */")
        else:
            parts.append(self._vectors(slot))
            if self.has_tail:
                parts.append(f"  for (long j = from; j < to; j++) y[j] = libm_{c_name}({each});")
        return "\n".join([*parts, "}"])

    def _head(self) -> str:
        tail = ", long from, long to" if self.has_tail else ""
        operands = ", ".join(f"const {self.type} *{operand}" for operand in self.operands)
        return f"static void {self.name}(long m, {operands}, {self.type} *y{tail})"

    def _vectors(self, slot: int) -> str:
        width = self.lanes * (8 if self.type == "double" else 4)
        vectors = [f"v{operand}" for operand in self.operands]
        lines = [
            f"typedef {self.type} vector __attribute__((vector_size({width})));",
            f"vector (*const f)({', '.join(['vector'] * len(vectors))}) = functions[{slot}];  /* {self.symbol} */",
            f"vector {', '.join(f'{v} = {{0}}' for v in vectors)};",
            "long j = 0;",
            f"for (; j + {self.lanes} <= m; j += {self.lanes}) {{",
            *self._step(vectors, "sizeof vx"),
            "}",
            "if (j < m) {",
            *self._step(vectors, "(m - j) * sizeof *x"),
            "}",
        ]
        return "\n".join("  " + line for line in lines)

    def _step(self, vectors: list[str], size: str) -> list[str]:
        loads = [f"  __builtin_memcpy(&v{operand}, {operand} + j, {size});" for operand in self.operands]
        return [*loads, f"  vx = f({', '.join(vectors)});", f"  __builtin_memcpy(y + j, &vx, {size});"]
