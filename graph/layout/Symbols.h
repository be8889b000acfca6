//===- Symbols.h - Symbols that a rewrite adds ----------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace knapper {

/// A symbol of the module that no other means: `stem` or `stem_0`, ...
mlir::StringAttr newSymbol(mlir::ModuleOp module, llvm::StringRef stem);

} // namespace knapper
