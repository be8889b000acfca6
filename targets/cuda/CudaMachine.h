// The machines that code for NVIDIA GPUs is planned for.
#pragma once

#include "ir/config/Machine.h"

#include <span>
#include <string_view>

namespace knapper {

/// One card stands for all of its compute capability.
struct CudaCard {
  std::string_view isa;
  config::Machine machine;
};

/// A100 (80 GB), RTX 3090, L40S and H200.
std::span<const CudaCard> cudaCards();

} // namespace knapper
