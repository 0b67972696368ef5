"""Reducing a block in C: how each kind starts, takes in a block, and ends.

Sums of float32 run in 64 lanes over blocks and across blocks in double: accurate to about one rounding, and the same
for any number of threads, since no order depends on them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dynajit.codegen.c_text import F32, F64, PRELUDE

BLOCK = 512


@dataclass(frozen=True)
class Kind:
    """accumulator: C type of the running value; start: its first value; block: function of (m, values); merge: template
    of running value {0} and block result {1}; empty: may it run over no elements.
    """

    accumulator: str
    start: str
    block: str
    merge: str


def kind_of(kind: str, dtype: torch.dtype) -> Kind:
    """The row for a reduction of values of a dtype (float32, float64, int64 or bool)."""
    if dtype == torch.bool:
        return Kind("int", "0" if kind == "any" else "1", f"{kind}_b", "{0} | {1}" if kind == "any" else "{0} & {1}")
    suffix = {F32: "f32", F64: "f64"}.get(dtype, "i64")
    type_ = {F32: "float", F64: "double"}.get(dtype, "long")
    if kind in ("sum", "total"):
        wide = "double" if dtype == F32 else type_
        return Kind(wide, "0", f"sum_{suffix}", "{0} + {1}")
    name = f"{kind}_{suffix}"
    if kind == "prod":
        return Kind(type_, "1", name, "{0} * {1}")
    infinity = {F32: "__builtin_inff()", F64: "__builtin_inf()"}.get(dtype)
    if infinity is not None:
        pair = {F32: "_", F64: "_d"}[dtype]
        return Kind(type_, f"-{infinity}" if kind == "max" else infinity, name, f"{kind}{pair}({{0}}, {{1}})")
    limit = "(-9223372036854775807L - 1)" if kind == "max" else "9223372036854775807L"
    compare = ">" if kind == "max" else "<"
    return Kind(type_, limit, name, f"{{0}} {compare} {{1}} ? {{0}} : {{1}}")


def _sum(suffix: str, type_: str) -> str:
    return f"""INLINE {type_} sum_{suffix}(long m, const {type_} *v) {{
  {type_} lane[64] = {{0}}, total = 0;
  long j = 0;
  for (; j + 64 <= m; j += 64)
    for (int k = 0; k < 64; k++) lane[k] += v[j + k];
  for (int k = 0; j + k < m; k++) lane[k] += v[j + k];
  for (int w = 32; w; w /= 2)
    for (int k = 0; k < w; k++) lane[k] += lane[k + w];
  total = lane[0];
  return total;
}}"""


def _product(suffix: str, type_: str) -> str:
    return f"""INLINE {type_} prod_{suffix}(long m, const {type_} *v) {{
  {type_} total = 1;
#pragma omp simd reduction(*:total)
  for (long j = 0; j < m; j++) total *= v[j];
  return total;
}}"""


def _extreme(kind: str, suffix: str, type_: str, start: str, compare: str) -> str:
    nan = "" if type_ == "long" else " nan |= v[j] != v[j];"
    flag = "" if type_ == "long" else " reduction(|:nan)"
    last = "best" if type_ == "long" else f'nan ? __builtin_nan{"f" if type_ == "float" else ""}("") : best'
    return f"""INLINE {type_} {kind}_{suffix}(long m, const {type_} *v) {{
  {type_} best = {start};
  int nan = 0;
#pragma omp simd reduction({kind}:best){flag}
  for (long j = 0; j < m; j++) {{ best = v[j] {compare} best ? v[j] : best;{nan} }}
  return {last};
}}"""


for _suffix, _type in (("f32", "float"), ("f64", "double"), ("i64", "long")):
    PRELUDE[f"sum_{_suffix}"] = (_sum(_suffix, _type), ())
    PRELUDE[f"prod_{_suffix}"] = (_product(_suffix, _type), ())
    for _kind, _compare in (("max", ">"), ("min", "<")):
        _start = {"float": "__builtin_inff()", "double": "__builtin_inf()", "long": "9223372036854775807L"}[_type]
        _start = _start if _kind == "min" else "(-9223372036854775807L - 1)" if _type == "long" else f"-{_start}"
        PRELUDE[f"{_kind}_{_suffix}"] = (_extreme(_kind, _suffix, _type, _start, _compare), ())
for _kind, _start, _combine in (("any", "0", "|"), ("all", "1", "&")):
    PRELUDE[f"{_kind}_b"] = (
        f"""INLINE int {_kind}_b(long m, const int *v) {{
  int found = {_start};
#pragma omp simd reduction({_combine}:found)
  for (long j = 0; j < m; j++) found {_combine}= v[j];
  return found;
}}""",
        (),
    )
