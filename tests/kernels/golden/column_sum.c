void k0_mul_sum(void *const *p, const long *z, const union number *s)
{
  const float *const x = p[0];
  float *restrict const out = p[1];
  const long n0 = z[0];
  const long n1 = z[1];
  const long x_1 = z[3];
  const long each = columns_each(n0), tiles = (n0 + each - 1) / each;
#pragma omp parallel for schedule(static) if(n0 * n1 > 32768)
  for (long r = 0; r < tiles; r++) {
    const long start = r % tiles * each;
    const long m = n0 - start < each ? n0 - start : each;
    // line 3: sum_1 = ...
    float sum1[1024];
    struct columns_f32 sum1_sum;
    columns_start_f32(&sum1_sum, n1, start, m, n0);
    for (long i1 = 0; i1 < n1; i1++) {
      const float *const x_at = x + start + i1 * x_1;
      float mul_b[1024];
#pragma omp simd
      for (long j = 0; j < m; j++) {
        const float x_v = x_at[j];
        // line 2: mul = ...
        const float mul = x_v * 2.0f;
        mul_b[j] = mul;
      }
      // line 3: sum_1 = ...
      columns_row_f32(&sum1_sum, i1, mul_b);
    }
    // line 3: sum_1 = ...
    columns_end_f32(&sum1_sum, sum1);
    float *const out_at = out + start;
#pragma omp simd
    for (long j = 0; j < m; j++) {
      const float copy = sum1[j];
      out_at[j] = copy;
    }
  }
}
