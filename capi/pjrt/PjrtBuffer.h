//===- PjrtBuffer.h - Arrays ----------------------------------------------===//
#pragma once

#include "capi/pjrt/PjrtClient.h"
#include "capi/pjrt/PjrtTypes.h"
#include <atomic>

namespace knapper::pjrt {

/// A dense row-major array on a device, never changed while anything reads
/// it. A client may ask one from several threads. Its memory may be asked for
/// and given away before the run that writes it has ended.
struct Buffer {
  /// `ready`: completed when the elements are there; null: they are.
  Buffer(PjrtDevice *device, Type type, std::vector<int64_t> dims, size_t bytes,
         std::shared_ptr<ArrayBlock> block,
         std::shared_ptr<Completion> ready = nullptr)
      : device(device), type(type), dims(std::move(dims)), bytes(bytes),
        ready(std::move(ready)), block(std::move(block)) {}

  /// Null once it is deleted.
  std::shared_ptr<ArrayBlock> read() const;
  /// Takes the memory away; null if that was done before. Readers outside keep
  /// it until they are done.
  std::shared_ptr<ArrayBlock> remove();
  bool isDeleted() const { return deleted; }
  /// Whether `block`, which the caller holds once, is ours, and nobody else
  /// reads it.
  bool isOnly(const std::shared_ptr<ArrayBlock> &own) const;

  PjrtDevice *const device;
  const Type type;
  const std::vector<int64_t> dims;
  const size_t bytes;
  const std::shared_ptr<Completion> ready;

  bool isReady() const { return !ready || ready->isReady(); }
  /// Waits for the elements; the error of the run that was to write them.
  PjrtError *wait() const;

  void hold();
  void letGo();

private:
  mutable std::mutex mutex;
  std::shared_ptr<ArrayBlock> block;
  std::atomic<bool> deleted = false;
  unsigned holders = 0;            ///< outside, of the pointer
  std::shared_ptr<ArrayBlock> held; ///< for them, after a deletion
};

/// Bytes of an array; nothing where they cannot be counted or the type is not
/// stored.
std::optional<size_t> arrayBytes(Type type, const int64_t *dims, size_t rank);
PjrtError *badArray(Type type, const int64_t *dims, size_t rank);
PjrtError *deletedBuffer(const char *what);
/// Refuses other layouts than row-major; null: the default.
PjrtError *checkLayout(const MemoryLayout *layout, size_t rank);
/// n - 1 ... 0, as long as the process runs; of at most 64 dims.
const int64_t *minorToMajor(size_t rank);
constexpr size_t kMaxRank = 64;

void setBufferFunctions(PjrtApi &api);
void setTransferFunctions(PjrtApi &api);

} // namespace knapper::pjrt
