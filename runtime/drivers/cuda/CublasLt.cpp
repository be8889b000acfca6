#include "runtime/drivers/cuda/CublasLt.h"

#include "runtime/base/Text.h"

#include <optional>

namespace knapper::cuda {

Expected<std::shared_ptr<const CublasLt>>
CublasLt::open(std::shared_ptr<const Gpu> gpu) {
  ASSIGN_OR_RETURN(VendorFile file,
                   openVendorFile({"libcublasLt.so.13", "libcublasLt.so.12"}));
  const char *hint = "use cuBLASLt 12 or 13, such as PyTorch brings";
  size_t (*version)() = nullptr;
  if (!file.find(version, "cublasLtGetVersion"))
    return deviceError("it has no cublasLtGetVersion", file.path, hint);
  // 130100, 120804: major, minor and patch.
  size_t number = version(), major = number / 10000;
  if (major != 12 && major != 13)
    return deviceError(cat("it is cuBLASLt ", major, ", not 12 or 13"),
                       file.path, hint);
  std::shared_ptr<CublasLt> made(new CublasLt);
  made->gpu = std::move(gpu);
  const char *missing = nullptr;
#define CUBLASLT_SYMBOL(member, name, parameters)                              \
  if (!file.find(made->member, name))                                          \
    missing = name;
#include "runtime/drivers/cuda/CublasLtSymbols.def"
#undef CUBLASLT_SYMBOL
  if (missing)
    return deviceError(cat("it has no ", missing), file.path, hint);
  if (int status = made->create(&made->handle))
    return deviceError(cat("cublasLtCreate returned ", status), file.path,
                       hint);
  made->said = cat("cuBLASLt ", major, ".", number / 100 % 100, ".",
                   number % 100, ", ", file.path);
  return std::shared_ptr<const CublasLt>(std::move(made));
}

CublasLt::~CublasLt() {
  std::optional<Current> current;
  if (gpu)
    current.emplace(*gpu);
  if (handle)
    destroy(handle);
}

} // namespace knapper::cuda
