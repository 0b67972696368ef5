"""Mathematical functions over blocks in C: adapters from `void f(long m, const T *x, T *y)` to what libtorch_cpu holds.

Eager has two ways to a transcendental. Operations of vml.h go through MKL's vector library where torch was built with
it; vectorised kernels (sigmoid, softmax ...) go through SLEEF. Calling the same functions gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

MKL_MODE = 0x140102  # VML_HA | VML_FTZDAZ_OFF | VML_ERRMODE_IGNORE, as aten/src/ATen/cpu/vml.h passes


@dataclass(frozen=True)
class Function:
    """name: how kernels call it, e.g. `exp_vml_f32`. symbol: what to look up. lanes: elements of a SLEEF vector; 0: MKL."""

    name: str
    symbol: str
    lanes: int

    def text(self, slot: int) -> str:
        type_ = "double" if self.name.endswith("f64") else "float"
        head = f"static void {self.name}(long m, const {type_} *x, {type_} *y) {{\n"
        if not self.lanes:
            call = f"((void (*)(int, const {type_} *, {type_} *, long long))functions[{slot}])((int)m, x, y, {MKL_MODE:#x});"
            return f"{head}  {call}  /* {self.symbol} */\n}}"
        width = self.lanes * (8 if type_ == "double" else 4)
        return f"""{head}  typedef {type_} vector __attribute__((vector_size({width})));
  vector (*const f)(vector) = functions[{slot}];  /* {self.symbol} */
  for (long j = 0; j < m; j += {self.lanes}) {{
    const long bytes = (m - j < {self.lanes} ? m - j : {self.lanes}) * (long)sizeof *x;
    vector v = {{0}};
    if (bytes == sizeof v) __builtin_memcpy(&v, x + j, sizeof v);
    else __builtin_memcpy(&v, x + j, bytes);
    v = f(v);
    if (bytes == sizeof v) __builtin_memcpy(y + j, &v, sizeof v);
    else __builtin_memcpy(y + j, &v, bytes);
  }}
}}"""
