// NVIDIA GPUs as TargetDescs.
#pragma once

#include "codegen/TargetDesc.h"
#include "runtime/base/Error.h"

#include <string_view>

namespace knapper {

/// "sm_80", "sm_86", "sm_89" or "sm_90a". A "vector register" is what one
/// access of a block moves: 256 threads of 16 bytes; a thread has room for
/// about 48 of them. The machine is that of CudaMachine.h. UserError for
/// another name.
Expected<TargetDesc> cudaTarget(std::string_view isa);

} // namespace knapper
