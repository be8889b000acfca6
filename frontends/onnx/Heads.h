// Attention's heads as a dim of their own, and back.
#pragma once

#include "frontends/onnx/Node.h"

namespace knapper {

/// [B, heads, S, D] to [B, S, heads * D]. Null after a failure.
inline mlir::Value mergeHeads(Node &n, mlir::Value x) {
  mlir::Value moved = n.transpose(x, {0, 2, 1, 3});
  if (!moved)
    return {};
  llvm::SmallVector<ts::Dim> d = ts::dimsOf(moved);
  return n.reshape(moved, {d[0], d[1], d[2] * d[3]});
}

} // namespace knapper
