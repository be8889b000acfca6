//===- HloBodies.h - Regions of ops as functions of the module -----------===//
#pragma once

#include "frontends/stablehlo/HloImporter.h"
#include "frontends/stablehlo/HloNode.h"

namespace knapper {

/// A region whose ops are built in a function of their own.
struct HloBody {
  GraphBody body;
  HloFrame frame;
};

/// All results of the op. With what is missing inside (null), no result and no
/// error.
mlir::LogicalResult giveHloResults(HloNode &n,
                                   llvm::ArrayRef<mlir::Value> values);

/// Begins a function with `types` as arguments, which the arguments of the
/// region's block stand for. Null after an error of `n`.
mlir::Block *beginHloBody(HloNode &n, unsigned region, llvm::StringRef name,
                          llvm::ArrayRef<mlir::Type> types, HloBody &body);

/// What a block returns, imported where ops are built now. Nothing after an
/// error of `n` or where something in it is missing.
std::optional<llvm::SmallVector<mlir::Value>>
importHloBlock(HloNode &n, mlir::Block &block, HloFrame &frame);

} // namespace knapper
