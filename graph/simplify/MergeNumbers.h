//===- MergeNumbers.h - Two numbers in a row become one -------------------===//
//
//   (x * a) * b   to  x * (a * b)
//   (x + a) + b   to  x + (a + b)      integers
//
// for constants a and b that hold one number, where nothing else reads the
// inner result.
//
// Numerics: integers wrap, so they keep every bit. Of a float product a * b is
// rounded instead of x * a. It must be a normal number of the element type, and
// neither of a and b may undo what the other did to large or small x: both are
// at least 1, or both at most 1 (2e38 * 2 / 2 is infinite). Float sums stay:
// (x + a) - a is how a graph rounds.
//
// Comes after find-composites, whose patterns look for the single numbers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace mlir::func {
class FuncOp;
}

namespace knapper {

void populateMergeNumbersPatterns(mlir::RewritePatternSet &patterns);

/// To a fixed point: a chain of any length becomes one op.
void mergeNumbers(mlir::func::FuncOp function);

} // namespace knapper
