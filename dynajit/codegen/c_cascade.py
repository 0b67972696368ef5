"""Eager's order of additions along a row (ATen/native/cpu/SumKernel.cpp, vectorized_inner_sum), block by block.

Four vectors of 32 bytes side by side (that kernel is not registered for AVX-512); every 16 rows of them, more for long
sums, the running sums move up one of four levels. Accurate, the same for any number of threads, and the same bits as
`torch.sum` over a contiguous last dimension.
"""

from __future__ import annotations

from dynajit.codegen.c_text import PRELUDE


def _text(suffix: str, type_: str) -> str:
    wide = 4 * 32 // (8 if type_ == "double" else 4)
    return f"""struct sum_{suffix} {{
  long n, rows, row, power;
  {type_} level[4][{wide}], rest[{wide}];
}};
INLINE void sum_start_{suffix}(struct sum_{suffix} *s, long n) {{
  const long width = {wide};
  s->n = n;
  s->row = 0;
  s->rows = n / (width / 4) / 4;
  s->power = s->rows > 1 ? (64 - __builtin_clzl(s->rows - 1)) / 4 : 0;
  s->power = s->power > 4 ? s->power : 4;
  for (int l = 0; l < 4; l++)
    for (int k = 0; k < width; k++) s->level[l][k] = 0;
}}
/* blocks are whole rows of lanes, but for the last */
static void sum_block_{suffix}(struct sum_{suffix} *s, long m, const {type_} *v) {{
  enum {{ width = {wide} }};
  {type_} lane[width];
  long j = 0;
  for (int k = 0; k < width; k++) lane[k] = s->level[0][k];
  for (; j + width <= m && s->row < s->rows; j += width) {{
    for (int k = 0; k < width; k++) lane[k] += v[j + k];
    s->row++;
    if (s->row & ((1L << s->power) - 1)) continue;
    for (int l = 1; l < 4; l++) {{
      {type_} *const from = l == 1 ? lane : s->level[l - 1];
      for (int k = 0; k < width; k++) s->level[l][k] += from[k], from[k] = 0;
      if (s->row & (((1L << s->power) - 1) << (l * s->power))) break;
    }}
  }}
  for (int k = 0; k < width; k++) s->level[0][k] = lane[k];
  for (int k = 0; j + k < m; k++) s->rest[k] = v[j + k];
}}
static {type_} sum_end_{suffix}(const struct sum_{suffix} *s) {{
  enum {{ width = {wide}, lanes = width / 4 }};
  const long rest = s->n - s->rows * width;
  {type_} part[width], total = 0;
  if (s->n < lanes) {{ /* too short for a vector: the same with single elements for vectors */
    for (int k = 0; k < 4; k++) part[k] = 0;
    for (long k = 0; k < s->n / 4 * 4; k++) part[k % 4] += s->rest[k];
    for (long k = s->n / 4 * 4; k < s->n; k++) part[0] += s->rest[k];
    return part[0] + part[1] + part[2] + part[3] + 0;
  }}
  for (int k = 0; k < width; k++) part[k] = s->level[0][k] + s->level[1][k] + s->level[2][k] + s->level[3][k];
  for (long v = 0; v < rest / lanes; v++)
    for (int k = 0; k < lanes; k++) part[k] += s->rest[v * lanes + k];
  for (int v = 1; v < 4; v++)
    for (int k = 0; k < lanes; k++) part[k] += part[v * lanes + k];
  for (long k = rest / lanes * lanes; k < rest; k++) total += s->rest[k];
  for (int k = 0; k < lanes; k++) total += part[k];
  return total + 0;
}}"""


PRELUDE["cascade_f32"] = (_text("f32", "float"), ())
PRELUDE["cascade_f64"] = (_text("f64", "double"), ())
