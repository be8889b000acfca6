#include "runtime/numeric/Rows.h"

#include <cstring>

#define KNAPPER_INLINE [[gnu::always_inline]] inline

namespace knapper::numeric {
namespace {

template <int lanes>
using Vector [[gnu::vector_size(lanes * sizeof(double))]] = double;

/// A tile of `registers` vectors, which stay where they are for all rows.
template <int lanes, int registers>
KNAPPER_INLINE void tile(double *y, const double *x, int64_t stride,
                         const double *f, int64_t step, int64_t count) {
  Vector<lanes> sums[registers];
  memcpy(sums, y, sizeof(sums));
  for (int64_t t = 0; t < count; ++t) {
    double factor = f[t * step];
    for (int r = 0; r < registers; ++r) {
      Vector<lanes> each;
      memcpy(&each, x + t * stride + r * lanes, sizeof(each));
      sums[r] -= factor * each;
    }
  }
  memcpy(y, sums, sizeof(sums));
}

template <int lanes, int registers>
KNAPPER_INLINE void tiles(int64_t &at, double *y, int64_t n, const double *x,
                          int64_t stride, const double *f, int64_t step,
                          int64_t count) {
  for (; at + lanes * registers <= n; at += lanes * registers)
    tile<lanes, registers>(y + at, x + at, stride, f, step, count);
}

template <int lanes>
KNAPPER_INLINE void subtract(double *y, int64_t n, const double *x,
                             int64_t stride, const double *f, int64_t step,
                             int64_t count) {
  int64_t at = 0;
  tiles<lanes, 8>(at, y, n, x, stride, f, step, count);
  tiles<lanes, 4>(at, y, n, x, stride, f, step, count);
  tiles<lanes, 2>(at, y, n, x, stride, f, step, count);
  tiles<lanes, 1>(at, y, n, x, stride, f, step, count);
  if constexpr (lanes > 4)
    tiles<4, 1>(at, y, n, x, stride, f, step, count);
  if constexpr (lanes > 2)
    tiles<2, 1>(at, y, n, x, stride, f, step, count);
  for (; at < n; ++at)
    for (int64_t t = 0; t < count; ++t)
      y[at] -= f[t * step] * x[t * stride + at];
}

using Subtract = void(double *, int64_t, const double *, int64_t,
                      const double *, int64_t, int64_t);

void subtractV1(double *y, int64_t n, const double *x, int64_t stride,
                const double *f, int64_t step, int64_t count) {
  subtract<2>(y, n, x, stride, f, step, count);
}
[[gnu::target("avx2,fma")]] void subtractV3(double *y, int64_t n,
                                            const double *x, int64_t stride,
                                            const double *f, int64_t step,
                                            int64_t count) {
  subtract<4>(y, n, x, stride, f, step, count);
}
[[gnu::target("avx2,fma,avx512f")]] void
subtractV4(double *y, int64_t n, const double *x, int64_t stride,
           const double *f, int64_t step, int64_t count) {
  subtract<8>(y, n, x, stride, f, step, count);
}

Subtract *choose() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return subtractV1;
  return __builtin_cpu_supports("avx512f") ? subtractV4 : subtractV3;
}

} // namespace

void subtractRows(double *y, int64_t n, const double *x, int64_t stride,
                  const double *f, int64_t step, int64_t count) {
  static Subtract *const chosen = choose();
  chosen(y, n, x, stride, f, step, count);
}

} // namespace knapper::numeric
