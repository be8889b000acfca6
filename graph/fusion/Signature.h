//===- Signature.h - When two kernels are one piece of code ---------------===//
//
// The canonical form of a kernel: symbols renamed k0, k1, ... in order of first
// appearance (operand types, then ops), locations and names dropped, weights
// being typed operands anyway. Its printed text is the identity of the kernel;
// the signature is a hash of it, the same in every process.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace knapper::fusion {

struct CanonicalKernel {
  /// A module that holds one function without body but one kernel: arguments
  /// are the kernel's operands, it returns the kernel's results.
  std::string text;
  /// 16 hex digits: XXH3-64 of the text.
  std::string signature;
  /// What k0, k1, ... stand for in the kernel's program: one size a symbol.
  llvm::SmallVector<ts::Dim> symbols;
};

/// The kernel in canonical form. `kernel` is not changed; its attributes
/// `schedules` and `signature` take no part.
CanonicalKernel canonicalKernel(ts::KernelOp kernel);

/// The canonical text as a module again, in any context that has the dialects;
/// null (with a diagnostic) when it does not parse.
mlir::OwningOpRef<mlir::Operation *>
parseCanonicalKernel(llvm::StringRef text, mlir::MLIRContext *context);

} // namespace knapper::fusion
