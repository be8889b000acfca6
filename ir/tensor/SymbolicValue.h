//===- SymbolicValue.h - What small integer tensors hold, as sizes --------===//
//
// Graphs compute shapes with tensors: Shape, Gather, Concat, Mul... This
// analysis follows such values back to sizes, so that Reshape and its kind get
// symbolic types:
//
//   %b = ts.size #ts.dim<"batch">          symbolicValue(%b)  =  [batch]
//   %c = ts.constant dense<[12, 64]>
//   %d = ts.concat (reshape %b), %c        symbolicValue(%d)  =  [batch, 12, 64]
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dim.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace knapper::ts {

/// Answers so far, by value; drop it when ops are erased.
using SymbolicValueCache =
    llvm::DenseMap<mlir::Value, std::optional<llvm::SmallVector<Dim>>>;

/// The elements of an integer or i1 tensor of rank 0 or 1 (at most 64 of them)
/// as sizes that hold for every binding of the symbols; elements of i1 are 0
/// and 1. Nothing when it depends on data or is no such tensor.
std::optional<llvm::SmallVector<Dim>> symbolicValue(mlir::Value value,
                                                    SymbolicValueCache &cache);

/// A number that `dim` is never below (above), from symbols being
/// non-negative. Nothing when none is known.
std::optional<int64_t> lowerBound(Dim dim);
std::optional<int64_t> upperBound(Dim dim);

/// a < b decided for all bindings, or nothing.
std::optional<bool> isLess(Dim a, Dim b);
/// a == b decided for all bindings, or nothing.
std::optional<bool> isEqual(Dim a, Dim b);

/// True when the expression is small enough to go on computing with; guards
/// against sizes that double with every op.
bool isModest(Dim dim);

} // namespace knapper::ts
