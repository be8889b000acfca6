#include "compiler/constants/PackPanels.h"
#include "compiler/constants/StridedCopy.h"
#include <algorithm>
#include <cstring>

namespace knapper {
namespace {

/// Rows of B are contiguous: reads a few rows from end to end, writes a short
/// run into each panel.
template <typename T>
void packRows(T *out, const T *in, const PanelSource &s, int64_t width,
              int64_t begin, int64_t end) {
  constexpr int64_t rows = 16;
  for (int64_t k0 = 0; k0 < s.k; k0 += rows) {
    int64_t k1 = std::min(k0 + rows, s.k);
    for (int64_t p = begin; p < end; ++p) {
      int64_t count = std::min(width, s.n - p * width);
      for (int64_t k = k0; k < k1; ++k) {
        T *to = out + (p * s.k + k) * width;
        std::memcpy(to, in + k * s.kStride + p * width, count * sizeof(T));
        std::fill(to + count, to + width, T{0});
      }
    }
  }
}

/// Any strides; fast when columns of B are contiguous: a cache line of each
/// column is spread over the rows of a block that stays in the first cache.
template <typename T>
void packColumns(T *out, const T *in, const PanelSource &s, int64_t width,
                 int64_t begin, int64_t end) {
  constexpr int64_t depth = 64 / sizeof(T);
  for (int64_t p = begin; p < end; ++p) {
    int64_t count = std::min(width, s.n - p * width);
    const T *panel = in + p * width * s.nStride;
    for (int64_t k0 = 0; k0 < s.k; k0 += depth) {
      int64_t rows = std::min(depth, s.k - k0);
      T *to = out + (p * s.k + k0) * width;
      const T *from = panel + k0 * s.kStride;
      if (s.kStride == 1 && rows == depth) {
        for (int64_t j = 0; j < count; ++j)
          for (int64_t k = 0; k < depth; ++k)
            to[k * width + j] = from[j * s.nStride + k];
      } else {
        for (int64_t j = 0; j < count; ++j)
          for (int64_t k = 0; k < rows; ++k)
            to[k * width + j] = from[j * s.nStride + k * s.kStride];
      }
      for (int64_t k = 0; k < rows; ++k)
        std::fill(to + k * width + count, to + (k + 1) * width, T{0});
    }
  }
}

/// Groups of rows, any strides: a block of rows and columns at a time, so that
/// both sides of it stay in the first cache. `known`: the group, if not 0.
template <typename T, int64_t known>
void packGroups(T *out, const T *in, const PanelSource &s, int64_t width,
                int64_t anyGroup, int64_t begin, int64_t end) {
  const int64_t group = known ? known : anyGroup;
  constexpr int64_t depth = 64;
  int64_t groups = (s.k + group - 1) / group;
  for (int64_t p = begin; p < end; ++p) {
    int64_t count = std::min(width, s.n - p * width);
    const T *panel = in + p * width * s.nStride;
    T *to = out + p * groups * group * width;
    std::fill(to, to + groups * group * width, T{0});
    for (int64_t k0 = 0; k0 < s.k; k0 += depth)
      for (int64_t j = 0; j < count; ++j)
        for (int64_t k = k0; k < std::min(k0 + depth, s.k); ++k)
          to[(k / group * width + j) * group + k % group] =
              panel[k * s.kStride + j * s.nStride];
  }
}

} // namespace

uint64_t packedPanelBytes(int64_t k, int64_t n, int64_t width, DType dtype,
                          int64_t group) {
  return static_cast<uint64_t>((n + width - 1) / width) *
         ((k + group - 1) / group * group) * width * byteSize(dtype);
}

void packPanels(void *out, const PanelSource &source, int64_t width,
                DType dtype, unsigned threads, int64_t group) {
  if (source.k == 0 || source.n == 0)
    return;
  int64_t panels = (source.n + width - 1) / width;
  int64_t panelBytes = source.k * width * int64_t(byteSize(dtype));
  auto as = [&]<typename T>(T) {
    splitRange(panels, (1 << 19) / panelBytes + 1, threads,
               [&](int64_t begin, int64_t end) {
                 using U = Unaligned<T>;
                 if (group > 1) {
                   auto pack = group == 2   ? packGroups<U, 2>
                               : group == 4 ? packGroups<U, 4>
                                            : packGroups<U, 0>;
                   return pack(static_cast<U *>(out),
                               static_cast<const U *>(source.data), source,
                               width, group, begin, end);
                 }
                 auto pack = source.nStride == 1 ? packRows<U> : packColumns<U>;
                 pack(static_cast<U *>(out),
                      static_cast<const U *>(source.data), source, width, begin,
                      end);
               });
  };
  withWord(byteSize(dtype), as);
}

void packNibbles(void *out, const PanelSource &s, int64_t width,
                 unsigned threads) {
  if (s.k == 0 || s.n == 0)
    return;
  int64_t panels = (s.n + width - 1) / width, pairs = (s.k + 1) / 2;
  const auto *in = static_cast<const uint8_t *>(s.data);
  splitRange(panels, (1 << 19) / (pairs * width) + 1, threads,
             [&](int64_t begin, int64_t end) {
               for (int64_t p = begin; p < end; ++p) {
                 int64_t count = std::min(width, s.n - p * width);
                 const uint8_t *panel = in + p * width * s.nStride;
                 uint8_t *to = static_cast<uint8_t *>(out) + p * pairs * width;
                 std::fill(to, to + pairs * width, uint8_t(0));
                 for (int64_t k = 0; k < s.k; ++k)
                   for (int64_t j = 0; j < count; ++j)
                     to[k / 2 * width + j] |= static_cast<uint8_t>(
                         (panel[k * s.kStride + j * s.nStride] & 15)
                         << (k % 2 * 4));
               }
             });
}

} // namespace knapper
