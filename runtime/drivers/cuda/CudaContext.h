// A GPU's primary context, and what allocates in it. Internal to the folder.
#pragma once

#include "runtime/base/GpuEntry.h"
#include "runtime/device/Device.h"
#include "runtime/drivers/cuda/CudaApi.h"

#include <mutex>
#include <span>
#include <string>
#include <unordered_map>

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

/// What a KernelHandle points to.
struct GpuKernel {
  Function function = nullptr;
  GpuEntry entry;
};

class GpuExecutable : public Executable {
public:
  static Expected<std::unique_ptr<Executable>>
  load(std::shared_ptr<Gpu> gpu, std::span<const std::byte> code,
       const std::string &where);
  ~GpuExecutable() override;
  Expected<KernelHandle> kernel(uint64_t entry,
                                std::string_view name) const override;

private:
  GpuExecutable(std::shared_ptr<Gpu> gpu, Module module, std::string where)
      : gpu(std::move(gpu)), module(module), where(std::move(where)) {}
  std::shared_ptr<Gpu> gpu;
  Module module;
  std::string where;
  mutable std::mutex mutex;
  /// Nodes keep their addresses.
  mutable std::unordered_map<std::string, GpuKernel> kernels;
};

Expected<std::unique_ptr<DeviceQueue>> createQueue(std::shared_ptr<Gpu> gpu);

} // namespace knapper::cuda
