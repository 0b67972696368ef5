void k0_mul_sum(void *const *p, const long *z, const union number *s)
{
  const float *const x = p[0];
  float *restrict const out = p[1];
  const long n0 = z[0];
  const long rows = 1;
#pragma omp parallel for schedule(static) if(rows > 1 && rows * n0 > 32768)
  for (long r = 0; r < rows; r++) {
    // line 3: sum_1 = ...
    float sum1 = 0;
    struct sum_f32 sum1_sum;
    sum_start_f32(&sum1_sum, n0);
    for (long start = 0, m; start < n0; start += m) {
      m = n0 - start < 512 ? n0 - start : 512;
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
      sum_block_f32(&sum1_sum, m, mul_b);
    }
    // line 3: sum_1 = ...
    sum1 = sum1 + sum_end_f32(&sum1_sum);
    const float copy = sum1;
    out[0] = copy;
  }
}
