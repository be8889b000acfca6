// The inner loops of factorisations, by what the processor has. Thread-safe.
#pragma once

#include <cstdint>

namespace knapper::numeric {

/// y [n] less the sum over t < count of f[t * step] times row t of x, which has
/// n numbers, `stride` from one row to the next. y is no part of x or f. Sums
/// are in the order of t and, where the processor can, fused.
void subtractRows(double *y, int64_t n, const double *x, int64_t stride,
                  const double *f, int64_t step, int64_t count);

} // namespace knapper::numeric
