// Host memory for arenas, outputs and scratch.
#pragma once

#include "runtime/base/Error.h"

#include <cstdint>
#include <utility>

namespace knapper {

/// An owned range of memory, aligned to 64 bytes; from 2 MiB on aligned to
/// 2 MiB and offered to the system for huge pages. Contents undefined.
class Block {
public:
  Block() = default;
  /// Out of memory is a DeviceError. bytes == 0 gives an empty block.
  static Expected<Block> allocate(uint64_t bytes);
  Block(Block &&other) noexcept
      : base(std::exchange(other.base, nullptr)),
        size(std::exchange(other.size, 0)),
        touched(std::exchange(other.touched, false)) {}
  Block &operator=(Block &&other) noexcept {
    std::swap(base, other.base);
    std::swap(size, other.size);
    std::swap(touched, other.touched);
    return *this;
  }
  ~Block();

  void *data() const { return base; }
  /// At least what was asked for.
  uint64_t bytes() const { return size; }
  /// Makes the system give a large block its pages now, by several threads. For
  /// blocks that one thread fills, such as a copy from a device. Call it before
  /// anything is in the block; later calls do nothing. Cannot fail: where a
  /// thread cannot start, the others do its part. Not thread-safe.
  void touch();

private:
  void *base = nullptr;
  uint64_t size = 0;
  bool touched = false;
};

} // namespace knapper
