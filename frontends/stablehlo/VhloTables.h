//===- VhloTables.h - The ops of vhlo and sdy -----------------------------===//
#pragma once

#include "mlir/Support/LLVM.h"

namespace knapper {

/// An op in one or several versions that have the same attributes.
struct VhloOp {
  llvm::StringRef name;
  unsigned first, last; ///< versions; 0: the name has none
  /// In the order in which bytecode stores them, a space between.
  llvm::StringRef attributes;
};

llvm::ArrayRef<VhloOp> vhloOps();
llvm::ArrayRef<VhloOp> sdyOps();

} // namespace knapper
