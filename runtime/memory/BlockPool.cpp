#include "runtime/memory/BlockPool.h"

#include "runtime/base/Checked.h"

#include <algorithm>
#include <bit>

namespace knapper {
namespace {

/// Sizes in steps of about an eighth, so that nearby sizes share blocks.
uint64_t sizeClass(uint64_t bytes) {
  if (bytes <= 4096 || bytes > uint64_t(1) << 47)
    return bytes;
  return alignUp(bytes, std::max<uint64_t>(4096, std::bit_floor(bytes) / 8));
}

} // namespace

Expected<Block> BlockPool::take(uint64_t bytes) {
  if (bytes == 0)
    return Block();
  {
    std::lock_guard lock(mutex);
    size_t best = free.size();
    for (size_t i = 0; i < free.size(); ++i)
      if (free[i].bytes() >= bytes && free[i].bytes() / 4 <= bytes + 16384 &&
          (best == free.size() || free[i].bytes() < free[best].bytes()))
        best = i;
    if (best != free.size()) {
      Block block = std::move(free[best]);
      free[best] = std::move(free.back());
      free.pop_back();
      freeTotal -= block.bytes();
      taken += block.bytes();
      mostTaken = std::max(mostTaken, taken);
      return block;
    }
  }
  Expected<Block> block = Block::allocate(sizeClass(bytes));
  if (block) {
    std::lock_guard lock(mutex);
    if (free.capacity() == blocks)
      free.reserve(std::max<size_t>(2 * blocks, 8));
    ++blocks;
    taken += block->bytes();
    mostTaken = std::max(mostTaken, taken);
  }
  return block;
}

void BlockPool::give(Block block) noexcept {
  if (block.bytes() == 0)
    return;
  std::unique_lock lock(mutex);
  taken -= block.bytes();
  freeTotal += block.bytes();
  free.push_back(std::move(block)); // take() made room
  while (taken + freeTotal > 2 * mostTaken) {
    auto smallest = std::min_element(
        free.begin(), free.end(),
        [](const Block &a, const Block &b) { return a.bytes() < b.bytes(); });
    freeTotal -= smallest->bytes();
    std::swap(*smallest, free.back());
    Block evicted = std::move(free.back());
    free.pop_back();
    --blocks;
    lock.unlock(); // nobody waits for the system to take it back
    evicted = Block();
    lock.lock();
  }
}

uint64_t BlockPool::freeBytes() const {
  std::lock_guard lock(mutex);
  return freeTotal;
}

} // namespace knapper
