//===- HloSortKeys.h - What comparators of sorts compare ------------------===//
#pragma once

#include "frontends/stablehlo/HloNode.h"

namespace knapper {

/// One key of a sort.
struct HloSortKey {
  unsigned operand; ///< that it is of
  bool ascending;   ///< small ones come first
  /// It is the operand's elements, zeros alike and NaN last.
  bool isOperand;
  bool isTotal; ///< else: -NaN, negative numbers, -0, 0, ..., NaN
  /// Integers, or floats with zeros alike and NaNs alike.
  bool isCanonical;
  /// NaNs stay in order: no later key decides among them.
  bool keepsNan;
  /// What is compared, of the elements that a comparator takes first, and what
  /// it is compared with.
  mlir::Value first, second;
};

/// The keys of a comparator of `arguments` scalars, the region of an op or a
/// function, the first decides first; empty where it is none.
llvm::SmallVector<HloSortKey> hloSortKeys(mlir::Operation *op,
                                          unsigned arguments);

} // namespace knapper
