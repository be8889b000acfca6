// A tensor as DLPack lays it out, the same in all its versions.
#pragma once

#include <cstdint>

namespace knapper::capi {

struct DLTensor {
  void *data;
  int32_t deviceType, deviceId;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides; // in elements; strides NULL: dense, row-major
  uint64_t byteOffset;
};

/// Of DLTensor::deviceType.
constexpr int32_t dlCpu = 1, dlCuda = 2;

} // namespace knapper::capi
