// What a device is to be given in gigabytes: parts of memory and of files.
#pragma once

#include "runtime/base/Error.h"

#include <cstdint>

namespace knapper {

/// Bytes of pageable memory, or of a file that stays open meanwhile.
struct UploadPart {
  void *target = nullptr; ///< on the device
  uint64_t bytes = 0;
  const void *source = nullptr; ///< null: of the file
  int file = -1;
  uint64_t offset = 0; ///< in the file
};

/// `size` bytes of the part, from its byte `at` on. A file that ends before is
/// a UserError, a failed read a DeviceError.
Status readPart(const UploadPart &part, uint64_t at, void *to, uint64_t size);

} // namespace knapper
