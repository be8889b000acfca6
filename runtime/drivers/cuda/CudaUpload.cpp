// Large uploads: threads copy pieces into pinned buffers of their own, from
// where the device fetches them while the next piece is copied.
#include "runtime/drivers/cuda/CudaUpload.h"

#include "runtime/base/Threads.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

namespace knapper::cuda {
namespace {

// Smaller pinned buffers are quicker to have than what their size loses.
constexpr uint64_t kPiece = uint64_t(4) << 20;
constexpr unsigned kBuffers = 2, kNonBlocking = 1, kDisableTiming = 2;

struct Upload {
  std::shared_ptr<Gpu> gpu;
  std::byte *target;
  const std::byte *source;
  uint64_t bytes;
  std::atomic<uint64_t> next{0};
  std::mutex mutex; ///< guards:
  Status status = success();

  void fail(Status failure) {
    next = bytes;
    std::lock_guard lock(mutex);
    if (status)
      status = std::move(failure);
  }
};

/// One thread's stream and buffers.
class Lane {
public:
  explicit Lane(const std::shared_ptr<Gpu> &gpu) : gpu(gpu), api(*gpu->api) {}
  ~Lane() {
    if (stream)
      (void)api.streamFinish(stream);
    for (Event event : events)
      if (event)
        api.eventDestroy(event);
    if (stream)
      api.streamDestroy(stream);
  }

  Status open() {
    TRY(api.check(api.streamCreate(&stream, kNonBlocking), "cuStreamCreate"));
    for (unsigned i = 0; i < kBuffers; ++i) {
      ASSIGN_OR_RETURN(buffers[i],
                       GpuBuffer::create(gpu, kPiece, MemoryKind::host));
      TRY(api.check(api.eventCreate(&events[i], kDisableTiming),
                    "cuEventCreate"));
    }
    return success();
  }

  Status run(Upload &upload) {
    for (unsigned turn = 0;; turn = (turn + 1) % kBuffers) {
      uint64_t at = upload.next.fetch_add(kPiece);
      if (at >= upload.bytes)
        break;
      uint64_t size = std::min(kPiece, upload.bytes - at);
      // Until the device has the piece before the last one.
      TRY(api.check(api.eventFinish(events[turn]), "cuEventSynchronize"));
      memcpy(buffers[turn]->address(), upload.source + at, size);
      TRY(api.check(
          api.copy(reinterpret_cast<Pointer>(upload.target + at),
                   reinterpret_cast<Pointer>(buffers[turn]->address()), size,
                   stream),
          "cuMemcpyAsync"));
      TRY(api.check(api.eventRecord(events[turn], stream), "cuEventRecord"));
    }
    return api.check(api.streamFinish(stream), "cuStreamSynchronize");
  }

private:
  std::shared_ptr<Gpu> gpu;
  const Api &api;
  Stream stream = nullptr;
  std::unique_ptr<DeviceBuffer> buffers[kBuffers];
  Event events[kBuffers] = {};
};

} // namespace

Status uploadByThreads(const std::shared_ptr<Gpu> &gpu, void *target,
                       const void *source, uint64_t bytes, int32_t threads) {
  Upload upload{gpu, static_cast<std::byte *>(target),
                static_cast<const std::byte *>(source), bytes};
  // A thread is worth some pieces.
  uint64_t worth = std::max<uint64_t>(1, bytes / (4 * kPiece));
  runOnThreads(
      std::min<uint64_t>(worth, static_cast<uint64_t>(std::max(threads, 1))),
      [&] {
        Current current(*gpu);
        Lane lane(gpu);
        Status status = lane.open();
        if (status)
          status = lane.run(upload);
        if (!status)
          upload.fail(std::move(status));
      });
  return std::move(upload.status);
}

} // namespace knapper::cuda
