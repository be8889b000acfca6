//===- Product.h - What a kernel's matrix product reads -------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

namespace knapper {

/// One side of the product, reduced to addresses: batch dims, free dims that
/// stand alone, one merged free dim, one contracting dim.
struct Side {
  mlir::BlockArgument base;
  ts::Dim offset;
  llvm::SmallVector<ts::Dim> batchStrides;
  llvm::SmallVector<ts::Dim> outerSizes, outerStrides; ///< free dims not merged
  ts::Dim free, freeStride; ///< the merged innermost ones
  ts::Dim contract, contractStride;
};

/// Everything about the product that choosing and building need.
struct Product {
  ts::DotOp dot;
  Side lhs, rhs;
  bool packed = false;     ///< rhs is a constant matrix, packed in panels
  bool bytes = false;      ///< u8 times i8 in i32, packed; else floats
  bool pairs = false;      ///< bf16, lhs consecutive along what is contracted
  bool transposed = false; ///< that matrix is N x K
  llvm::SmallVector<ts::Dim> batch;
};

/// The product of a kernel whose hero is one: each side one strided view of a
/// kernel argument, one dim of columns; floats of at most 32 bits, or u8 times
/// a constant matrix of i8. Nothing otherwise.
std::optional<Product> analyseProduct(ts::KernelOp kernel);

} // namespace knapper
