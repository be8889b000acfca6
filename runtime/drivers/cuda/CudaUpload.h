// Uploads of gigabytes from pageable memory.
#pragma once

#include "runtime/drivers/cuda/CudaContext.h"

namespace knapper::cuda {

/// Returns when the bytes are on the device.
Status uploadByThreads(const std::shared_ptr<Gpu> &gpu, void *target,
                       const void *source, uint64_t bytes, int32_t threads);

} // namespace knapper::cuda
