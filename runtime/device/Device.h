// The contract between the runtime and a driver: device, queue, event,
// executable, buffer. `runtime/drivers/null` is the smallest complete driver
// and the one to copy; `runtime/testing/Conformance_test.cpp` is what each must
// pass.
//
// Ownership: what a call returns is the caller's and keeps what it needs of
// the device alive by itself. Threading: a Device, an Executable and an Event
// may be used by any number of threads at once; a Queue by one thread at a
// time. Errors: a failed system or driver call is a DeviceError with call and
// code, a wrong argument of the user a UserError; no call throws or aborts.
// Addresses: a device's buffers have addresses in one space that its kernels
// and copies use; where `addressesHost()`, that space is the process's own.
#pragma once

#include "runtime/base/Cancel.h"
#include "runtime/base/DType.h"
#include "runtime/base/Error.h"
#include "runtime/base/GpuEntry.h"
#include "runtime/base/Text.h"
#include "runtime/base/Vendor.h"
#include "runtime/device/Upload.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace knapper {

class JsonWriter;

enum class MemoryKind {
  device, // what kernels are fast on
  host,   // what the CPU and the device can both address (pinned, where that is
          // a thing)
};

/// A range of memory, freed when destroyed. Address and size never change.
/// Aligned to at least 64 bytes.
class DeviceBuffer {
public:
  virtual ~DeviceBuffer() = default;
  virtual void *address() const = 0;
  virtual uint64_t bytes() const = 0;
};

/// A point in a queue's order of work.
class DeviceEvent {
public:
  virtual ~DeviceEvent() = default;
  /// True when everything before the point has finished; does not block.
  virtual bool done() const = 0;
  /// Blocks until then.
  virtual Status wait() const = 0;
  /// Nanoseconds of the device's own clock from `earlier`, an event of the same
  /// device, to this one; both have been waited for. Nothing where the device
  /// has no clock of its own.
  virtual std::optional<uint64_t>
  nanosecondsSince(const DeviceEvent &earlier) const {
    return std::nullopt;
  }
};

/// A kernel as its driver knows it: a function's address, a handle.
struct KernelHandle {
  const void *handle = nullptr;
};

/// Code of one artefact section in a form that can be launched.
class Executable {
public:
  virtual ~Executable() = default;
  /// The kernel that the artefact calls `name` and places at `entry`; a driver
  /// uses whichever it can. A UserError when the code has no such kernel. The
  /// handle lives as long as the executable.
  virtual Expected<KernelHandle> kernel(uint64_t entry,
                                        std::string_view name) const = 0;
  /// Makes kernels ready to be launched (CUDA: the driver compiles them; CPUs:
  /// nothing to do). One call for many kernels takes less time than many calls.
  /// Other kernels get ready at their first launch, but not while a recording
  /// is open.
  virtual Status prepare(std::span<const KernelHandle> kernels) const {
    return success();
  }
};

/// A TMA descriptor before the driver encodes it: one buffer as a kernel's
/// asynchronous copies see it. Innermost dim first, sizes and strides in
/// elements, the innermost stride 1 and left out. Other devices have none.
struct TmaDescriptor {
  uint32_t buffer = 0;
  DType dtype = DType::f32;
  uint32_t rank = 0;
  int64_t offset = 0;
  int64_t sizes[kMaxMapRank] = {}, strides[kMaxMapRank - 1] = {};
  uint32_t box[kMaxMapRank] = {}; // of one copy
  uint32_t swizzle = 0;           // bytes: 0, 32, 64, 128
  bool tf32 = false;              // of f32: copies round to it
};

/// A vendor library's operation for one set of sizes, made by a device and run
/// by its queues: any number of them at once. It keeps alive what it needs.
class VendorCall {
public:
  virtual ~VendorCall() = default;
  int64_t grid = 1;     ///< programs that workers may share
  uint64_t scratch = 0; ///< bytes per worker
};

/// One launch: programs [0, grid) of a kernel, or of a library's call.
struct LaunchCommand {
  KernelHandle kernel;
  const VendorCall *call = nullptr; // instead of the kernel
  void *const *buffers = nullptr;   // device addresses, in the kernel's order
  uint32_t numBuffers = 0;
  const int64_t *symbols = nullptr; // in host memory, in the kernel's order
  uint32_t numSymbols = 0;
  const TmaDescriptor *maps = nullptr; // in the kernel's order
  uint32_t numMaps = 0;
  int64_t grid = 0;  // > 0
  int64_t grain = 1; // > 0: fewer programs than this are not worth a worker
  uint64_t scratch = 0;      // bytes per worker, within what was reserved
  int32_t *status = nullptr; // a KernelStatus in MemoryKind::host memory; valid
                             // after the queue has finished
};

/// Most that the launches of coming batches need.
struct QueueNeeds {
  uint64_t scratch = 0; // bytes per worker
};

/// Commands that were recorded for replay (a captured graph).
class Recording {
public:
  virtual ~Recording() = default;
};

/// Work in order. A driver may run a command before the call returns or later;
/// results may be relied on after `finish`, `download` or an event.
class DeviceQueue {
public:
  virtual ~DeviceQueue() = default;

  /// Makes sure that coming launches within `needs` allocate nothing. Called
  /// when a program is bound to sizes, never between launches.
  virtual Status reserve(const QueueNeeds &needs) = 0;

  /// Brackets a run: the driver may hold workers, a stream, a clock for it.
  /// `finish` waits for all work; both in pairs, also after an error.
  virtual Status begin() = 0;
  virtual Status finish() = 0;

  /// Everything that the command points to is read before the call returns,
  /// except for the buffers and the status.
  virtual Status launch(const LaunchCommand &command) = 0;
  /// Between device addresses; ranges do not overlap.
  virtual Status copy(void *target, const void *source, uint64_t bytes) = 0;
  /// From pageable host memory, which may be reused when the call returns.
  virtual Status upload(void *target, const void *hostSource,
                        uint64_t bytes) = 0;
  /// To pageable host memory; waits for the bytes.
  virtual Status download(void *hostTarget, const void *source,
                          uint64_t bytes) = 0;

  /// An event at this point of the queue.
  virtual Expected<std::unique_ptr<DeviceEvent>> record() = 0;
  /// Work after this call starts after the event (of any queue of the device).
  virtual Status waitFor(const DeviceEvent &event) = 0;
  /// Work after this call starts after what others in the process have given
  /// the device in its default order (CUDA: the legacy default stream).
  virtual Status waitForOthers() { return success(); }
  /// Where `Device::hasStreams`: work after `follow` starts after what the
  /// caller has given a stream of the device's so far; what the caller gives it
  /// after `lead` starts after this queue's work. Neither blocks.
  virtual Status follow(void *stream) { return waitForOthers(); }
  virtual Status lead(void *stream) { return finish(); }
  /// Whether the stream of the last `follow` records instead of running
  /// (CUDA: is captured): then no recording of ours can be opened.
  virtual bool isCaptured() const { return false; }
  /// Where `Device::hasStreams`: the stream of this queue's work, for other
  /// queues to follow and lead. Lives as long as the queue.
  virtual void *ownStream() const { return nullptr; }
  /// Where commands go at this moment, for who gives the device work of their
  /// own among them: between `follow` and `lead` it may be the followed stream.
  virtual void *workStream() const { return ownStream(); }

  /// Where `Device::canRecord`: launches and copies up to endRecording are kept
  /// instead of run; replay runs them in their order, any number of times.
  /// Buffers must be alive at replay, lists and symbols need not. `cancel` is
  /// checked before the first command and between commands that the host
  /// issues; a cancelled replay is a UserError.
  virtual Status beginRecording() = 0;
  virtual Expected<std::unique_ptr<Recording>> endRecording() = 0;
  virtual Status replay(const Recording &recording, Cancel cancel) = 0;
};

struct QueueOptions {
  int32_t threads = 0;           // 0: the driver's default
  int32_t spinMicroseconds = -1; // -1: the driver's default
};

class Device {
public:
  virtual ~Device() = default;

  /// "cpu": what artefact targets name.
  virtual std::string_view kind() const = 0;
  /// How good code for this instruction set is here: 0 not runnable, greater is
  /// better.
  virtual int rank(std::string_view isa) const = 0;
  /// Every instruction set that is runnable here, best first: for messages.
  virtual std::string runnable() const = 0;
  /// True when kernels and copies may be given any address of the process.
  virtual bool addressesHost() const = 0;
  /// True when kernels and copies may be given this address: memory of this
  /// device that another library of the process allocated. Aligned as
  /// DeviceBuffer is not required: the caller looks at that.
  virtual bool addresses(const void *memory) const { return addressesHost(); }
  /// Whether launches may return before they have run: the caller has time for
  /// other things until it waits. Where not, they take the caller's own.
  virtual bool isAsynchronous() const { return false; }
  /// Whether events know when they happened by a clock of the device
  /// (`DeviceEvent::nanosecondsSince`).
  virtual bool timesEvents() const { return false; }
  virtual bool canRecord() const = 0;
  /// Whether callers have streams of their own that queues can follow and lead.
  virtual bool hasStreams() const { return false; }
  /// Fields about the device into an open JSON object; `measure` adds measured
  /// peaks.
  virtual Status describe(JsonWriter &json, bool measure) const = 0;

  /// Bytes of device memory that are free now; nothing where the device has no
  /// memory of its own.
  virtual std::optional<uint64_t> freeBytes() const { return std::nullopt; }
  /// bytes == 0 gives a buffer whose address may be null. Out of memory is a
  /// DeviceError. Contents are undefined.
  virtual Expected<std::unique_ptr<DeviceBuffer>> allocate(uint64_t bytes,
                                                           MemoryKind kind) = 0;
  virtual Expected<std::unique_ptr<DeviceQueue>>
  createQueue(const QueueOptions &options) = 0;
  /// Copies all parts, by up to `threads` threads where that is faster than
  /// `DeviceQueue::upload`. Returns when the bytes have arrived.
  virtual Status uploadAll(std::span<const UploadPart> parts, int32_t threads);
  /// `code` need not outlive the call; `where` names file and section in
  /// messages.
  virtual Expected<std::unique_ptr<Executable>>
  load(std::span<const std::byte> code, const std::string &where) = 0;

  /// Opens a vendor's library, once a process: its version and place, for
  /// reports. An error says why no call of it can be made here.
  virtual Expected<std::string> openLibrary(VendorLibrary library) {
    return deviceError(cat("the device '", kind(), "' runs nothing of it"),
                       std::string(name(library)));
  }
  /// The matmul as a call of its library, for queues of so many threads (0:
  /// the driver's default). An error where the library has no such matmul.
  virtual Expected<std::shared_ptr<const VendorCall>>
  prepare(const VendorMatmul &matmul, int32_t threads) {
    Expected<std::string> opened = openLibrary(matmul.library);
    return opened ? internalError("makes no calls of it",
                                  std::string(name(matmul.library)))
                  : opened.takeError();
  }
};

} // namespace knapper
