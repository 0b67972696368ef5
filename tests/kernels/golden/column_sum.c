void k0_mul_sum(void *const *p, const long *z, const union number *s)
{
  const float *const x = p[0];
  float *restrict const out = p[1];
  const long n0 = z[0];
  const long n1 = z[1];
  const long x_1 = z[3];
  const long tiles = (n0 + 127) / 128;
#pragma omp parallel for schedule(static) if(n0 * n1 > 32768)
  for (long r = 0; r < tiles; r++) {
    const long start = r % tiles * 128;
    const long m = n0 - start < 128 ? n0 - start : 128;
    // line 3: sum_1 = ...
    double sum1[128];
    for (long j = 0; j < m; j++) sum1[j] = 0;
    for (long first = 0; first < n1; first += 64) {
      const long last = n1 - first < 64 ? n1 : first + 64;
      // line 3: sum_1 = ...
      float sum1_few[128];
      for (long j = 0; j < m; j++) sum1_few[j] = 0;
      for (long i1 = first; i1 < last; i1++) {
        const float *const x_at = x + start + i1 * x_1;
        float mul_b[512];
#pragma omp simd
        for (long j = 0; j < m; j++) {
          const float x_v = x_at[j];
          // line 2: mul = ...
          const float mul = x_v * 2.0f;
          mul_b[j] = mul;
        }
#pragma omp simd
        // line 3: sum_1 = ...
        for (long j = 0; j < m; j++) sum1_few[j] = sum1_few[j] + mul_b[j];
      }
      // line 3: sum_1 = ...
      for (long j = 0; j < m; j++) sum1[j] += sum1_few[j];
    }
    float *const out_at = out + start;
#pragma omp simd
    for (long j = 0; j < m; j++) {
      const float copy = (float)sum1[j];
      out_at[j] = copy;
    }
  }
}
