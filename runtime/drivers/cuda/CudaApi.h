// The NVIDIA driver, found at run time: nothing of CUDA is needed to build, and
// a machine without the driver is no error. Symbols.def is the table.
#pragma once

#include "runtime/base/Error.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace knapper::cuda {

// As cuda.h has them; handles are opaque.
using DeviceId = int;
using Pointer = uint64_t;
using Context = struct ContextTag *;
using Stream = struct StreamTag *;
using Event = struct EventTag *;
using Module = struct ModuleTag *;
using Function = struct FunctionTag *;
using Graph = struct GraphTag *;
using GraphExec = struct GraphExecTag *;

/// Every function returns 0 or a code. May be called from any thread.
struct Api {
#define CUDA_SYMBOL(member, name, parameters) int(*member) parameters = nullptr;
#include "runtime/drivers/cuda/Symbols.def"
#undef CUDA_SYMBOL

  /// Loads the driver's library and initialises it. A DeviceError when there is
  /// none, or one too old for a function of the table.
  static Expected<std::shared_ptr<const Api>> load();

  /// Code 0: success; else a DeviceError that names the call and the code.
  Status check(int code, const char *call) const;
};

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kNotFound = 500,
              kNotReady = 600;

} // namespace knapper::cuda
