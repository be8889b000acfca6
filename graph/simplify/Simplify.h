//===- Simplify.h - The canonical form of a graph -------------------------===//
//
// What holds after `simplify`, as far as it can be proven:
//
//   numbers     a 0-d constant, broadcast; no op with a neutral element
//   broadcast   reads its operand directly (no reshape that adds dims of size
//               1 before it) and comes after elementwise ops on small operands
//   reshape,    below elementwise ops whose other operands can follow: the
//   transpose   arithmetic joins its producer, the movement its consumer; two
//               in a row are one; a transpose that only moves dims of size 1
//               is a reshape
//   dot         reads through transposes (its dims say which); a reshape that
//               merges free dims of the left side comes after it
//   gather      with indices that are known (iota, constants) is movement
//   dead and repeated ops are gone
//
// Numerics: float results may change only where noted at the pattern, by
// rounding of a single operation or the sign of a zero; never by association.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/PatternMatch.h"
#include "mlir/Rewrite/FrozenRewritePatternSet.h"

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// Neutral elements, powers, comparisons with known results.
void populateAlgebraPatterns(mlir::RewritePatternSet &patterns);
/// Reshape, transpose, broadcast, slice and concat among each other and past
/// elementwise ops. `sinkTransposes`: also transposes that have other users
/// (the layout pass).
void populateMovementPatterns(mlir::RewritePatternSet &patterns,
                              bool sinkTransposes = false);
/// The part of them that moves below elementwise ops.
void populateSinkPatterns(mlir::RewritePatternSet &patterns,
                          bool sinkTransposes);
/// Movement into the operands of ts.dot and below it.
void populateDotPatterns(mlir::RewritePatternSet &patterns);
/// Gathers and comparisons whose indices are affine in the position.
void populateIndexPatterns(mlir::RewritePatternSet &patterns);

/// Rewrites to a fixed point, top down; dead ops go. The number of rewrites is
/// bounded by the size of the function: should patterns undo each other, a
/// remark says so and the function is what they left, still valid.
void rewrite(mlir::func::FuncOp function,
             const mlir::FrozenRewritePatternSet &patterns);

/// All of the above to a fixed point, then common subexpressions.
mlir::LogicalResult simplify(mlir::func::FuncOp function);

} // namespace knapper
