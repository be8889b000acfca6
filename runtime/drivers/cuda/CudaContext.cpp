#include "runtime/drivers/cuda/CudaContext.h"

namespace knapper::cuda {

namespace {
// CUdevice_attribute.
constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;
constexpr int kProcessors = 16;
constexpr unsigned kPortable = 1, kMapped = 2; // cuMemHostAlloc
} // namespace

//===-- Context -----------------------------------------------------------===//

Expected<std::shared_ptr<Gpu>> Gpu::open(std::shared_ptr<const Api> api,
                                         int ordinal) {
  DeviceId id;
  Context context;
  if (Status s = api->check(api->deviceGet(&id, ordinal), "cuDeviceGet"); !s)
    return s.takeError();
  if (Status s = api->check(api->primaryRetain(&context, id),
                            "cuDevicePrimaryCtxRetain");
      !s)
    return s.takeError();
  return std::shared_ptr<Gpu>(new Gpu(std::move(api), id, context));
}

Gpu::Gpu(std::shared_ptr<const Api> api, DeviceId id, Context context)
    : api(std::move(api)), id(id), context(context) {
  level = attribute(kCapabilityMajor) * 10 + attribute(kCapabilityMinor);
  cores = attribute(kProcessors);
}

Gpu::~Gpu() { api->primaryRelease(id); }

int Gpu::attribute(int number) const {
  int value = 0;
  api->deviceAttribute(&value, number, id);
  return value;
}

//===-- Memory ------------------------------------------------------------===//

Expected<std::unique_ptr<DeviceBuffer>>
GpuBuffer::create(std::shared_ptr<Gpu> gpu, uint64_t bytes, MemoryKind kind) {
  Current current(*gpu);
  DuringCapture allowed(*gpu);
  const Api &api = *gpu->api;
  void *memory = nullptr;
  if (bytes > 0 && kind == MemoryKind::device) {
    // Kernels read the aligned 16 bytes around what they want. The driver gives
    // more anyway; a checker of memory does not know that.
    constexpr uint64_t access = 16;
    uint64_t whole = std::max(bytes, (bytes + access - 1) / access * access);
    Pointer address = 0;
    if (Status s = api.check(api.allocate(&address, whole), "cuMemAlloc"); !s)
      return s.takeError();
    memory = reinterpret_cast<void *>(address);
  } else if (bytes > 0) {
    if (Status s =
            api.check(api.allocateHost(&memory, bytes, kPortable | kMapped),
                      "cuMemHostAlloc");
        !s)
      return s.takeError();
  }
  return std::unique_ptr<DeviceBuffer>(
      new GpuBuffer(std::move(gpu), memory, bytes, kind));
}

GpuBuffer::~GpuBuffer() {
  if (!memory)
    return;
  Current current(*gpu);
  DuringCapture allowed(*gpu);
  if (kind == MemoryKind::device)
    gpu->api->free(reinterpret_cast<Pointer>(memory));
  else
    gpu->api->freeHost(memory);
}

} // namespace knapper::cuda
