//===- GateDots.h - Gates of recurrent cells as reductions ----------------===//
//
//   In a loop's body:  g = dot(h [B, K], R [G * K, K]),
//   which elementwise ops and slices of K columns read,
//   becomes a reduction of h * R over K for each slice.
//
// A step of an LSTM or a GRU is then one kernel of reductions, in which a row
// has all gates of one unit. As a matmul of its own it would cost a second
// launch, and launches are nearly all that so short a step costs.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// In the bodies of the function's loops, where the rows of h times the bytes
/// of R, which a step reads once a row, are no more than `mostBytes`. Where
/// only a run knows the rows there are two loops afterwards, one of which has
/// no iterations: with few rows that of reductions, else the one that there
/// was. Floats only; 16-bit ones are multiplied and summed in f32, as `ts.dot`
/// says.
void reduceGateDots(mlir::func::FuncOp function, int64_t mostBytes);

} // namespace knapper
