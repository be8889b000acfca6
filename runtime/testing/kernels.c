/* Kernels for the runtime's tests, with the ABI of runtime/base/KernelAbi.h. A
 * program of the grid is one element unless said. */
typedef long long i64;
typedef struct {
  void *scratch;
  int *status;
  int workerIndex;
  int workers;
} Context;
#define KERNEL(name)                                                           \
  __attribute__((visibility("default"))) void name(                            \
      void *const *buffers, const i64 *symbols, const Context *context,        \
      i64 begin, i64 end)

/* out = in * 2 + 1, f32 */
KERNEL(scale) {
  const float *in = buffers[0];
  float *out = buffers[1];
  for (i64 i = begin; i < end; ++i)
    out[i] = in[i] * 2.0f + 1.0f;
}

/* out = a + b, f32 */
KERNEL(add) {
  const float *a = buffers[0], *b = buffers[1];
  float *out = buffers[2];
  for (i64 i = begin; i < end; ++i)
    out[i] = a[i] + b[i];
}

/* out[row] = sum of in[row][0..n), through scratch; one program a row */
KERNEL(row_sum) {
  const float *in = buffers[0];
  float *out = buffers[1], *partial = context->scratch;
  i64 n = symbols[0];
  for (i64 row = begin; row < end; ++row) {
    for (int k = 0; k < 4; ++k)
      partial[k] = 0;
    for (i64 i = 0; i < n; ++i)
      partial[i % 4] += in[row * n + i];
    out[row] = partial[0] + partial[1] + partial[2] + partial[3];
  }
}

/* out[i] = how many workers share the launch, i32 */
KERNEL(workers) {
  int *out = buffers[0];
  for (i64 i = begin; i < end; ++i)
    out[i] = context->workerIndex < context->workers ? context->workers : -1;
}

/* i64 counter += symbols[0] */
KERNEL(count_up) { *(i64 *)buffers[0] += symbols[0]; }

/* i1 flag = i64 a < i64 b */
KERNEL(less) {
  *(char *)buffers[2] = *(const i64 *)buffers[0] < *(const i64 *)buffers[1];
}

/* i64 count = number of positive in[0..n) */
KERNEL(count_positive) {
  const float *in = buffers[0];
  i64 n = symbols[0], count = 0;
  for (i64 i = 0; i < n; ++i)
    count += in[i] > 0;
  *(i64 *)buffers[1] = count;
}

/* out = the positive of in[0..n) */
KERNEL(keep_positive) {
  const float *in = buffers[0];
  float *out = buffers[1];
  i64 n = symbols[0];
  for (i64 i = 0, k = 0; i < n; ++i)
    if (in[i] > 0)
      out[k++] = in[i];
}

/* out[i] = table[index[i]] with index clamped to [0, symbols[0]) */
KERNEL(gather) {
  const float *table = buffers[0];
  const i64 *index = buffers[1];
  float *out = buffers[2];
  for (i64 i = begin; i < end; ++i) {
    i64 at = index[i];
    if (at < 0 || at >= symbols[0]) {
      *context->status = 1;
      at = 0;
    }
    out[i] = table[at];
  }
}

/* i32: which code this is */
KERNEL(level) {
#ifdef LEVEL_v4
  *(int *)buffers[0] = 4;
#else
  *(int *)buffers[0] = 3;
#endif
}
