#include "runtime/drivers/cuda/CudaContext.h"

#include "runtime/base/Text.h"

#include <algorithm>

namespace knapper::cuda {

namespace {
// CUdevice_attribute, CUjit_option.
constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;
constexpr int kProcessors = 16;
constexpr uint32_t kMostThreads = 1024, kMostPerProcessor = 32,
                   kMostSharedBytes = 1 << 20;
constexpr int kDynamicSharedBytes = 8; // CUfunction_attribute
constexpr int kErrorLog = 5, kErrorLogBytes = 6;
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
  const Api &api = *gpu->api;
  void *memory = nullptr;
  if (bytes > 0 && kind == MemoryKind::device) {
    Pointer address = 0;
    if (Status s = api.check(api.allocate(&address, bytes), "cuMemAlloc"); !s)
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
  if (kind == MemoryKind::device)
    gpu->api->free(reinterpret_cast<Pointer>(memory));
  else
    gpu->api->freeHost(memory);
}

//===-- Code --------------------------------------------------------------===//

Expected<std::unique_ptr<Executable>>
GpuExecutable::load(std::shared_ptr<Gpu> gpu, std::span<const std::byte> code,
                    const std::string &where) {
  // PTX is text; the driver wants it to end.
  std::string image(reinterpret_cast<const char *>(code.data()), code.size());
  bool cubin = image.starts_with("\x7f"
                                 "ELF");
  if (!cubin && image.find(".version") == std::string::npos)
    return userError("neither PTX nor a cubin", where,
                     "compile the model again");
  Current current(*gpu);
  const Api &api = *gpu->api;
  Module module = nullptr;
  std::string log(4096, '\0');
  int names[] = {kErrorLog, kErrorLogBytes};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
  int result = api.moduleLoad(&module, image.c_str(), 2, names, values);
  if (Status s = api.check(result, "cuModuleLoadDataEx"); !s) {
    Error error = s.takeError();
    if (result == kOutOfMemory)
      return error;
    log.resize(std::min(log.find('\0'), log.size()));
    // The driver compiles what the file holds: what it refuses is the file's.
    return userError(cat("the driver does not take this code: ", error.what,
                         log.empty() ? "" : "\n", log),
                     where, "compile the model again for this GPU");
  }
  return std::unique_ptr<Executable>(
      new GpuExecutable(std::move(gpu), module, where));
}

GpuExecutable::~GpuExecutable() {
  Current current(*gpu);
  gpu->api->moduleUnload(module);
}

Expected<KernelHandle> GpuExecutable::kernel(uint64_t entry,
                                             std::string_view name) const {
  std::lock_guard lock(mutex);
  std::string key(name);
  if (auto it = kernels.find(key); it != kernels.end())
    return KernelHandle{&it->second};
  Current current(*gpu);
  const Api &api = *gpu->api;
  GpuKernel kernel;
  int code = api.moduleFunction(&kernel.function, module, key.c_str());
  if (code == kNotFound)
    return userError(cat("no kernel '", key, "'"), where);
  if (Status s = api.check(code, "cuModuleGetFunction"); !s)
    return s.takeError();
  // The code does not say what it requires of its blocks to those who ask.
  kernel.entry = GpuEntry::of(entry);
  const GpuEntry &shape = kernel.entry;
  if (shape.threads < 1 || shape.threads > kMostThreads ||
      shape.sharedBytes > kMostSharedBytes ||
      shape.perProcessor > kMostPerProcessor)
    return userError(cat("kernel '", key, "' wants blocks of ", shape.threads,
                         " threads, ", shape.sharedBytes,
                         " bytes of shared memory, ", shape.perProcessor,
                         " on a processor"),
                     where, "compile the model again");
  if (shape.sharedBytes > 0)
    if (Status s =
            api.check(api.functionSet(kernel.function, kDynamicSharedBytes,
                                      static_cast<int>(shape.sharedBytes)),
                      "cuFuncSetAttribute");
        !s)
      return s.takeError();
  return KernelHandle{&kernels.emplace(std::move(key), kernel).first->second};
}

} // namespace knapper::cuda
