//===- TruePlaces.h - Results whose size a mask decides -------------------===//
#pragma once

#include "frontends/common/NodeBuilder.h"

namespace knapper {

/// The indices of the true elements of a mask with a dim or more, in row-major
/// order: [rank, count] (i64). `bind` makes a size of the number of them.
mlir::Value truePlaces(NodeBuilder &n, mlir::Value mask,
                       llvm::function_ref<ts::Dim(mlir::Value count)> bind);

} // namespace knapper
