//===- FindComposites.h - Composite ops out of their parts ----------------===//
//
// Every pattern expects the canonical form of Simplify.h. A composite is taken
// only when it has the meaning of its parts; what counts as equal is said at
// the pattern: constants within 1e-6 of the exact number (they went through
// float32), scale factors reassociated and taken in float32, as ts.attention
// scales. A factor of bf16 or f16 that is 1 / sqrt(depth), or its root, rounded
// to that type stands for the number before the rounding.
//
// Attention. Masks are taken apart into a causal comparison of positions
// (attribute `causal`) and the rest (operand `mask`). A key is excluded when
// `select(allowed, 0, fill)` is added to its score, with fill -inf or a finite
// number below -1e30. A row without any allowed key is the delicate case; it
// gets what the parts give (attribute `ts.empty_row`):
//   fill -inf                NaN, or 0 with torch's guard
//                            select(is_nan(p), 0, p)
//   fill finite              all scores are the fill, which is the mean of all
//                            values (the guard finds no NaN)
// With a finite fill and another mask beside it a row's scores may differ: then
// the fill stays a number that is added.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// gelu (erf and tanh form), sigmoid.
void populateActivationPatterns(mlir::RewritePatternSet &patterns);
/// softmax, layer_norm, its rms form; scale and bias of a normalisation.
void populateNormalisationPatterns(mlir::RewritePatternSet &patterns);
void populateRopePatterns(mlir::RewritePatternSet &patterns);
void populateAttentionPatterns(mlir::RewritePatternSet &patterns);
/// After the ops around an attention have been simplified.
void populateSharedHeadPatterns(mlir::RewritePatternSet &patterns);
void populateAttentionMaskPatterns(mlir::RewritePatternSet &patterns);

/// All of them, after and followed by `simplify`.
mlir::LogicalResult findComposites(mlir::func::FuncOp function);

} // namespace knapper
