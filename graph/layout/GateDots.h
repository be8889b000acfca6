//===- GateDots.h - Gates of recurrent cells as reductions ----------------===//
//
//   In a loop's body:  g = dot(h [B, K], R [G * K, K]),
//   which elementwise ops and slices of K columns read,
//   becomes a reduction of h * R over K for each slice.
//
// A step of an LSTM or a GRU is then one kernel of reductions, of which one row
// computes all gates of one unit. A separate matmul would be a second launch,
// and launches take nearly all the time of so short a step.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// Rewrites the gates' matmuls in the bodies of the function's loops if a step
/// reads at most `mostBytes`: the bytes of R once for each row of h. If the
/// number of rows B is a symbol, there are two loops afterwards, of which the
/// run takes one: with few rows the loop of reductions, otherwise the original
/// one. Elements are floats; 16-bit ones are multiplied and summed in f32, as
/// by `ts.dot`.
void reduceGateDots(mlir::func::FuncOp function, int64_t mostBytes);

} // namespace knapper
