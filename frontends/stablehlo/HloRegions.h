//===- HloRegions.h - What the regions of an op compute ------------------===//
//
// Reductions, scatters and sorts carry a function of scalars as a region. It is
// recognised by its form; what is not is refused where it is used.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/stablehlo/HloNode.h"

namespace knapper {

/// The op of that name that makes the value; null otherwise.
mlir::Operation *hloMade(mlir::Value value, llvm::StringRef name,
                         unsigned operands);
/// Whether the value is the comparison of the two in that direction.
bool hloIsCompare(mlir::Value value, llvm::StringRef direction, mlir::Value x,
                  mlir::Value y);

/// A result of a region and the two arguments that it combines: of several
/// results the argument of that number, and the one as far behind the last
/// result.
struct HloRegionPart {
  unsigned result = 0, results = 1;
};

/// How a region of two arguments combines them: one commutative op of both.
std::optional<ts::ReduceKind> hloCombiner(mlir::Operation *op, unsigned region,
                                          HloRegionPart part = {});

/// Whether the region returns its second argument, as scatters that replace do.
bool hloReplaces(mlir::Operation *op, unsigned region, HloRegionPart part = {});

/// Whether the region takes its second argument from its first.
bool hloSubtracts(mlir::Operation *op, unsigned region,
                  HloRegionPart part = {});

/// Whether the region of four arguments keeps the larger (max) or smaller value
/// with its index, the first of equal ones, NaN before all.
std::optional<ts::ReduceKind> hloArgReduction(mlir::Operation *op);

/// The comparison that the region returns, of its arguments 0 and 1: ge, gt for
/// what keeps the largest in select_and_scatter.
std::optional<ts::ComparePredicate> hloSelector(mlir::Operation *op,
                                                unsigned region);

/// What the region of scalars gives for all elements of `arguments` at once,
/// which have one shape. Nothing where it has ops that are not elementwise,
/// which are reported.
std::optional<llvm::SmallVector<mlir::Value>>
hloApply(HloNode &n, unsigned region, llvm::ArrayRef<mlir::Value> arguments);

/// What the values `wanted` in the region are, for all elements of `arguments`
/// at once.
std::optional<llvm::SmallVector<mlir::Value>>
hloValuesIn(HloNode &n, unsigned region, llvm::ArrayRef<mlir::Value> arguments,
            llvm::ArrayRef<mlir::Value> wanted);

/// Floats as integers of the same order: NaN at the ends, -0 before 0.
mlir::Value hloTotallyOrdered(HloNode &n, mlir::Value x);
/// The floats of such integers again.
mlir::Value hloFromTotalOrder(HloNode &n, mlir::Value ordered, mlir::Type type);

/// x with y: and, or of booleans for add, mul, max, min of them.
mlir::Value hloCombine(HloNode &n, ts::ReduceKind kind, mlir::Value x,
                       mlir::Value y);
/// What changes nothing in a combination; null where there is none.
mlir::Value hloNeutral(HloNode &n, ts::ReduceKind kind, mlir::Type element);
/// Whether the scalar is a constant that changes nothing.
bool hloIsNeutral(ts::ReduceKind kind, mlir::Value scalar);

} // namespace knapper
