// Matmuls by cuBLASLt.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/drivers/cuda/CublasLt.h"

namespace knapper::cuda {

/// A vendor's operation as a GPU's queue gives it to a stream.
class GpuCall : public VendorCall {
public:
  /// `workspace`: `scratch` bytes of the queue's own, of which one command
  /// after the other has the use. Nothing waits, so that a stream may be
  /// captured.
  virtual Status enqueue(void *const *buffers, void *workspace,
                         Stream stream) const = 0;
};

/// A DeviceError where cuBLASLt has no algorithm for the matmul. The device's
/// context is current.
Expected<std::shared_ptr<const VendorCall>>
cublasLtMatmul(std::shared_ptr<const CublasLt> library,
               const VendorMatmul &matmul);

} // namespace knapper::cuda
