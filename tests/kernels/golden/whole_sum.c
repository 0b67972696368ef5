void k0_mul_sum(void *const *p, const long *z, const union number *s)
{
  const float *const x = p[0];
  float *restrict const out = p[1];
  const long n0 = z[0];
  const long rows = 1, parts = (n0 + 16383) / 16384;
  // line 3: sum_1 = ...
  double *const sum1_parts = __builtin_malloc(rows * parts * sizeof(double));
#pragma omp parallel for schedule(static) if(parts > 1 && rows * n0 > 32768)
  for (long c = 0; c < rows * parts; c++) {
    const long r = c / parts, first = c % parts * 16384;
    const long last = n0 - first < 16384 ? n0 : first + 16384;
    // line 3: sum_1 = ...
    double sum1 = 0;
    for (long start = first, m; start < last; start += m) {
      m = last - start < 512 ? last - start : 512;
      const float *const x_at = x + start;
      float mul_b[512];
#pragma omp simd
      for (long j = 0; j < m; j++) {
        const float x_v = x_at[j];
        // line 2: mul = ...
        const float mul = x_v * x_v;
        mul_b[j] = mul;
      }
      // line 3: sum_1 = ...
      sum1 = sum1 + sum_f32(m, mul_b);
    }
    // line 3: sum_1 = ...
    sum1_parts[c] = sum1;
  }
  for (long r = 0; r < rows; r++) {
    // line 3: sum_1 = ...
    double sum1 = 0;
    for (long c = r * parts; c < (r + 1) * parts; c++) sum1 = sum1 + sum1_parts[c];
    const float sum1_r = (float)sum1;
    const float copy = sum1_r;
    out[0] = copy;
  }
  __builtin_free(sum1_parts);
}
