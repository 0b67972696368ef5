void k0_add_pow_mean_rsqrt_mul(void *const *p, const long *z, const union number *s)
{
  const float *const x = p[0];
  const float *const r2 = p[1];
  const float *const w = p[2];
  float *restrict const out_add = p[3];
  float *restrict const out_mul1 = p[4];
  const long n0 = z[0];
  const long n1 = z[1];
  const long x_0 = z[2];
  const long r2_0 = z[4];
  const long out_add_0 = z[8];
  const long out_mul1_0 = z[10];
  const float count = n1;
  const long rows = n0;
#pragma omp parallel for schedule(static) if(rows > 1 && rows * n1 > 7281)
  for (long r = 0; r < rows; r++) {
    // line 6: mean = ...
    float mean = 0;
    struct sum_f32 mean_sum;
    sum_start_f32(&mean_sum, n1);
    for (long start = 0, m; start < n1; start += m) {
      m = n1 - start < 512 ? n1 - start : 512;
      const float *const x_at = x + r * x_0 + start;
      const float *const r2_at = r2 + r * r2_0 + start;
      float *const out_add_at = out_add + r * out_add_0 + start;
      float pow1_b[512];
#pragma omp simd
      for (long j = 0; j < m; j++) {
        const float x_v = x_at[j];
        const float r2_v = r2_at[j];
        // line 4: add = ...
        const float add = x_v + r2_v;
        // line 5: pow_1 = ...
        const float pow1 = add * add;
        pow1_b[j] = pow1;
        out_add_at[j] = add;
      }
      // line 6: mean = ...
      sum_block_f32(&mean_sum, m, pow1_b);
    }
    // line 6: mean = ...
    mean = mean + sum_end_f32(&mean_sum);
    const float mean2 = mean / count;
    // line 7: add_1 = ...
    const float add1 = mean2 + 1e-06f;
    // line 8: rsqrt = ...
    const float rsqrt = 1.0f / __builtin_sqrtf(add1);
    for (long start = 0, m; start < n1; start += m) {
      m = n1 - start < 512 ? n1 - start : 512;
      const float *const x_at = x + r * x_0 + start;
      const float *const r2_at = r2 + r * r2_0 + start;
      const float *const w_at = w + start;
      float *const out_mul1_at = out_mul1 + r * out_mul1_0 + start;
#pragma omp simd
      for (long j = 0; j < m; j++) {
        const float x_v = x_at[j];
        const float r2_v = r2_at[j];
        // line 4: add = ...
        const float add = x_v + r2_v;
        // line 9: mul = ...
        const float mul = add * rsqrt;
        const float w_v = w_at[j];
        // line 10: mul_1 = ...
        const float mul1 = mul * w_v;
        out_mul1_at[j] = mul1;
      }
    }
  }
}
