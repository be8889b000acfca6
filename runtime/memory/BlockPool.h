// Reused memory: fresh pages at each call cost more than most kernels.
#pragma once

#include "runtime/memory/Block.h"

#include <mutex>
#include <vector>

namespace knapper {

/// Hands out blocks and keeps returned ones for the next caller. Holds, free
/// and taken together, at most twice the most bytes that were ever taken at
/// once. Thread-safe.
class BlockPool {
public:
  /// A block of at least `bytes`: the smallest kept one that is not far too
  /// large, else a new one. Out of memory is a DeviceError.
  Expected<Block> take(uint64_t bytes);
  /// Takes back a block of this pool; needs no memory, so that whatever ends
  /// may give its blocks back.
  void give(Block block) noexcept;
  uint64_t freeBytes() const;

private:
  mutable std::mutex mutex;
  std::vector<Block> free; // few: searched linearly; has room for all `blocks`
  size_t blocks = 0;       // given out or free
  uint64_t freeTotal = 0;
  uint64_t taken = 0;
  uint64_t mostTaken = 0;
};

} // namespace knapper
