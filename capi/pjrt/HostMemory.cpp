#include "capi/pjrt/HostMemory.h"
#include <algorithm>
#include <bit>
#include <cstdlib>

namespace knapper::pjrt {

namespace {

constexpr size_t kAlignment = 64;
constexpr int64_t kKeptBytes = int64_t(512) << 20;

/// Few sizes: eight between a power of two and the next.
size_t rounded(size_t bytes) {
  if (bytes > SIZE_MAX / 2)
    throw std::bad_alloc();
  size_t step = std::max(kAlignment, std::bit_ceil(bytes + 1) / 16);
  return (std::max<size_t>(bytes, 1) + step - 1) / step * step;
}

} // namespace

HostMemory::~HostMemory() { drop(); }

void HostMemory::drop() {
  for (auto &[size, blocks] : free)
    for (void *block : blocks)
      std::free(block);
  free.clear();
  counts.kept = 0;
}

void *HostMemory::take(size_t bytes) {
  size_t size = rounded(bytes);
  std::lock_guard lock(mutex);
  void *data = nullptr;
  if (auto found = free.find(size);
      found != free.end() && !found->second.empty()) {
    data = found->second.back();
    found->second.pop_back();
    counts.kept -= static_cast<int64_t>(size);
  } else {
    data = std::aligned_alloc(kAlignment, size);
    if (!data && counts.kept) { // what is kept may be what is missing
      drop();
      data = std::aligned_alloc(kAlignment, size);
    }
    if (!data)
      throw std::bad_alloc();
  }
  counts.inUse += static_cast<int64_t>(size);
  counts.peak = std::max(counts.peak, counts.inUse);
  counts.largest = std::max(counts.largest, static_cast<int64_t>(size));
  ++counts.allocations;
  return data;
}

void HostMemory::giveBack(void *data, size_t bytes) noexcept {
  size_t size = rounded(bytes);
  std::lock_guard lock(mutex);
  counts.inUse -= static_cast<int64_t>(size);
  if (counts.kept + static_cast<int64_t>(size) <= kKeptBytes) {
    try {
      free[size].push_back(data);
      counts.kept += static_cast<int64_t>(size);
      return;
    } catch (const std::bad_alloc &) {
    }
  }
  std::free(data);
}

HostMemoryStats HostMemory::stats() const {
  std::lock_guard lock(mutex);
  return counts;
}

HostBlock::HostBlock(std::shared_ptr<HostMemory> given, size_t bytes)
    : memory(given->take(bytes)), bytes(bytes), host(std::move(given)) {}

HostBlock::HostBlock(void *data, std::shared_ptr<Completion> released)
    : memory(data), released(std::move(released)) {}

HostBlock::HostBlock(void *data, void (*deleter)(void *, void *),
                     void *argument)
    : memory(data), deleter(deleter), argument(argument) {}

HostBlock::~HostBlock() {
  if (host)
    host->giveBack(memory, bytes);
  if (released)
    released->complete();
  if (deleter)
    deleter(memory, argument);
}

} // namespace knapper::pjrt
