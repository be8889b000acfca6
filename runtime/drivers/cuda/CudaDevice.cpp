#include "runtime/drivers/cuda/CudaDevice.h"

#include "runtime/base/Json.h"
#include "runtime/base/Log.h"
#include "runtime/base/Text.h"
#include "runtime/drivers/cuda/CublasLtMatmul.h"
#include "runtime/drivers/cuda/CudaCode.h"
#include "runtime/drivers/cuda/CudaUpload.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <optional>

namespace knapper::cuda {
namespace {

// CUdevice_attribute.
constexpr int kClockKhz = 13, kProcessors = 16;

struct Isa {
  int capability = 0; ///< times ten
  bool exact = false; ///< "sm_90a": this capability only
};

std::optional<Isa> parseIsa(std::string_view text) {
  if (!text.starts_with("sm_"))
    return std::nullopt;
  text.remove_prefix(3);
  Isa isa;
  if (text.ends_with("a")) {
    isa.exact = true;
    text.remove_suffix(1);
  }
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), isa.capability);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return isa;
}

class CudaDevice : public Device {
public:
  explicit CudaDevice(std::shared_ptr<Gpu> gpu) : gpu(std::move(gpu)) {}

  std::string_view kind() const override { return "cuda"; }
  int rank(std::string_view text) const override {
    std::optional<Isa> isa = parseIsa(text);
    int own = gpu->capability();
    if (!isa || (isa->exact ? isa->capability != own : isa->capability > own))
      return 0;
    return 2 * isa->capability + isa->exact;
  }
  std::string runnable() const override {
    std::string text = cat("sm_", gpu->capability(), "a");
    for (int older : {120, 100, 90, 89, 86, 80})
      if (older <= gpu->capability())
        text += cat(", sm_", older);
    return text;
  }
  bool addressesHost() const override { return false; }
  bool canRecord() const override { return true; }
  bool hasStreams() const override { return true; }
  bool isAsynchronous() const override { return true; }

  Status describe(JsonWriter &json, bool measure) const override {
    char name[256] = "";
    size_t memory = 0;
    int version = 0;
    gpu->api->deviceName(name, sizeof name, gpu->id);
    gpu->api->deviceMemory(&memory, gpu->id);
    gpu->api->driverVersion(&version);
    std::string isas = runnable();
    json.field("name", name);
    json.field("isa", isas.substr(0, isas.find(',')));
    json.field("cores", gpu->attribute(kProcessors));
    json.field("clock_mhz", gpu->attribute(kClockKhz) / 1000);
    json.field("memory_bytes", static_cast<uint64_t>(memory));
    json.field("driver", cat(version / 1000, ".", version % 1000 / 10));
    if (!measure)
      return success();
    Expected<double> copy = copyBandwidth();
    if (!copy)
      return copy.takeError();
    json.field("copy_gbps", *copy);
    // By the data sheet's arithmetic: f32 lanes and the highest clock.
    double lanes = gpu->capability() == 80 ? 64 : 128;
    json.field("fma_gflops", 2e-6 * lanes * gpu->attribute(kProcessors) *
                                 gpu->attribute(kClockKhz));
    return success();
  }

  bool timesEvents() const override { return true; }
  bool addresses(const void *memory) const override {
    constexpr int kMemoryType = 2, kDeviceOrdinal = 9; // CUpointer_attribute
    constexpr unsigned kDeviceMemory = 2;              // CUmemorytype
    Current current(*gpu);
    // Of memory that CUDA does not know the type stays 0.
    unsigned type = 0;
    int ordinal = -1;
    const int names[] = {kMemoryType, kDeviceOrdinal};
    void *values[] = {&type, &ordinal};
    return gpu->api->pointerAttributes(
               2, names, values, reinterpret_cast<Pointer>(memory)) == 0 &&
           type == kDeviceMemory && ordinal == gpu->id;
  }

  std::optional<uint64_t> freeBytes() const override {
    Current current(*gpu);
    size_t free = 0, all = 0;
    if (gpu->api->memoryInfo(&free, &all) != 0)
      return std::nullopt;
    return free;
  }
  Expected<std::unique_ptr<DeviceBuffer>> allocate(uint64_t bytes,
                                                   MemoryKind kind) override {
    return GpuBuffer::create(gpu, bytes, kind);
  }
  Expected<std::unique_ptr<DeviceQueue>>
  createQueue(const QueueOptions &) override {
    return cuda::createQueue(gpu);
  }
  Status uploadAll(std::span<const UploadPart> parts,
                   int32_t threads) override {
    return uploadByThreads(gpu, parts, threads);
  }
  Expected<std::unique_ptr<Executable>>
  load(std::span<const std::byte> code, const std::string &where) override {
    return GpuExecutable::load(gpu, code, where);
  }

  Expected<std::string> openLibrary(VendorLibrary library) override {
    if (library != VendorLibrary::cublaslt)
      return Device::openLibrary(library);
    ASSIGN_OR_RETURN(std::shared_ptr<const CublasLt> found, cublasLt());
    return found->text();
  }
  Expected<std::shared_ptr<const VendorCall>>
  prepare(const VendorMatmul &matmul, int32_t threads) override {
    if (matmul.library != VendorLibrary::cublaslt)
      return Device::prepare(matmul, threads);
    ASSIGN_OR_RETURN(std::shared_ptr<const CublasLt> found, cublasLt());
    Current current(*gpu);
    DuringCapture allowed(*gpu);
    return cublasLtMatmul(std::move(found), matmul);
  }

private:
  /// Tried again until it is found: the folders may have been set since.
  Expected<std::shared_ptr<const CublasLt>> cublasLt() {
    std::lock_guard lock(opening);
    if (!library) {
      Current current(*gpu);
      DuringCapture allowed(*gpu);
      ASSIGN_OR_RETURN(library, CublasLt::open(gpu));
    }
    return library;
  }

  std::mutex opening; // guards:
  std::shared_ptr<const CublasLt> library;
  /// GB/s of a copy within the device's memory, read and written bytes counted:
  /// the best of some, far beyond its caches.
  Expected<double> copyBandwidth() const;

  std::shared_ptr<Gpu> gpu;
};

Expected<double> CudaDevice::copyBandwidth() const {
  constexpr uint64_t bytes = uint64_t(1) << 29;
  constexpr int rounds = 10;
  auto from = GpuBuffer::create(gpu, bytes, MemoryKind::device);
  if (!from)
    return from.takeError();
  auto to = GpuBuffer::create(gpu, bytes, MemoryKind::device);
  if (!to)
    return to.takeError();
  Current current(*gpu);
  const Api &api = *gpu->api;
  Event events[2] = {};
  Status status = success();
  auto good = [&](int code, const char *call) {
    if (status)
      status = api.check(code, call);
    return bool(status);
  };
  double best = 0;
  for (Event &event : events)
    good(api.eventCreate(&event, 0), "cuEventCreate");
  for (int i = 0; i < rounds && status; ++i) {
    float milliseconds = 0;
    good(api.eventRecord(events[0], nullptr), "cuEventRecord");
    good(api.copy(reinterpret_cast<Pointer>((*to)->address()),
                  reinterpret_cast<Pointer>((*from)->address()), bytes,
                  nullptr),
         "cuMemcpyAsync");
    good(api.eventRecord(events[1], nullptr), "cuEventRecord");
    good(api.eventFinish(events[1]), "cuEventSynchronize");
    if (good(api.eventElapsed(&milliseconds, events[0], events[1]),
             "cuEventElapsedTime") &&
        milliseconds > 0)
      best = std::max(best, 2e-6 * bytes / milliseconds);
  }
  for (Event event : events)
    if (event)
      api.eventDestroy(event);
  if (!status)
    return status.takeError();
  return best;
}

/// The driver's table, loaded once a process: null without a driver.
const std::shared_ptr<const Api> &sharedApi() {
  static const std::shared_ptr<const Api> api = [] {
    Expected<std::shared_ptr<const Api>> loaded = Api::load();
    if (loaded)
      return *loaded;
    log(LogLevel::info, loaded.error().message());
    return std::shared_ptr<const Api>();
  }();
  return api;
}

} // namespace

int deviceCount() {
  int count = 0;
  if (const auto &api = sharedApi())
    if (api->deviceCount(&count) != 0)
      return 0;
  return count;
}

std::shared_ptr<Device> device(int ordinal) {
  static std::mutex mutex;
  // Never given back: to make a context again takes the driver a while, and at
  // the end of the process it may be gone before us.
  static auto &current = *new std::map<int, std::shared_ptr<Device>>;
  std::lock_guard lock(mutex);
  if (std::shared_ptr<Device> known = current[ordinal])
    return known;
  if (ordinal < 0 || ordinal >= deviceCount())
    return nullptr;
  Expected<std::shared_ptr<Gpu>> gpu = Gpu::open(sharedApi(), ordinal);
  if (!gpu) {
    log(LogLevel::warning, gpu.error().message());
    return nullptr;
  }
  auto device = std::make_shared<CudaDevice>(std::move(*gpu));
  current[ordinal] = device;
  return device;
}

} // namespace knapper::cuda
