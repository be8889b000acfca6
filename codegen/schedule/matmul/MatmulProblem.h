//===- MatmulProblem.h - What a kernel's matmul reads --------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

namespace knapper {

/// One side of the matmul, reduced to addresses: batch dims, free dims that
/// stand alone, one merged free dim, one contracting dim.
struct MatmulOperand {
  mlir::BlockArgument base;
  ts::Dim offset;
  llvm::SmallVector<ts::Dim> batchStrides;
  llvm::SmallVector<ts::Dim> outerSizes, outerStrides; ///< free dims not merged
  ts::Dim free, freeStride; ///< the merged innermost ones
  ts::Dim contract, contractStride;
};

/// Everything about the matmul that choosing and building need.
struct MatmulProblem {
  mlir::Value result;              ///< of the hero
  llvm::SmallVector<ts::Dim> rows; ///< free dims of the left side
  MatmulOperand lhs, rhs;
  bool packed = false;     ///< rhs is a constant matrix, packed in panels
  bool bytes = false;      ///< u8 times i8 in i32, packed; else floats
  bool pairs = false;      ///< bf16, lhs consecutive along what is contracted
  bool transposed = false; ///< that matrix is N x K
  /// The packed matrix holds integers, `group` rows of a column under one scale
  /// and zero (ts.scaled_dot). 0: it does not.
  int64_t group = 0;
  bool nibbles = false;            ///< integers of four bits, else bytes
  mlir::BlockArgument scale, zero; ///< zero may be null
  llvm::SmallVector<ts::Dim> batch;
  /// Where the rows of each index of the one batch dim end (ts.grouped_matmul):
  /// the left side and the result have rows alone. Null: every index has all.
  mlir::BlockArgument ends;

  /// Batch dims of the result.
  llvm::ArrayRef<ts::Dim> resultBatch() const {
    return ends ? llvm::ArrayRef<ts::Dim>() : batch;
  }
};

/// Blocks of `height` rows that hold the rows of all experts, each block those
/// of one: so many at most.
ts::Dim groupedBlocks(const MatmulProblem &matmul, int64_t height);

/// The matmul of a kernel whose hero is one: each side one strided view of a
/// kernel argument, one dim of columns; floats of at most 32 bits, u8 times a
/// constant matrix of i8, or floats times a constant matrix of scaled integers.
/// Nothing otherwise.
std::optional<MatmulProblem> analyseMatmul(ts::KernelOp kernel);

} // namespace knapper
