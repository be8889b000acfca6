//===- OpaqueIndexing.h - Of ops that read their operands as a whole ------===//
//
// Used by the ops of their own files (Fourier.cpp, PackedDot.cpp, ...).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

namespace knapper::ts {

/// No element of the first result stands for certain elements of operands: the
/// loops are the result's dims, and behind them `reduced`, if there is such a
/// dim.
Indexing opaqueIndexing(mlir::Operation *op,
                        std::optional<Dim> reduced = std::nullopt);

} // namespace knapper::ts
