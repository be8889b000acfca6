// Code of an artefact on a GPU. Internal to the folder.
#pragma once

#include "runtime/base/GpuEntry.h"
#include "runtime/drivers/cuda/CudaContext.h"
#include "runtime/drivers/cuda/PtxPieces.h"

#include <atomic>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace knapper::cuda {

class GpuExecutable;

/// What a KernelHandle points to.
struct GpuKernel {
  std::atomic<Function> function = nullptr; // null until it is prepared
  GpuEntry entry;
  const GpuExecutable *code = nullptr;
};

/// Kernels of PTX that is cut into pieces are compiled when they are first
/// wanted, those that are wanted together in one call of the driver, which
/// shares its work out among threads and keeps what comes out in a cache of its
/// own for later processes. Other code is loaded at once.
class GpuExecutable : public Executable {
public:
  static Expected<std::unique_ptr<Executable>>
  load(std::shared_ptr<Gpu> gpu, std::span<const std::byte> code,
       const std::string &where);
  ~GpuExecutable() override;
  Expected<KernelHandle> kernel(uint64_t entry,
                                std::string_view name) const override;
  Status prepare(std::span<const KernelHandle> handles) const override;

private:
  GpuExecutable(std::shared_ptr<Gpu> gpu, std::string image, std::string where);
  Expected<Module> loadModule(const void *image, unsigned threads) const;
  Status find(GpuKernel &kernel, const std::string &name, Module module) const;

  const std::shared_ptr<Gpu> gpu;
  const std::string image, where;
  const PtxPieces ptx;      // of the image
  mutable std::mutex mutex; // guards what follows
  mutable std::vector<Module> modules;
  mutable std::unordered_map<size_t, Module> moduleOf; // of a piece
  /// Nodes keep their addresses.
  mutable std::unordered_map<std::string, GpuKernel> kernels;
};

} // namespace knapper::cuda
