//===- HostMemory.h - Where arrays lie ------------------------------------===//
#pragma once

#include "capi/pjrt/PjrtEvent.h"
#include <cstdint>
#include <unordered_map>

namespace knapper::pjrt {

struct HostMemoryStats {
  int64_t inUse, peak, allocations, largest, kept;
};

/// Memory of arrays. What is given back is kept for arrays of the same size, up
/// to a bound: pages that the kernel has to clear cost more than many kernels.
/// Thread-safe.
class HostMemory {
public:
  ~HostMemory();
  /// 64-byte aligned; throws std::bad_alloc.
  void *take(size_t bytes);
  /// Of the same size.
  void giveBack(void *data, size_t bytes) noexcept;
  HostMemoryStats stats() const;

private:
  void drop();

  mutable std::mutex mutex;
  std::unordered_map<size_t, std::vector<void *>> free; ///< by rounded size
  HostMemoryStats counts{};
};

/// One array's memory, shared by the buffers and runs that read it.
class HostBlock {
public:
  /// Memory of our own.
  HostBlock(std::shared_ptr<HostMemory> host, size_t bytes);
  /// The caller's: `released` is completed, or `deleter` called, at the end.
  HostBlock(void *data, std::shared_ptr<Completion> released);
  HostBlock(void *data, void (*deleter)(void *, void *), void *argument);
  ~HostBlock();
  HostBlock(const HostBlock &) = delete;
  HostBlock &operator=(const HostBlock &) = delete;

  void *data() const { return memory; }
  /// Whether a run may write its results here.
  bool isOwn() const { return bool(host); }

  /// Owners that are runs which write it, and have not ended.
  std::atomic<int> writers = 0;

private:
  void *memory;
  size_t bytes = 0;
  std::shared_ptr<HostMemory> host;
  std::shared_ptr<Completion> released;
  void (*deleter)(void *, void *) = nullptr;
  void *argument = nullptr;
};

} // namespace knapper::pjrt
