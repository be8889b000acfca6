// A vendor's operation as the workers of a CPU queue run it.
#pragma once

#include "runtime/base/KernelAbi.h"
#include "runtime/device/Device.h"

namespace knapper::cpu {

class CpuCall : public VendorCall {
public:
  /// Programs [begin, end), as a KernelFn. Several threads run different ones
  /// at once. A failure is kernelLibraryFailed in the context's status.
  virtual void run(void *const *buffers, const KernelContext &context,
                   int64_t begin, int64_t end) const = 0;
};

} // namespace knapper::cpu
