//===- Liveness.h - From when to when a tensor's memory is needed ---------===//
//
// The function consists of kernels, external operators, branches, loops, views
// and constant expressions. A root is a result that owns memory: that of any op
// but views and constants. Function arguments and constants have memory of
// their own. A view lies in its root's memory, and a use of the view is a use
// of the root. Callers: orderKernels, inPlace and the memory plan.
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

/// The value that `value` is a view of, through any number of views; `value`
/// itself if it is no view. If `offset` is given, the view's byte offset in the
/// root is added to it.
mlir::Value rootOf(mlir::Value value, ts::Dim *offset = nullptr);

/// When a root's memory is in use.
struct LiveRange {
  unsigned first = 0, last = 0; ///< positions of ops, both included
  bool returned = false;        ///< a result of the function: alive to the end
};

/// Positions and live ranges of one function; valid until the function changes.
struct Liveness {
  explicit Liveness(mlir::func::FuncOp function);

  /// Kernels, external operators, branches, loops and bind_size ops, numbered
  /// 0, 1, ... in their order.
  llvm::DenseMap<mlir::Operation *, unsigned> position;
  llvm::MapVector<mlir::Value, LiveRange> ranges; ///< of roots
};

/// The largest number of bytes alive at one position. `bytes` gives the bytes
/// of a type.
double peakBytes(const Liveness &liveness,
                 llvm::function_ref<double(mlir::Type)> bytes);

} // namespace knapper::memory
