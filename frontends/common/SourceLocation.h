//===- SourceLocation.h - Ops and the user's lines ------------------------===//
#pragma once

#include "mlir/IR/Location.h"

namespace knapper {

/// The location of an op: "name (file.py:12)", as reports say of a kernel what
/// it came from, then what the op is, then the line. `line` is "path/file.py:12",
/// or empty where it is not known.
mlir::Location sourceLocation(mlir::MLIRContext *context, llvm::StringRef name,
                              llvm::StringRef kind, llvm::StringRef line);

} // namespace knapper
