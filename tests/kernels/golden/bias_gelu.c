void k0_add_gelu_mul(void *const *p, const long *z, const union number *s)
{
  const float *const x = p[0];
  const float *const b = p[1];
  float *restrict const out = p[2];
  const long n0 = z[0];
  const long n1 = z[1];
  const long x_0 = z[2];
  const long out_0 = z[6];
  const long total = n0 * n1;
  const long part = eager_part(total);
  const long n = n0 * n1;
#pragma omp parallel if(n > 5698)
  {
    long lo, hi;
    share(n, &lo, &hi);
    for (long i = lo, m, start = lo % n1, row = lo / n1; i < hi; i += m, start += m) {
      if (start == n1) start = 0, row++;
      m = n1 - start < hi - i ? n1 - start : hi - i;
      m = m < 512 ? m : 512;
      const float *const x_at = x + row * x_0 + start;
      const float *const b_at = b + start;
      float *const out_at = out + row * out_0 + start;
      float gelu4_b[512];
      float gelu5_b[512];
#pragma omp simd
      for (long j = 0; j < m; j++) {
        const float x_v = x_at[j];
        const float b_v = b_at[j];
        // line 3: add = ...
        const float add = x_v + b_v;
        // line 4: gelu = ...
        const float gelu = add * add;
        const float gelu2 = gelu * add;
        const float gelu3 = __builtin_fmaf(0.044715f, gelu2, add);
        const float gelu4 = 0.7978846f * gelu3;
        const float gelu5 = 0.5f * add;
        gelu4_b[j] = gelu4;
        gelu5_b[j] = gelu5;
      }
      float gelu6_b[512];
      long tail32[2];
      tail(total, part, i, m, 32, tail32, tail32 + 1);
      // line 4: gelu = ...
      tanh_vec_f32(m, gelu4_b, gelu6_b, tail32[0], tail32[1]);
#pragma omp simd
      for (long j = 0; j < m; j++) {
        // line 4: gelu = ...
        const float gelu7 = 1.0f + gelu6_b[j];
        const float gelu8 = gelu5_b[j] * gelu7;
        // line 5: mul = ...
        const float mul = gelu8 * 0.5f;
        out_at[j] = mul;
      }
    }
  }
}
