// Uploads of gigabytes.
#pragma once

#include "runtime/device/Upload.h"
#include "runtime/drivers/cuda/CudaContext.h"

#include <span>

namespace knapper::cuda {

/// Returns when the bytes are on the device.
Status uploadByThreads(const std::shared_ptr<Gpu> &gpu,
                       std::span<const UploadPart> parts, int32_t threads);

} // namespace knapper::cuda
