//===- MatmulProblem.h - What a kernel's matmul reads --------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

namespace knapper {

/// One side of the matmul as addresses: batch dims, free dims that cannot be
/// merged, one merged free dim, one contracting dim. Strides in elements.
struct MatmulOperand {
  mlir::BlockArgument base;
  ts::Dim offset;
  llvm::SmallVector<ts::Dim> batchStrides;
  llvm::SmallVector<ts::Dim> outerSizes, outerStrides; ///< free dims not merged
  ts::Dim free, freeStride; ///< the merged innermost ones
  ts::Dim contract, contractStride;
};

/// A kernel's matmul in the form that the schedules choose and build from.
struct MatmulProblem {
  mlir::Value result;              ///< of the matmul op
  llvm::SmallVector<ts::Dim> rows; ///< free dims of the left side
  MatmulOperand lhs, rhs;
  bool packed = false;     ///< rhs is a constant matrix, packed in panels
  bool bytes = false;      ///< u8 times i8 in i32, packed; else floats
  bool pairs = false;      ///< bf16, lhs consecutive along K
  bool transposed = false; ///< that matrix is N x K
  /// The packed matrix holds integers of which `group` rows of a column have
  /// one scale and zero point (ts.scaled_dot). 0: it holds no such integers.
  int64_t group = 0;
  bool nibbles = false;            ///< integers of four bits, else bytes
  mlir::BlockArgument scale, zero; ///< zero may be null
  llvm::SmallVector<ts::Dim> batch;
  /// For ts.grouped_matmul: the row behind the last one of each expert. The
  /// left side and the result then have no batch dim. Null: an ordinary matmul.
  mlir::BlockArgument ends;

  /// Batch dims of the result.
  llvm::ArrayRef<ts::Dim> resultBatch() const {
    return ends ? llvm::ArrayRef<ts::Dim>() : batch;
  }
};

/// The largest number of blocks of `height` rows that the rows of all experts
/// need, if a block has rows of one expert only.
ts::Dim groupedBlocks(const MatmulProblem &matmul, int64_t height);

/// The matmul of a kernel whose hero is a matmul. Nothing unless each side is a
/// strided view of a kernel argument, there is one dim of columns, and the
/// operands are floats of at most 32 bits, or u8 and a constant matrix of i8,
/// or floats and a constant matrix of scaled integers.
std::optional<MatmulProblem> analyseMatmul(ts::KernelOp kernel);

} // namespace knapper
