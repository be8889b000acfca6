//===- Selection.h - What data selects ------------------------------------===//
#pragma once

#include "frontends/onnx/Node.h"

namespace knapper {

/// The indices (i64, rising) of the true elements of a vector of booleans.
/// Their number is a fresh symbol named after `name`.
mlir::Value whereTrue(Node &n, mlir::Value mask, llvm::StringRef name);

} // namespace knapper
