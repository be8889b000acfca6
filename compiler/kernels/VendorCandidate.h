//===- VendorCandidate.h - A matmul for a vendor's library ----------------===//
#pragma once

#include "ir/tensor/Dialect.h"
#include "runtime/base/Vendor.h"

namespace knapper {

/// As VendorMatrix, in the kernel's symbols. `argument`: inputs, then results.
struct VendorOperand {
  unsigned argument = 0;
  ts::Dim offset, rowStride, columnStride;
  llvm::SmallVector<ts::Dim> batchStrides;
};

/// As VendorMatmul, in the kernel's symbols.
struct VendorCandidate {
  VendorLibrary library = VendorLibrary::none;
  llvm::SmallVector<ts::Dim> batch;
  ts::Dim rows, columns, depth;
  VendorOperand lhs, rhs, result;
  std::optional<VendorOperand> bias;
  VendorActivation activation = VendorActivation::none;
  bool tf32 = false;
};

} // namespace knapper
