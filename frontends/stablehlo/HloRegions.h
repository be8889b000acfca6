//===- HloRegions.h - What the regions of an op compute
//----------------------===//
//
// Reductions, scatters and sorts carry a function of scalars as a region. It is
// recognised by its form; what is not is refused where it is used.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/stablehlo/HloNode.h"

namespace knapper {

/// How a region of two arguments combines them: one commutative op of both.
std::optional<ts::ReduceKind> hloCombiner(mlir::Operation *op, unsigned region);

/// Whether the region returns its second argument, as scatters that replace do.
bool hloReplaces(mlir::Operation *op, unsigned region);

/// Whether the region takes its second argument from its first.
bool hloSubtracts(mlir::Operation *op, unsigned region);

/// Whether the region of four arguments keeps the larger (max) or smaller value
/// with its index, the first of equal ones, NaN before all.
std::optional<ts::ReduceKind> hloArgReduction(mlir::Operation *op);

/// The comparison that the region returns, of its arguments 0 and 1: ge, gt for
/// what keeps the largest in select_and_scatter.
std::optional<ts::ComparePredicate> hloSelector(mlir::Operation *op,
                                                unsigned region);

/// One key of a sort: the operand and whether small ones come first.
struct HloSortKey {
  unsigned operand;
  bool ascending;
};
/// The keys of a comparator of `arguments` scalars, the region of an op or a
/// function, the first decides first; empty where it is none.
llvm::SmallVector<HloSortKey> hloSortKeys(mlir::Operation *op,
                                          unsigned arguments);

/// What the region of scalars gives for all elements of `arguments` at once,
/// which have one shape. Nothing where it has ops that are not elementwise,
/// which are reported.
std::optional<llvm::SmallVector<mlir::Value>>
hloApply(HloNode &n, unsigned region, llvm::ArrayRef<mlir::Value> arguments);

/// x with y: and, or of booleans for add, mul, max, min of them.
mlir::Value hloCombine(HloNode &n, ts::ReduceKind kind, mlir::Value x,
                       mlir::Value y);
/// What changes nothing in a combination; null where there is none.
mlir::Value hloNeutral(HloNode &n, ts::ReduceKind kind, mlir::Type element);
/// Whether the scalar is a constant that changes nothing.
bool hloIsNeutral(ts::ReduceKind kind, mlir::Value scalar);

} // namespace knapper
