// cuBLASLt as far as we call it: opened where it lies, such as beside PyTorch,
// and declared here, so that no header of it is needed.
#pragma once

#include "runtime/device/OpenVendor.h"
#include "runtime/drivers/cuda/CudaContext.h"

#include <memory>
#include <string>

namespace knapper::cuda {

/// Threads: any, all at once. The context of its device is current to whoever
/// calls.
class CublasLt {
public:
  using Handle = struct HandleOf *;
  using Operation = struct OperationOf *;
  using Layout = struct LayoutOf *;
  using Preference = struct PreferenceOf *;
  struct Algorithm {
    uint64_t data[8];
  };
  struct Heuristic { // cublasLtMatmulHeuristicResult_t
    Algorithm algorithm;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
  };

  /// A DeviceError where none of the major versions 12 and 13 lies here, or it
  /// cannot be initialised.
  /// `gpu`: whose context is current, kept for its end; null: a test.
  static Expected<std::shared_ptr<const CublasLt>>
  open(std::shared_ptr<const Gpu> gpu);
  ~CublasLt();
  CublasLt(const CublasLt &) = delete;

  /// "cuBLASLt 13.1.0, .../libcublasLt.so.13"
  const std::string &text() const { return said; }
  Handle handle = nullptr;

#define CUBLASLT_SYMBOL(member, name, parameters)                              \
  int(*member) parameters = nullptr;
#include "runtime/drivers/cuda/CublasLtSymbols.def"
#undef CUBLASLT_SYMBOL

private:
  CublasLt() = default;
  std::shared_ptr<const Gpu> gpu;
  std::string said;
};

} // namespace knapper::cuda
