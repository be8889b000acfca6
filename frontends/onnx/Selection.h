//===- Selection.h - What data selects ------------------------------------===//
#pragma once

#include "frontends/onnx/Node.h"

namespace knapper {

/// The indices of the true elements of a mask with a dim or more: [rank,
/// count]. Their number is a fresh symbol named after `name`.
mlir::Value truePlaces(Node &n, mlir::Value mask, llvm::StringRef name);
/// The indices (i64, rising) of the true elements of a vector of booleans.
/// Their number is a fresh symbol named after `name`.
mlir::Value whereTrue(Node &n, mlir::Value mask, llvm::StringRef name);

} // namespace knapper
