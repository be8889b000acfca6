// Large uploads: threads read pieces into pinned buffers of their own, from
// where the device fetches them while the next piece is read.
#include "runtime/drivers/cuda/CudaUpload.h"

#include "runtime/base/Threads.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace knapper::cuda {
namespace {

// Smaller pinned buffers are quicker to have than what their size loses.
constexpr uint64_t kPiece = uint64_t(4) << 20;
constexpr unsigned kBuffers = 2, kNonBlocking = 1, kDisableTiming = 2;

struct Piece {
  const UploadPart *part;
  uint64_t at, bytes;
};

struct Upload {
  std::vector<Piece> pieces;
  std::atomic<size_t> next{0};
  std::mutex mutex; ///< guards:
  Status status = success();

  void fail(Status failure) {
    next = pieces.size();
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
      size_t number = upload.next.fetch_add(1);
      if (number >= upload.pieces.size())
        break;
      const Piece &piece = upload.pieces[number];
      // Until the device has the piece before the last one.
      TRY(api.check(api.eventFinish(events[turn]), "cuEventSynchronize"));
      TRY(readPart(*piece.part, piece.at, buffers[turn]->address(),
                   piece.bytes));
      auto *target = static_cast<std::byte *>(piece.part->target) + piece.at;
      TRY(api.check(
          api.copy(reinterpret_cast<Pointer>(target),
                   reinterpret_cast<Pointer>(buffers[turn]->address()),
                   piece.bytes, stream),
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

Status uploadByThreads(const std::shared_ptr<Gpu> &gpu,
                       std::span<const UploadPart> parts, int32_t threads) {
  Upload upload;
  for (const UploadPart &part : parts)
    for (uint64_t at = 0; at < part.bytes; at += kPiece)
      upload.pieces.push_back({&part, at, std::min(kPiece, part.bytes - at)});
  // A thread is worth some pieces.
  uint64_t worth = std::max<uint64_t>(1, upload.pieces.size() / 4);
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
