// A GPU's primary context, and what allocates in it. Internal to the folder.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/drivers/cuda/CudaApi.h"

namespace knapper::cuda {

/// Holds the primary context of a device. Threads: any.
class Gpu {
public:
  static Expected<std::shared_ptr<Gpu>> open(std::shared_ptr<const Api> api,
                                             int ordinal);
  ~Gpu();

  const std::shared_ptr<const Api> api;
  const DeviceId id;
  const Context context;

  /// Compute capability times ten: 90.
  int capability() const { return level; }
  int processors() const { return cores; }
  int attribute(int number) const;

private:
  Gpu(std::shared_ptr<const Api> api, DeviceId id, Context context);
  int level = 0, cores = 0;
};

/// Makes the context current to this thread for a scope.
class Current {
public:
  explicit Current(const Gpu &gpu) : api(*gpu.api) {
    api.contextPush(gpu.context);
  }
  ~Current() {
    Context old;
    api.contextPop(&old);
  }
  Current(const Current &) = delete;

private:
  const Api &api;
};

/// Lets this thread allocate, load and free in a scope while a stream is
/// captured, which torch and others forbid to the whole process by default: what
/// a garbage collector frees would invalidate their capture. Nothing of it is
/// part of the capture.
class DuringCapture {
public:
  explicit DuringCapture(const Gpu &gpu) : api(*gpu.api) {
    api.captureModeExchange(&mode);
  }
  ~DuringCapture() { api.captureModeExchange(&mode); }
  DuringCapture(const DuringCapture &) = delete;

private:
  const Api &api;
  int mode = 2; // CU_STREAM_CAPTURE_MODE_RELAXED; the other one in between
};

/// Device memory, or host memory that both sides address.
class GpuBuffer : public DeviceBuffer {
public:
  static Expected<std::unique_ptr<DeviceBuffer>>
  create(std::shared_ptr<Gpu> gpu, uint64_t bytes, MemoryKind kind);
  ~GpuBuffer() override;
  void *address() const override { return memory; }
  uint64_t bytes() const override { return size; }

private:
  GpuBuffer(std::shared_ptr<Gpu> gpu, void *memory, uint64_t size,
            MemoryKind kind)
      : gpu(std::move(gpu)), memory(memory), size(size), kind(kind) {}
  std::shared_ptr<Gpu> gpu;
  void *memory;
  uint64_t size;
  MemoryKind kind;
};

Expected<std::unique_ptr<DeviceQueue>> createQueue(std::shared_ptr<Gpu> gpu);

} // namespace knapper::cuda
