//===- StridedCopy.h - Rearranging constant data at memory speed ----------===//
//
// Plain memory-bound loops: no MLIR, no allocation. Strides count elements and
// may be 0 or negative.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/DType.h"
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace knapper {

/// An element at any address.
template <typename T> struct __attribute__((packed)) Unaligned {
  T value;
};

/// Calls `body` with an unsigned integer of so many bytes: 1, 2, 4 or 8.
template <typename Body> void withWord(size_t bytes, const Body &body) {
  switch (bytes) {
  case 1:
    return body(uint8_t());
  case 2:
    return body(uint16_t());
  case 4:
    return body(uint32_t());
  case 8:
    return body(uint64_t());
  }
}

/// out[i] = in[i] for all index tuples i of `dims`, each side with its strides.
/// `elementBytes` is 1, 2, 4 or 8; pointers need no alignment. Areas must not
/// overlap. Uses up to
/// `threads` threads when there is enough to do.
void stridedCopy(std::span<const int64_t> dims, const void *in,
                 std::span<const int64_t> inStrides, void *out,
                 std::span<const int64_t> outStrides, size_t elementBytes,
                 unsigned threads);

/// Splits [0, count) into contiguous ranges, one a thread, each but the last a
/// multiple of `grain`; runs `body(begin, end)` on each and waits. On one
/// thread when `count` is at most `grain`.
void splitRange(int64_t count, int64_t grain, unsigned threads,
                const std::function<void(int64_t, int64_t)> &body);

} // namespace knapper
