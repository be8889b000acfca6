//===- WidenScatter.h - Sums of scattered 16-bit numbers ------------------===//
//
//   scatter(x, i, u) of f16 or bf16      narrow(scatter(wide(x), i, wide(u)))
//   that adds or multiplies
//
// `wide` is f32. Updates that meet in one element are combined in f32 and
// rounded once, where each of them would round the sum so far. What at most one
// update reaches is rounded once anyway and stays; so do scatters that replace
// or take the largest or smallest, which round nothing.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// Run after the pass that makes 16-bit types.
void widenScatter(mlir::func::FuncOp function);

} // namespace knapper
