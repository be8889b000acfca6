#include "runtime/drivers/cuda/CudaCode.h"

#include "runtime/base/Log.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <unordered_set>

namespace knapper::cuda {
namespace {

constexpr uint32_t kMostThreads = 1024, kMostCtasPerSm = 32,
                   kMostSharedBytes = 1 << 20;
constexpr int kDynamicSharedBytes = 8; // CUfunction_attribute
// CUjit_option.
constexpr int kErrorLog = 5, kErrorLogBytes = 6, kSplitCompile = 34;
} // namespace

GpuExecutable::GpuExecutable(std::shared_ptr<Gpu> gpu, std::string code,
                             std::string where)
    : gpu(std::move(gpu)), image(std::move(code)), where(std::move(where)),
      ptx(PtxPieces::of(image)) {}

GpuExecutable::~GpuExecutable() {
  Current current(*gpu);
  DuringCapture allowed(*gpu);
  for (Module module : modules)
    gpu->api->moduleUnload(module);
}

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
  std::unique_ptr<GpuExecutable> made(
      new GpuExecutable(std::move(gpu), std::move(image), where));
  if (cubin || made->ptx.pieces.empty()) {
    Expected<Module> whole = made->loadModule(made->image.c_str(), 1);
    if (!whole)
      return whole.takeError();
  }
  return std::unique_ptr<Executable>(std::move(made));
}

/// `threads`: the most that the driver takes for it.
Expected<Module> GpuExecutable::loadModule(const void *code,
                                           unsigned threads) const {
  Current current(*gpu);
  DuringCapture allowed(*gpu);
  const Api &api = *gpu->api;
  Module module = nullptr;
  std::string log(4096, '\0');
  int names[] = {kErrorLog, kErrorLogBytes, kSplitCompile};
  auto number = [](uintptr_t value) { return reinterpret_cast<void *>(value); };
  void *values[] = {log.data(), number(log.size()), number(threads)};
  int result =
      api.moduleLoad(&module, code, threads > 1 ? 3 : 2, names, values);
  // Drivers before CUDA 13 take one thread.
  if (result == kInvalidValue && threads > 1)
    return loadModule(code, 1);
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
  modules.push_back(module);
  return module;
}

Expected<KernelHandle> GpuExecutable::kernel(uint64_t entry,
                                             std::string_view name) const {
  std::lock_guard lock(mutex);
  std::string key(name);
  if (auto it = kernels.find(key); it != kernels.end())
    return KernelHandle{&it->second};
  // The code does not say what it requires of its blocks to those who ask.
  const GpuEntry shape = GpuEntry::of(entry);
  if (!ptx.pieces.empty() && !ptx.pieceOf.contains(name))
    return userError(cat("no kernel '", key, "'"), where);
  if (shape.threads < 1 || shape.threads > kMostThreads ||
      shape.sharedBytes > kMostSharedBytes || shape.ctasPerSm > kMostCtasPerSm)
    return userError(cat("kernel '", key, "' wants blocks of ", shape.threads,
                         " threads, ", shape.sharedBytes,
                         " bytes of shared memory, ", shape.ctasPerSm,
                         " on a processor"),
                     where, "compile the model again");
  GpuKernel &kernel = kernels[key];
  kernel.entry = shape;
  kernel.code = this;
  if (ptx.pieces.empty())
    if (Status s = find(kernel, key, modules.front()); !s) {
      kernels.erase(key);
      return s.takeError();
    }
  return KernelHandle{&kernel};
}

Status GpuExecutable::find(GpuKernel &kernel, const std::string &name,
                           Module module) const {
  Current current(*gpu);
  const Api &api = *gpu->api;
  Function function = nullptr;
  int code = api.moduleFunction(&function, module, name.c_str());
  if (code == kNotFound)
    return userError(cat("no kernel '", name, "'"), where);
  if (Status s = api.check(code, "cuModuleGetFunction"); !s)
    return s;
  if (kernel.entry.sharedBytes > 0)
    if (Status s = api.check(
            api.functionSet(function, kDynamicSharedBytes,
                            static_cast<int>(kernel.entry.sharedBytes)),
            "cuFuncSetAttribute");
        !s)
      return s;
  kernel.function = function;
  return success();
}

Status GpuExecutable::prepare(std::span<const KernelHandle> handles) const {
  std::lock_guard lock(mutex);
  std::unordered_set<const void *> wanted;
  for (KernelHandle handle : handles)
    if (!static_cast<const GpuKernel *>(handle.handle)->function)
      wanted.insert(handle.handle);
  if (wanted.empty())
    return success();
  auto begin = std::chrono::steady_clock::now();
  std::set<size_t> missing; // in the text's order: the driver's cache finds it
  for (auto &[name, kernel] : kernels)
    if (wanted.contains(&kernel))
      if (size_t piece = ptx.pieceOf.at(name); !moduleOf.contains(piece))
        missing.insert(piece);
  if (!missing.empty()) {
    std::string text =
        ptx.joined(std::vector<size_t>(missing.begin(), missing.end()));
    Expected<Module> module =
        loadModule(text.c_str(), std::thread::hardware_concurrency());
    if (!module)
      return module.takeError();
    for (size_t piece : missing)
      moduleOf.emplace(piece, *module);
  }
  for (auto &[name, kernel] : kernels)
    if (wanted.contains(&kernel))
      if (Status s = find(kernel, name, moduleOf.at(ptx.pieceOf.at(name))); !s)
        return s;
  if (logEnabled(LogLevel::info)) {
    std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - begin;
    log(LogLevel::info, cat(where, ": ", wanted.size(), " kernels ready in ",
                            static_cast<int64_t>(took.count()), " ms"));
  }
  return success();
}

} // namespace knapper::cuda
