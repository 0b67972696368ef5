void k0_mul_softmax(void *const *p, const long *z, const union number *s)
{
  const float *const x = p[0];
  float *restrict const out = p[1];
  const long n0 = z[0];
  const long n1 = z[1];
  const long x_0 = z[2];
  const long out_0 = z[4];
  const long rows = n0;
#pragma omp parallel for schedule(static) if(rows > 1 && rows * n1 > 6241)
  for (long r = 0; r < rows; r++) {
    float *const softmax3_row = out + r * out_0;
    // line 3: softmax = ...
    float softmax = -__builtin_inff();
    for (long start = 0, m; start < n1; start += m) {
      m = n1 - start < 512 ? n1 - start : 512;
      const float *const x_at = x + r * x_0 + start;
      float mul_b[512];
#pragma omp simd
      for (long j = 0; j < m; j++) {
        const float x_v = x_at[j];
        // line 2: mul = ...
        const float mul = x_v * 0.5f;
        mul_b[j] = mul;
      }
      // line 3: softmax = ...
      softmax = max_(softmax, max_f32(m, mul_b));
    }
    // line 3: softmax = ...
    float softmax4 = 0;
    struct sum_f32 softmax4_sum;
    sum_start_f32(&softmax4_sum, n1);
    for (long start = 0, m; start < n1; start += m) {
      m = n1 - start < 512 ? n1 - start : 512;
      const float *const x_at = x + r * x_0 + start;
      float *const softmax3_at = softmax3_row + start;
      float softmax2_b[512];
#pragma omp simd
      for (long j = 0; j < m; j++) {
        const float x_v = x_at[j];
        // line 2: mul = ...
        const float mul = x_v * 0.5f;
        // line 3: softmax = ...
        const float softmax2 = mul - softmax;
        softmax2_b[j] = softmax2;
      }
      // line 3: softmax = ...
      exp_sleef_f32(m, softmax2_b, softmax3_at);
      sum_block_f32(&softmax4_sum, m, softmax3_at);
    }
    // line 3: softmax = ...
    softmax4 = softmax4 + sum_end_f32(&softmax4_sum);
    for (long start = 0, m; start < n1; start += m) {
      m = n1 - start < 512 ? n1 - start : 512;
      float *const softmax3_at = softmax3_row + start;
      float *const out_at = out + r * out_0 + start;
#pragma omp simd
      for (long j = 0; j < m; j++) {
        // line 3: softmax = ...
        const float softmax3 = softmax3_at[j];
        const float softmax5 = softmax3 / softmax4;
        out_at[j] = softmax5;
      }
    }
  }
}
