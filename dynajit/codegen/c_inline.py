"""Mathematical functions as straight-line C that the compiler inlines and vectorises, for numerics="fast".

Polynomials fitted for float32; largest errors in ulp: exp 1.0, tanh 1.3, erf 2.4. NaN, infinities and denormals come
out right; the last bits differ from eager's.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynajit.codegen.c_text import PRELUDE


def _horner(variable: str, coefficients: Sequence[float]) -> str:
    lines = [f"  float p = {coefficients[0]!r}f;"]
    lines += [f"  p = __builtin_fmaf(p, {variable}, {c!r}f);" for c in coefficients[1:]]
    return "\n".join(lines)


_EXP = (0.001381446490995586, 0.008368780836462975, 0.04166839271783829, 0.1666651964187622, 0.4999999403953552)
_TANH = (-0.005717036779969931, 0.020650578662753105, -0.05374349653720856, 0.13331490755081177, -0.3333328366279602)
_ERF_NEAR = (
    *(8.345225069206208e-05, -0.0008137437398545444, 0.005200634244829416, -0.02685927040874958),
    *(0.11283694207668304, -0.37612634897232056, 1.128379225730896),
)
_ERF_FAR = (
    *(-5.22008235748217e-07, -1.4309594916994683e-05, 0.00039669673424214125, -0.004053465556353331),
    *(0.024895239621400833, -0.10801199078559875, -0.6335434317588806, -1.1294341087341309, 0.00016040629998315126),
)

PRELUDE["fast_exp"] = (
    f"""INLINE float power_of_two(int n) {{
  union {{ int i; float f; }} u = {{(n + 127) << 23}};
  return u.f;
}}
INLINE float fast_exp(float x) {{
  const float y = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x;  /* NaN passes */
  const float k = __builtin_rintf(y * 1.44269504088896341f);
  const float r = __builtin_fmaf(k, -1.42860677e-6f, __builtin_fmaf(k, -0.693145751953125f, y));
{_horner("r", _EXP)}
  p = __builtin_fmaf(p, r * r, r) + 1.0f;
  const int n = (int)k, half = n >> 1;  /* in two steps, so that denormals and overflow come out right */
  return p * power_of_two(half) * power_of_two(n - half);
}}""",
    (),
)
PRELUDE["fast_tanh"] = (
    f"""INLINE float fast_tanh(float x) {{
  const float a = __builtin_fabsf(x), z = x * x;
{_horner("z", _TANH)}
  const float near = __builtin_fmaf(p * z, x, x), far = 1.0f - 2.0f / (fast_exp(a + a) + 1.0f);
  return __builtin_copysignf(a < 0.625f ? __builtin_fabsf(near) : far, x);
}}""",
    ("fast_exp",),
)
PRELUDE["fast_erf"] = (
    f"""INLINE float erf_near(float x, float z) {{
{_horner("z", _ERF_NEAR)}
  return p * x;
}}
INLINE float fast_erf(float x) {{
  const float a = __builtin_fabsf(x), c = a > 4.0f ? 4.0f : a;
{_horner("c", _ERF_FAR)}
  const float far = __builtin_copysignf(1.0f - fast_exp(p), x);
  return a < 0.921875f ? erf_near(x, x * x) : (a != a ? x : far);
}}""",
    ("fast_exp",),
)

# erf(x) / x as a fraction of polynomials in x * x, up to |x| = 4.
_ERF_ABOVE = (
    *(1.986783672691672e-06, 0.0002845659328158945, 0.003883342258632183),
    *(0.05310174077749252, 0.19354501366615295, 1.1283791065216064),
)
_ERF_BELOW = (
    *(3.7420191802084446e-05, 0.0011855708435177803, 0.015207246877253056),
    *(0.11534997820854187, 0.5048573613166809, 1.0),
)
PRELUDE["gelu_erf"] = (
    f"""/* off by 3e-7 at most, as little as one function can be for all x without a branch */
INLINE float erf_above(float z) {{
{_horner("z", _ERF_ABOVE)}
  return p;
}}
INLINE float erf_below(float z) {{
{_horner("z", _ERF_BELOW)}
  return p;
}}
INLINE float gelu_erf(float x) {{
  const float c = x > 4.0f ? 4.0f : x < -4.0f ? -4.0f : x, z = c * c;  /* NaN passes */
  const float y = c * erf_above(z) / erf_below(z);
  return y > 1.0f ? 1.0f : y < -1.0f ? -1.0f : y;
}}""",
    (),
)

INLINED = {
    "erf inline": "gelu_erf({0})",
    "exp": "fast_exp({0})",
    "tanh": "fast_tanh({0})",
    "erf": "fast_erf({0})",
    "sqrt": "__builtin_sqrtf({0})",
}
