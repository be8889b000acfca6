//===- AffineIndex.h - Integer tensors that are affine in their position --===//
#pragma once

#include "ir/tensor/Dialect.h"

namespace knapper {

/// element[i0, i1, ..] = offset + sum of coefficients[d] * i_d. Coefficients
/// of dims of size 1 are 0.
struct AffineIndex {
  llvm::SmallVector<ts::Dim> coefficients;
  ts::Dim offset;

  /// Whether every element is the same.
  bool isUniform() const;
};

/// Through iota, constants, sizes, arithmetic and movement.
std::optional<AffineIndex> affineIndex(mlir::Value value);
/// lhs - rhs.
std::optional<AffineIndex> affineDifference(mlir::Value lhs, mlir::Value rhs);

} // namespace knapper
