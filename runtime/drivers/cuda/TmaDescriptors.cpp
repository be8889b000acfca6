#include "runtime/drivers/cuda/TmaDescriptors.h"

#include "runtime/base/Checked.h"
#include "runtime/base/Text.h"

#include <limits>

namespace knapper::cuda {
namespace {

// CUtensorMapDataType, CUtensorMapL2promotion.
constexpr int kHalf = 6, kFloat = 7, kBrainHalf = 9, kTensorFloat = 11;
constexpr int kPromote128 = 2;
constexpr int64_t kAlignment = 16;

int dataType(const TmaDescriptor &map) {
  switch (map.dtype) {
  case DType::f16:
    return kHalf;
  case DType::bf16:
    return kBrainHalf;
  case DType::f32:
    return map.tf32 ? kTensorFloat : kFloat;
  default:
    return -1;
  }
}

int swizzleMode(uint32_t bytes) {
  return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0;
}

} // namespace

Status encode(const Api &api, const LaunchCommand &command,
              const TmaDescriptor &map, EncodedMap &encoded) {
  int type = dataType(map);
  if (type < 0)
    return userError("asynchronous copies of this element type are unknown",
                     "launch", "compile the model again");
  auto elementBytes = static_cast<int64_t>(byteSize(map.dtype));
  uint64_t sizes[kMaxMapRank], strides[kMaxMapRank];
  unsigned ones[kMaxMapRank];
  for (uint32_t d = 0; d < map.rank; ++d) {
    // Coordinates have 32 bits and a sign.
    if (map.sizes[d] < 1 || map.sizes[d] > std::numeric_limits<int32_t>::max())
      return userError(cat("a GPU does not copy blocks of a tensor with ",
                           map.sizes[d], " elements along one dim"),
                       "launch", "smaller sizes");
    sizes[d] = static_cast<uint64_t>(map.sizes[d]);
    ones[d] = 1;
    if (d + 1 == map.rank)
      break;
    std::optional<int64_t> bytes = checkedMul(map.strides[d], elementBytes);
    if (!bytes || *bytes < kAlignment || *bytes % kAlignment)
      return userError(cat("a GPU does not copy blocks of a tensor whose rows "
                           "lie ",
                           map.strides[d], " elements apart"),
                       "launch", "compile the model again");
    strides[d] = static_cast<uint64_t>(*bytes);
  }
  auto *address = static_cast<std::byte *>(command.buffers[map.buffer]) +
                  map.offset * elementBytes;
  if (reinterpret_cast<uintptr_t>(address) % kAlignment)
    return userError("a tensor does not lie at a multiple of 16 bytes",
                     "launch", "copy it to memory of its own");
  return api.check(api.encodeTiled(&encoded, type, map.rank, address, sizes,
                                   strides, map.box, ones, /*interleave=*/0,
                                   swizzleMode(map.swizzle), kPromote128,
                                   /*fill=*/0),
                   "cuTensorMapEncodeTiled");
}

} // namespace knapper::cuda
