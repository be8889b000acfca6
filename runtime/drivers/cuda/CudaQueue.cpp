// A stream as a queue. Recordings are captured graphs.
#include "runtime/drivers/cuda/CublasLtMatmul.h"
#include "runtime/drivers/cuda/CudaCode.h"
#include "runtime/drivers/cuda/TmaDescriptors.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

namespace knapper::cuda {
namespace {

constexpr unsigned kNonBlocking = 1;   // cuStreamCreate
constexpr unsigned kDisableTiming = 2; // cuEventCreate
constexpr int kCaptureOfThread = 1;    // cuStreamBeginCapture
constexpr uintptr_t kLegacyStream = 1; // CU_STREAM_LEGACY

Pointer pointer(const void *address) {
  return reinterpret_cast<Pointer>(address);
}

class GpuEvent : public DeviceEvent {
public:
  GpuEvent(std::shared_ptr<Gpu> gpu, Event event)
      : gpu(std::move(gpu)), event(event) {}
  ~GpuEvent() override {
    Current current(*gpu);
    gpu->api->eventDestroy(event);
  }
  bool done() const override {
    Current current(*gpu);
    return gpu->api->eventQuery(event) != kNotReady;
  }
  Status wait() const override {
    Current current(*gpu);
    return gpu->api->check(gpu->api->eventFinish(event), "cuEventSynchronize");
  }
  std::optional<uint64_t>
  nanosecondsSince(const DeviceEvent &earlier) const override {
    Current current(*gpu);
    float milliseconds = 0;
    if (gpu->api->eventElapsed(&milliseconds,
                               static_cast<const GpuEvent &>(earlier).event,
                               event) != 0)
      return std::nullopt;
    return static_cast<uint64_t>(milliseconds * 1e6);
  }

  std::shared_ptr<Gpu> gpu;
  Event event;
};

class GpuRecording : public Recording {
public:
  GpuRecording(std::shared_ptr<Gpu> gpu, GraphExec exec)
      : gpu(std::move(gpu)), exec(exec) {}
  ~GpuRecording() override {
    Current current(*gpu);
    DuringCapture allowed(*gpu);
    gpu->api->graphExecDestroy(exec);
  }

  std::shared_ptr<Gpu> gpu;
  GraphExec exec;
};

class GpuQueue : public DeviceQueue {
public:
  GpuQueue(std::shared_ptr<Gpu> gpu, Stream stream)
      : gpu(std::move(gpu)), api(*this->gpu->api), own(stream), stream(stream) {
  }
  ~GpuQueue() override {
    Current current(*gpu);
    DuringCapture allowed(*gpu);
    if (recording)
      dropCapture();
    (void)finishAll();
    api.streamDestroy(own);
    if (point)
      api.eventDestroy(point);
  }

  // Kernels keep what they need in registers and shared memory; what is
  // reserved is the workspace of libraries. Recordings know the old one by its
  // address, so it stays: powers of two, which together are twice the last.
  Status reserve(const QueueNeeds &needs) override {
    if (needs.scratch == 0 ||
        (!workspaces.empty() && workspaces.back()->bytes() >= needs.scratch))
      return success();
    ASSIGN_OR_RETURN(std::unique_ptr<DeviceBuffer> made,
                     GpuBuffer::create(gpu, std::bit_ceil(needs.scratch),
                                       MemoryKind::device));
    workspaces.push_back(std::move(made));
    return success();
  }
  Status begin() override {
    stream = own;
    captured = false;
    return success();
  }
  Status finish() override {
    Current current(*gpu);
    if (recording)
      dropCapture();
    return finishAll();
  }

  Status launch(const LaunchCommand &command) override {
    if (command.call) {
      Current current(*gpu);
      DuringCapture allowed(*gpu); // a call may load code of the library's
      return static_cast<const GpuCall *>(command.call)
          ->enqueue(command.buffers,
                    workspaces.empty() ? nullptr : workspaces.back()->address(),
                    stream);
    }
    const auto &kernel = *static_cast<const GpuKernel *>(command.kernel.handle);
    int64_t blocks = (command.grid - 1) / kernel.entry.programs + 1;
    if (blocks > std::numeric_limits<int32_t>::max())
      return userError(cat("a grid of ", command.grid,
                           " programs is more than a GPU takes at once"),
                       "launch", "smaller sizes");
    Current current(*gpu);
    Function function = kernel.function;
    if (!function) {
      if (Status s = kernel.code->prepare({&command.kernel, 1}); !s)
        return s;
      function = kernel.function;
    }
    parameters.clear();
    for (uint32_t i = 0; i < command.numBuffers; ++i)
      parameters.push_back(const_cast<void **>(&command.buffers[i]));
    for (uint32_t i = 0; i < command.numSymbols; ++i)
      parameters.push_back(const_cast<int64_t *>(&command.symbols[i]));
    int32_t *status = command.status;
    parameters.push_back(&status);
    parameters.push_back(const_cast<int64_t *>(&command.grid));
    maps.resize(command.numMaps);
    for (uint32_t i = 0; i < command.numMaps; ++i) {
      if (Status s = encode(api, command, command.maps[i], maps[i]); !s)
        return s;
      parameters.push_back(&maps[i]);
    }
    if (kernel.entry.ctasPerSm)
      blocks =
          std::min(blocks, int64_t(kernel.entry.ctasPerSm) * gpu->processors());
    return api.check(api.launch(function, static_cast<unsigned>(blocks), 1, 1,
                                kernel.entry.threads, 1, 1,
                                kernel.entry.sharedBytes, stream,
                                parameters.data(), nullptr),
                     "cuLaunchKernel");
  }

  Status copy(void *target, const void *source, uint64_t bytes) override {
    if (bytes == 0)
      return success();
    Current current(*gpu);
    return api.check(api.copy(pointer(target), pointer(source), bytes, stream),
                     "cuMemcpyAsync");
  }
  // From pageable memory the driver takes the bytes before it returns.
  Status upload(void *target, const void *source, uint64_t bytes) override {
    return copy(target, source, bytes);
  }
  Status download(void *target, const void *source, uint64_t bytes) override {
    if (Status s = copy(target, source, bytes); !s)
      return s;
    Current current(*gpu);
    return api.check(api.streamFinish(stream), "cuStreamSynchronize");
  }

  Expected<std::unique_ptr<DeviceEvent>> record() override {
    Current current(*gpu);
    Event event;
    if (Status s = api.check(api.eventCreate(&event, 0), "cuEventCreate"); !s)
      return s.takeError();
    auto made = std::make_unique<GpuEvent>(gpu, event);
    if (Status s = api.check(api.eventRecord(event, stream), "cuEventRecord");
        !s)
      return s.takeError();
    return std::unique_ptr<DeviceEvent>(std::move(made));
  }
  Status waitFor(const DeviceEvent &event) override {
    Current current(*gpu);
    return api.check(
        api.streamWait(stream, static_cast<const GpuEvent &>(event).event, 0),
        "cuStreamWaitEvent");
  }

  Status waitForOthers() override {
    Current current(*gpu);
    if (Status s = mark(nullptr); !s)
      return s;
    return api.check(api.streamWait(own, point, 0), "cuStreamWaitEvent");
  }
  /// The run's commands go into the caller's stream itself, where an order with
  /// the stream's other work costs nothing.
  Status follow(void *theirs) override {
    Current current(*gpu);
    stream = static_cast<Stream>(theirs);
    int status = 0;
    if (Status s = api.check(api.streamIsCapturing(stream, &status),
                             "cuStreamIsCapturing");
        !s)
      return s;
    captured = status != 0;
    // Behind the last run, which may have been in another stream: both use the
    // same memory. A capture may not wait for work outside it.
    if (!led || captured)
      return success();
    return api.check(api.streamWait(stream, point, 0), "cuStreamWaitEvent");
  }
  Status lead(void *theirs) override {
    if (captured) {
      stream = own;
      return success();
    }
    Current current(*gpu);
    if (Status s = mark(static_cast<Stream>(theirs)); !s)
      return s; // `finish` waits for the stream itself
    led = true;
    stream = own;
    return success();
  }
  bool isCaptured() const override { return captured; }
  void *ownStream() const override { return own; }
  void *workStream() const override {
    return stream ? stream : reinterpret_cast<void *>(kLegacyStream);
  }

  Status beginRecording() override {
    if (recording)
      return userError("a recording is open already", "queue");
    Current current(*gpu);
    if (Status s = api.check(api.captureBegin(own, kCaptureOfThread),
                             "cuStreamBeginCapture");
        !s)
      return s;
    recording = true;
    replayed = stream;
    stream = own;
    return success();
  }
  Expected<std::unique_ptr<Recording>> endRecording() override {
    if (!recording)
      return userError("no recording is open", "queue");
    recording = false;
    stream = replayed;
    Current current(*gpu);
    Graph graph = nullptr;
    GraphExec exec = nullptr;
    if (Status s = api.check(api.captureEnd(own, &graph), "cuStreamEndCapture");
        !s)
      return s.takeError();
    Status made =
        api.check(api.graphInstantiate(&exec, graph, 0), "cuGraphInstantiate");
    api.graphDestroy(graph);
    if (!made)
      return made.takeError();
    return std::unique_ptr<Recording>(new GpuRecording(gpu, exec));
  }
  Status replay(const Recording &commands, Cancel cancel) override {
    if (cancel.isWished())
      return cancelledRun();
    Current current(*gpu);
    return api.check(
        api.graphLaunch(static_cast<const GpuRecording &>(commands).exec,
                        stream),
        "cuGraphLaunch");
  }

private:
  /// Notes how far `other` is, for others to wait for.
  Status mark(Stream other) {
    if (!point)
      if (Status s = api.check(api.eventCreate(&point, kDisableTiming),
                               "cuEventCreate");
          !s)
        return s;
    return api.check(api.eventRecord(point, other), "cuEventRecord");
  }
  /// Waits for our stream and for the runs in the callers'.
  Status finishAll() {
    if (led)
      if (Status s = api.check(api.eventFinish(point), "cuEventSynchronize");
          !s)
        return s;
    led = false;
    // A run that failed on its way through a caller's stream.
    if (stream != own && !captured)
      if (Status s = api.check(api.streamFinish(stream), "cuStreamSynchronize");
          !s)
        return s;
    stream = own;
    return api.check(api.streamFinish(own), "cuStreamSynchronize");
  }
  void dropCapture() {
    Graph graph = nullptr;
    if (api.captureEnd(own, &graph) == 0 && graph)
      api.graphDestroy(graph);
    recording = false;
    stream = replayed;
  }

  std::vector<std::unique_ptr<DeviceBuffer>> workspaces; // the last is used
  std::shared_ptr<Gpu> gpu;
  const Api &api;
  Stream own;
  Stream stream;             // that commands go to: own, or a caller's
  Stream replayed = nullptr; // `stream` outside an open recording
  Event point = nullptr;     // of one stream, for others to wait for
  bool led = false;          // `point` is behind a run in a caller's stream
  bool recording = false;
  bool captured = false; // the caller's stream is
  std::vector<void *> parameters;
  std::vector<EncodedMap> maps;
};

} // namespace

Expected<std::unique_ptr<DeviceQueue>> createQueue(std::shared_ptr<Gpu> gpu) {
  Current current(*gpu);
  DuringCapture allowed(*gpu);
  Stream stream;
  if (Status s = gpu->api->check(gpu->api->streamCreate(&stream, kNonBlocking),
                                 "cuStreamCreate");
      !s)
    return s.takeError();
  return std::unique_ptr<DeviceQueue>(new GpuQueue(std::move(gpu), stream));
}

} // namespace knapper::cuda
