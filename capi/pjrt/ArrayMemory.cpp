#include "capi/pjrt/ArrayMemory.h"
#include <algorithm>
#include <bit>
#include <cstdlib>

namespace knapper::pjrt {

namespace {

constexpr size_t kAlignment = 64;

/// Few sizes: eight between a power of two and the next.
size_t rounded(size_t bytes) {
  if (bytes > SIZE_MAX / 2)
    throw std::bad_alloc();
  size_t step = std::max(kAlignment, std::bit_ceil(bytes + 1) / 16);
  return (std::max<size_t>(bytes, 1) + step - 1) / step * step;
}

} // namespace

ArrayMemory::~ArrayMemory() { drop(); }

/// Null: there is no memory.
void *ArrayMemory::allocate(size_t size) {
  if (!device)
    return std::aligned_alloc(kAlignment, size);
  void *data = nullptr;
  if (knapper_error *error =
          knapper().device_allocate(device.get(), size, &data))
    knapper().error_release(error);
  return data;
}

void ArrayMemory::release(void *data) noexcept {
  if (device)
    knapper().device_free(device.get(), data);
  else
    std::free(data);
}

void ArrayMemory::drop() {
  for (auto &[size, blocks] : free)
    for (void *block : blocks)
      release(block);
  free.clear();
  counts.kept = 0;
}

void *ArrayMemory::take(size_t bytes) {
  size_t size = rounded(bytes);
  std::lock_guard lock(mutex);
  void *data = nullptr;
  if (auto found = free.find(size);
      found != free.end() && !found->second.empty()) {
    data = found->second.back();
    found->second.pop_back();
    counts.kept -= static_cast<int64_t>(size);
  } else {
    data = allocate(size);
    if (!data && counts.kept) { // what is kept may be what is missing
      drop();
      data = allocate(size);
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

bool ArrayMemory::dropKept() {
  std::lock_guard lock(mutex);
  bool any = counts.kept > 0;
  drop();
  return any;
}

void ArrayMemory::giveBack(void *data, size_t bytes, bool mayBeKept) noexcept {
  size_t size = rounded(bytes);
  std::lock_guard lock(mutex);
  counts.inUse -= static_cast<int64_t>(size);
  if (mayBeKept && counts.kept + static_cast<int64_t>(size) <= mostKept) {
    try {
      free[size].push_back(data);
      counts.kept += static_cast<int64_t>(size);
      return;
    } catch (const std::bad_alloc &) {
    }
  }
  release(data);
}

ArrayMemoryStats ArrayMemory::stats() const {
  std::lock_guard lock(mutex);
  return counts;
}

PjrtError *ArrayMemory::write(void *array, const void *host,
                              size_t bytes) const {
  if (device) {
    knapper_error *error =
        knapper().device_write(device.get(), array, host, bytes);
    return error ? fail(error) : nullptr;
  }
  if (bytes) // memcpy takes no null
    memcpy(array, host, bytes);
  return nullptr;
}

PjrtError *ArrayMemory::read(void *host, const void *array,
                             size_t bytes) const {
  if (device) {
    knapper_error *error =
        knapper().device_read(device.get(), host, array, bytes);
    return error ? fail(error) : nullptr;
  }
  if (bytes)
    memcpy(host, array, bytes);
  return nullptr;
}

ArrayBlock::ArrayBlock(std::shared_ptr<ArrayMemory> given, size_t bytes)
    : address(given->take(bytes)), bytes(bytes), memory(std::move(given)) {
  if (!memory->isHost())
    LentBlocks::ofProcess().add(this);
}

ArrayBlock::ArrayBlock(void *data, std::shared_ptr<Completion> released)
    : address(data), released(std::move(released)) {}

ArrayBlock::ArrayBlock(void *data, void (*deleter)(void *, void *),
                       void *argument)
    : address(data), deleter(deleter), argument(argument) {}

ArrayBlock::~ArrayBlock() {
  if (isListed)
    LentBlocks::ofProcess().remove(this);
  // The driver frees memory when the device has done all work.
  if (memory)
    memory->giveBack(address, bytes, /*mayBeKept=*/!isLent);
  if (released)
    released->complete();
  if (deleter)
    deleter(address, argument);
}

LentBlocks &LentBlocks::ofProcess() {
  static auto &blocks = *new LentBlocks; // those that lend may end last
  return blocks;
}

void LentBlocks::add(ArrayBlock *block) {
  std::lock_guard lock(mutex);
  blocks.emplace(block->data(), block);
  block->isListed = true;
}

void LentBlocks::remove(ArrayBlock *block) {
  std::lock_guard lock(mutex);
  auto [at, end] = blocks.equal_range(block->data());
  for (; at != end; ++at)
    if (at->second == block) {
      blocks.erase(at);
      return;
    }
}

std::shared_ptr<ArrayBlock> LentBlocks::find(void *address) {
  std::lock_guard lock(mutex);
  auto [at, end] = blocks.equal_range(address);
  for (; at != end; ++at)
    if (std::shared_ptr<ArrayBlock> block = at->second->weak_from_this().lock())
      return block;
  return nullptr;
}

} // namespace knapper::pjrt
