// TMA descriptors as the driver encodes them. Internal to the folder.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/drivers/cuda/CudaApi.h"

namespace knapper::cuda {

/// CUtensorMap: a kernel parameter by value.
struct alignas(64) EncodedMap {
  std::byte bytes[128];
};

/// The map of one of the command's buffers. Sizes, strides and places that the
/// hardware cannot address are UserErrors.
Status encode(const Api &api, const LaunchCommand &command,
              const TmaDescriptor &map, EncodedMap &encoded);

} // namespace knapper::cuda
