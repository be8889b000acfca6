#include "runtime/drivers/cpu/OneDnn.h"

#include "runtime/base/Text.h"

namespace knapper::cpu {
namespace {

/// dnnl_version_t
struct Version {
  int major, minor, patch;
  const char *hash;
  unsigned cpuRuntime, gpuRuntime;
};
constexpr int kMajor = 3;
constexpr unsigned kSequential = 1, kOpenMp = 2, kTbb = 4, kThreadPool = 8;
constexpr int kCpu = 1; // dnnl_engine_kind_t

const char *runtimeText(unsigned runtime) {
  switch (runtime) {
  case kSequential:
    return "one thread";
  case kOpenMp:
    return "OpenMP";
  case kTbb:
    return "TBB";
  case kThreadPool:
    return "a thread pool of its caller's";
  default:
    return "DPC++";
  }
}

} // namespace

Expected<std::shared_ptr<const OneDnn>> OneDnn::open() {
  ASSIGN_OR_RETURN(VendorFile file, openVendorFile({"libdnnl.so.3"}));
  std::shared_ptr<OneDnn> made(new OneDnn);
  const Version *(*version)() = nullptr;
  const char *hint = "use oneDNN 3 with OpenMP, such as PyPI's onednn-cpu-gomp";
  if (!file.find(version, "dnnl_version"))
    return deviceError("it has no dnnl_version", file.path, hint);
  const Version &v = *version();
  std::string number = cat(v.major, ".", v.minor, ".", v.patch);
  if (v.major != kMajor)
    return deviceError(cat("it is oneDNN ", number, ", not ", kMajor),
                       file.path, hint);
  if (v.cpuRuntime == kOpenMp) {
    if (!file.find(made->setThreads, "omp_set_num_threads") ||
        !file.find(made->maxThreads, "omp_get_max_threads"))
      return deviceError("its OpenMP cannot be found", file.path, hint);
  } else if (v.cpuRuntime != kSequential) {
    return deviceError(cat("it computes with ", runtimeText(v.cpuRuntime),
                           ", whose threads would not be those of a run"),
                       file.path, hint);
  }
  const char *missing = nullptr;
  if (!file.find(made->descBytes, "dnnl_memory_desc_get_size"))
    missing = "dnnl_memory_desc_get_size";
#define ONEDNN_SYMBOL(member, name, parameters)                                \
  if (!file.find(made->member, name))                                          \
    missing = name;
#include "runtime/drivers/cpu/OneDnnSymbols.def"
#undef ONEDNN_SYMBOL
  if (missing)
    return deviceError(cat("it has no ", missing), file.path, hint);
  if (int status = made->engineCreate(&made->engine, kCpu, 0))
    return deviceError(cat("dnnl_engine_create returned ", status), file.path,
                       hint);
  made->said =
      cat("oneDNN ", number, " (", runtimeText(v.cpuRuntime), "), ", file.path);
  made->file = std::move(file);
  return std::shared_ptr<const OneDnn>(std::move(made));
}

OneDnn::~OneDnn() {
  if (engine)
    engineDestroy(engine);
}

} // namespace knapper::cpu
