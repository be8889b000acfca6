#pragma once

#include "ir/tensor/Dialect.h"

namespace knapper {

/// The first op of a kind in a kernel's body; null where there is none.
template <typename OpT> OpT firstOp(ts::KernelOp kernel) {
  auto ops = kernel.getBody().getOps<OpT>();
  return ops.empty() ? OpT() : *ops.begin();
}

} // namespace knapper
