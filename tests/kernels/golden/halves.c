void k0_mul_add_relu(void *const *p, const long *z, const union number *s)
{
  const unsigned short *const x = p[0];
  const unsigned short *const y = p[1];
  unsigned short *restrict const out = p[2];
  const long n0 = z[0];
  const long n1 = z[1];
  const long x_0 = z[2];
  const long out_0 = z[6];
  const long n = n0 * n1;
#pragma omp parallel if(n > 10922)
  {
    long lo, hi;
    share(n, &lo, &hi);
    for (long i = lo, m, start = lo % n1, row = lo / n1; i < hi; i += m, start += m) {
      if (start == n1) start = 0, row++;
      m = n1 - start < hi - i ? n1 - start : hi - i;
      const unsigned short *const x_at = x + row * x_0 + start;
      const unsigned short *const y_at = y + start;
      unsigned short *const out_at = out + row * out_0 + start;
#pragma omp simd
      for (long j = 0; j < m; j++) {
        const float x_v = from_bf16(x_at[j]);
        // line 3: mul = ...
        const float mul = (float)x_v;
        const float y_v = from_bf16(y_at[j]);
        const float mul2 = (float)y_v;
        const float mul3 = mul * mul2;
        const float mul4 = round_bf16(mul3);
        // line 4: add = ...
        const float add = (float)mul4;
        const float add2 = add + 1.0f;
        const float add3 = round_bf16(add2);
        // line 5: relu = ...
        const float relu = (float)add3;
        const float relu2 = max_(0.0f, relu);
        const float relu3 = round_bf16(relu2);
        out_at[j] = to_bf16(relu3);
      }
    }
  }
}
