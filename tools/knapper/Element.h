//===- Element.h - Elements of tensors as numbers -------------------------===//
#pragma once

#include "knapper/knapper.h"

namespace knapper::cli {

/// Element `i` in row-major order, of a tensor in the host's memory.
double element(const knapper_tensor &tensor, int64_t i);

} // namespace knapper::cli
