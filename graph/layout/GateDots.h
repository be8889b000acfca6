//===- GateDots.h - Gates of recurrent cells as reductions ----------------===//
//
//   In a loop's body:  g = dot(h [B, K], R [G * K, K]),
//   of which elementwise ops and slices of K columns are read,
//   becomes a reduction of h * R over K for each slice.
//
// A step of an LSTM or a GRU is then one kernel of reductions: each row has all
// gates of one unit. The product apart costs a second launch, and a step is so
// short that launches are all it costs.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// Where the bytes of B x R, which each step reads again, are no more than
/// `mostBytes`, and B and R have known sizes. Floats only; 16-bit ones are
/// multiplied and summed in f32, as `ts.dot` says. Nothing outside the bodies
/// of loops.
void reduceGateDots(mlir::func::FuncOp function, int64_t mostBytes);

} // namespace knapper
