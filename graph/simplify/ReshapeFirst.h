//===- ReshapeFirst.h - Reshapes that pass transposes ---------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

#include <optional>

namespace knapper {

/// What reshape(transpose(x)) is as transpose(reshape(x)).
struct ReshapeFirst {
  llvm::SmallVector<ts::Dim> shape; ///< of reshape(x)
  llvm::SmallVector<int64_t> permutation;
};

/// Nothing where a group of dims that the reshape merges or splits does not lie
/// together in x (graph/simplify/Movement.cpp).
std::optional<ReshapeFirst> asReshapeFirst(ts::ReshapeOp op);

} // namespace knapper
