#include "runtime/drivers/cuda/CudaApi.h"

#include "runtime/base/Text.h"

#include <dlfcn.h>

namespace knapper::cuda {

Expected<std::shared_ptr<const Api>> Api::load() {
  // Never closed: the driver has threads of its own.
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return deviceError("no NVIDIA driver is installed", "libcuda.so.1");
  auto api = std::make_shared<Api>();
  const char *missing = nullptr;
  auto find = [&](auto &member, const char *name) {
    member =
        reinterpret_cast<std::decay_t<decltype(member)>>(dlsym(library, name));
    if (!member)
      missing = name;
  };
#define CUDA_SYMBOL(member, name, parameters) find(api->member, name);
#include "runtime/drivers/cuda/Symbols.def"
#undef CUDA_SYMBOL
  if (missing)
    return deviceError(cat("the NVIDIA driver has no ", missing),
                       "libcuda.so.1", "a driver of CUDA 12.0 or newer");
  if (Status status = api->check(api->init(0), "cuInit"); !status)
    return status.takeError();
  return std::shared_ptr<const Api>(std::move(api));
}

Status Api::check(int code, const char *call) const {
  if (code == 0)
    return success();
  const char *name = nullptr, *text = nullptr;
  errorName(code, &name);
  errorText(code, &text);
  const char *hint = "";
  if (code == kOutOfMemory)
    hint = "smaller sizes, or free memory that other programs hold";
  return deviceError(cat(name ? name : "error", " (", code,
                         "): ", text ? text : "unknown to the driver"),
                     call, hint);
}

} // namespace knapper::cuda
