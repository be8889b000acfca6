//===- Liveness.h - From when to when a tensor's memory is needed ---------===//
//
// Over a function of kernels, external operators, branches, loops, views and
// constant expressions. Memory belongs to roots: results of all but views and
// constants (function arguments and constants have memory of their own). A view lies in its root,
// and using it uses the root.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::func {
class FuncOp;
}

namespace knapper::memory {

/// What `value` is a view of; itself when it is no view. The bytes between the
/// two are added to `offset` where one is given.
mlir::Value rootOf(mlir::Value value, ts::Dim *offset = nullptr);

struct LiveRange {
  unsigned first = 0, last = 0; ///< positions of kernels, both included
  bool returned = false;        ///< alive to the end, seen by the caller
};

struct Liveness {
  explicit Liveness(mlir::func::FuncOp function);

  /// Kernels, external operators, branches, loops and bind_size ops count 0, 1,
  /// ... in order.
  llvm::DenseMap<mlir::Operation *, unsigned> position;
  llvm::MapVector<mlir::Value, LiveRange> ranges; ///< of roots
};

/// The largest sum of bytes of kernel results alive at once, for the sizes that
/// `bytes` gives types.
double peakBytes(const Liveness &liveness,
                 llvm::function_ref<double(mlir::Type)> bytes);

} // namespace knapper::memory
