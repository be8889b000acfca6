// Asking for memory before code that does not survive a refusal.
#pragma once

#include "runtime/base/Error.h"

#include <cstdint>
#include <string>
#include <sys/mman.h>

namespace knapper {

/// A DeviceError unless so many bytes could be had now, for example under
/// `ulimit -v`. Microseconds; any thread. LLVM and MLIR do not look at what
/// malloc gives them, so a compile asks before each step that it gives them.
inline Status checkHeadroom(uint64_t bytes) {
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return deviceError("out of memory: less than " +
                           std::to_string(bytes >> 20) + " MB are left",
                       "", "free memory, or raise this process's limit");
  munmap(memory, bytes);
  return success();
}

} // namespace knapper
