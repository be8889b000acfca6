//===- PackPanels.h - Constant matrices in the order kernels read them ----===//
#pragma once

#include "runtime/base/DType.h"
#include <cstddef>
#include <cstdint>

namespace knapper {

/// A K x N matrix in memory: element (k, n) is at k*kStride + n*nStride.
/// Strides count elements.
struct PanelSource {
  const void *data; ///< any alignment
  int64_t k, n;
  int64_t kStride, nStride;
};

/// Bytes that packPanels writes: ceil(n / width) * ceil(k / group) * group *
/// width elements. `width` and `group` are positive; the caller has checked
/// that the matmul fits.
uint64_t packedPanelBytes(int64_t k, int64_t n, int64_t width, DType dtype,
                          int64_t group = 1);

/// Writes panels of `width` columns one after the other, each k-major:
/// out[p][k][j] = B[k][p * width + j], zero where p * width + j >= n. This is
/// the layout of `tile.mainloop`'s B (ldb = width, panel stride k * width).
/// With a group g > 1, g rows lie together: out[p][k / g][j][k % g], zero where
/// k is past the end. `out` holds packedPanelBytes(). Uses up to `threads`
/// threads.
void packPanels(void *out, const PanelSource &source, int64_t width,
                DType dtype, unsigned threads, int64_t group = 1);

/// The same for integers of four bits (a byte each in the source), two rows a
/// byte: out[p][k / 2][j] has row k in its low half when k is even, in its high
/// half when it is odd. `out` holds packedPanelBytes() for a byte type of
/// (k + 1) / 2 rows.
void packNibbles(void *out, const PanelSource &source, int64_t width,
                 unsigned threads);

} // namespace knapper
