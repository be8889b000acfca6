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
        size(std::exchange(other.size, 0)) {}
  Block &operator=(Block &&other) noexcept {
    std::swap(base, other.base);
    std::swap(size, other.size);
    return *this;
  }
  ~Block();

  void *data() const { return base; }
  /// At least what was asked for.
  uint64_t bytes() const { return size; }

private:
  void *base = nullptr;
  uint64_t size = 0;
};

} // namespace knapper
