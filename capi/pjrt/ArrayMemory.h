//===- ArrayMemory.h - Where arrays lie -----------------------------------===//
//
// The host's memory, or a GPU's. Blocks of a GPU are free for others when the
// runs that used them have ended: no stream has to wait for another.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "capi/pjrt/PjrtEvent.h"
#include <cstdint>
#include <unordered_map>

namespace knapper::pjrt {

struct ArrayMemoryStats {
  int64_t inUse, peak, allocations, largest, kept;
};

/// A device of the C API; null: the host.
using DeviceHandle = std::shared_ptr<knapper_device>;

/// Memory of arrays. What is given back is kept for arrays of the same size, up
/// to a bound: to get memory from the kernel or the driver costs more than many
/// kernels. Thread-safe.
class ArrayMemory {
public:
  /// `mostKept` bytes.
  ArrayMemory(DeviceHandle device, int64_t mostKept)
      : device(std::move(device)), mostKept(mostKept) {}
  ~ArrayMemory();
  /// 64-byte aligned; throws std::bad_alloc.
  void *take(size_t bytes);
  /// Of the same size. `mayBeKept`: nobody but our own runs, which have ended,
  /// has used it.
  void giveBack(void *data, size_t bytes, bool mayBeKept = true) noexcept;
  /// Gives back to the system what is kept; whether it was anything.
  bool dropKept();
  ArrayMemoryStats stats() const;
  bool isHost() const { return !device; }

  /// Copies between an array and the host's memory, whatever holds the array.
  /// Return when the bytes have arrived.
  PjrtError *write(void *array, const void *host, size_t bytes) const;
  PjrtError *read(void *host, const void *array, size_t bytes) const;

private:
  void *allocate(size_t size);
  void release(void *data) noexcept;
  void drop();

  const DeviceHandle device;
  const int64_t mostKept;
  mutable std::mutex mutex;
  std::unordered_map<size_t, std::vector<void *>> free; ///< by rounded size
  ArrayMemoryStats counts{};
};

/// One array's memory, shared by the buffers and runs that read it.
class ArrayBlock : public std::enable_shared_from_this<ArrayBlock> {
public:
  /// Memory of our own.
  ArrayBlock(std::shared_ptr<ArrayMemory> memory, size_t bytes);
  /// The caller's: `released` is completed, or `deleter` called, at the end.
  ArrayBlock(void *data, std::shared_ptr<Completion> released);
  ArrayBlock(void *data, void (*deleter)(void *, void *), void *argument);
  ~ArrayBlock();
  ArrayBlock(const ArrayBlock &) = delete;
  ArrayBlock &operator=(const ArrayBlock &) = delete;

  void *data() const { return address; }
  /// Whether a run may write its results here.
  bool isOwn() const { return bool(memory); }
  /// Whether its end calls somebody else's function, which may want a lock of
  /// theirs.
  bool isForeign() const { return deleter; }
  /// Notes that others use the memory, on the device in an order of their own.
  void lend() { isLent = true; }

  /// Owners that are runs which write it, and have not ended.
  std::atomic<int> writers = 0;

private:
  void *address;
  size_t bytes = 0;
  std::shared_ptr<ArrayMemory> memory;
  std::shared_ptr<Completion> released;
  void (*deleter)(void *, void *) = nullptr;
  void *argument = nullptr;
  std::atomic<bool> isLent = false;
  bool isListed = false; ///< in LentBlocks
  friend class LentBlocks;
};

/// The blocks of GPUs by their first address, for those who know that alone.
/// Thread-safe.
class LentBlocks {
public:
  static LentBlocks &ofProcess();
  void add(ArrayBlock *block);
  void remove(ArrayBlock *block);
  /// Null where no block begins there.
  std::shared_ptr<ArrayBlock> find(void *address);

private:
  std::mutex mutex;
  // A view of what was lent begins where its block does.
  std::unordered_multimap<void *, ArrayBlock *> blocks;
};

} // namespace knapper::pjrt
