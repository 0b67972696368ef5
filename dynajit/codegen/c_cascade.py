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
OUTLINE void sum_block_{suffix}(struct sum_{suffix} *s, long m, const {type_} *v) {{
  enum {{ width = {wide} }};
  const long mask = (1L << s->power) - 1;
  long j = 0;
  while (j + width <= m && s->row < s->rows) {{
    {type_} lane[width];
    long last = s->row + (m - j) / width;
    last = last < (s->row | mask) + 1 ? last : (s->row | mask) + 1;
    last = last < s->rows ? last : s->rows;
    for (int k = 0; k < width; k++) lane[k] = s->level[0][k];
    for (; s->row < last; s->row++, j += width)
      for (int k = 0; k < width; k++) lane[k] += v[j + k];
    for (int k = 0; k < width; k++) s->level[0][k] = lane[k];
    for (int l = 1; l < 4 && !(s->row & mask); l++) {{
      for (int k = 0; k < width; k++) s->level[l][k] += s->level[l - 1][k], s->level[l - 1][k] = 0;
      if (s->row & (mask << (l * s->power))) break;
    }}
  }}
  for (int k = 0; j + k < m; k++) s->rest[k] = v[j + k];
}}
OUTLINE {type_} sum_end_{suffix}(const struct sum_{suffix} *s) {{
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


WIDE = 1024  # columns that one thread goes down together: a page of float32, so that pages are read as a whole


def _columns(suffix: str, type_: str) -> str:
    vector = 32 // (8 if type_ == "double" else 4)
    return f"""\
/* Sums down neighbouring columns (SumKernel.cpp, vectorized_outer_sum). Whole groups of four vectors add up row
   after row, and every few rows their sums move up a level; what is left over adds up every fourth row. */
struct columns_{suffix} {{
  long rows, body, wide, power, power4;
  {type_} level[4][{WIDE}], left[4][4][{4 * vector}], rest[3][{4 * vector}];
}};
OUTLINE void columns_start_{suffix}(struct columns_{suffix} *s, long rows, long start, long m, long n) {{
  const long unit = n < {vector} ? 4 : {4 * vector}, body = n / unit * unit - start;
  s->rows = rows;
  s->body = body < 0 ? 0 : body < m ? body : m;
  s->wide = m;
  s->power = sum_power(rows);
  s->power4 = sum_power(rows / 4);
  for (int l = 0; l < 4; l++) {{
    for (long j = 0; j < s->body; j++) s->level[l][j] = 0;
    for (int k = 0; k < 4; k++)
      for (long j = 0; j < m - s->body; j++) s->left[l][k][j] = 0;
  }}
}}
OUTLINE void columns_up_{suffix}(long n, {type_} *level, long apart, long row, long power) {{
  for (int l = 1; l < 4; l++) {{
    for (long j = 0; j < n; j++) level[l * apart + j] += level[(l - 1) * apart + j], level[(l - 1) * apart + j] = 0;
    if (row & (((1L << power) - 1) << (l * power))) break;
  }}
}}
OUTLINE void columns_row_{suffix}(struct columns_{suffix} *s, long row, const {type_} *v) {{
  const long left = s->wide - s->body;
#pragma omp simd
  for (long j = 0; j < s->body; j++) s->level[0][j] += v[j];
  if (!(row + 1 & ((1L << s->power) - 1))) columns_up_{suffix}(s->body, s->level[0], {WIDE}, row + 1, s->power);
  if (!left) return;
  if (row >= s->rows / 4 * 4) {{
    for (long j = 0; j < left; j++) s->rest[row % 4][j] = v[s->body + j];
    return;
  }}
  for (long j = 0; j < left; j++) s->left[0][row % 4][j] += v[s->body + j];
  if (row % 4 == 3 && !(row / 4 + 1 & ((1L << s->power4) - 1)))
    columns_up_{suffix}({16 * vector}, s->left[0][0], {16 * vector}, row / 4 + 1, s->power4);
}}
OUTLINE void columns_end_{suffix}(struct columns_{suffix} *s, {type_} *sum) {{
  for (long j = 0; j < s->body; j++) sum[j] = s->level[0][j] + s->level[1][j] + s->level[2][j] + s->level[3][j] + 0;
  for (long j = 0; j < s->wide - s->body; j++) {{
    {type_} part[4];
    for (int k = 0; k < 4; k++)
      part[k] = s->left[0][k][j] + s->left[1][k][j] + s->left[2][k][j] + s->left[3][k][j];
    for (long row = s->rows / 4 * 4; row < s->rows; row++) part[0] += s->rest[row % 4][j];
    sum[s->body + j] = part[0] + part[1] + part[2] + part[3] + 0;
  }}
}}"""


PRELUDE["sum_power"] = (
    """/* after how many rows, as a power of two, running sums move up a level */
static long sum_power(long n) {
  const long power = n > 1 ? (64 - __builtin_clzl(n - 1)) / 4 : 0;
  return power > 4 ? power : 4;
}""",
    (),
)
PRELUDE["columns_f32"] = (_columns("f32", "float"), ("sum_power",))
PRELUDE["columns_f64"] = (_columns("f64", "double"), ("sum_power",))
PRELUDE["columns_each"] = (
    f"""/* how many of n neighbouring columns a thread goes down together */
static long columns_each(long n) {{
  const long threads = omp_get_max_threads(), each = ((n + threads - 1) / threads + 127) / 128 * 128;
  return each < {WIDE} ? each : {WIDE};
}}""",
    (),
)
