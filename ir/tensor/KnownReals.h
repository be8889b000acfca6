// Small float tensors whose elements are known numbers, as exporters compute
// sizes with them once the sizes of the inputs are numbers: each op rounds as
// its element type does.
#pragma once

#include "mlir/IR/Value.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace knapper::ts {

/// Whether KnownReals computes the op's float result when its operands are
/// known.
bool isRealArithmetic(mlir::Operation *op);

class KnownReals {
public:
  using Numbers = std::optional<llvm::SmallVector<llvm::APFloat>>;
  /// The elements of a small integer tensor, where all are numbers.
  using Integers = llvm::function_ref<std::optional<llvm::SmallVector<int64_t>>(
      mlir::Value)>;

  /// The elements of a float tensor of at most 64, in row-major order; nothing
  /// when they depend on data, or on sizes that are no numbers.
  Numbers of(mlir::Value value, Integers integers);

private:
  Numbers ofOp(mlir::Operation *op, Integers integers);

  llvm::DenseMap<mlir::Value, Numbers> known;
};

} // namespace knapper::ts
