// clang-format off
//===- SimplifyLoops.h - Loops of a known number of steps -----------------===//
//
// Front ends write a scan as a loop that carries everything: the weights that
// no step changes, the whole sequence, an array into which each step writes its
// row (jax.lax.scan lowers to such a `while`). Per step that costs a copy, a
// scatter or a small matmul each. In this order:
//
//   unchanged   a carried value that the body returns as it came   a capture
//   ordered     gather(x, [i]) and [T - 1 - i]                     a slice
//   stacked     scatter(rows, [i], y), read by nobody else         a scan of y
//   unused      carried values and scans that nobody reads         gone
//   split       dot(concat(x[i], h), w)                            dot(x[i], w') + dot(h, w")
//   invariant   matmuls, sums and transposes of captures           before the loop
//   batched     dot(x[i], w) of few rows                           one of all steps, before the loop
//   summed      acc + dot(a, b) of little depth                    one of all steps, behind the loop
//
// The last two are loop distribution (Kennedy and McKinley, 1990) of a
// recurrent network's input projections and weight gradients. They need memory
// for all steps, which `LoopBudget` bounds. Sums are added up in another order.
// Loops with checks or other effects in their bodies stay as they are.
//
//===----------------------------------------------------------------------===//
// clang-format on
#pragma once

#include <cstdint>

namespace mlir::func {
class FuncOp;
}

namespace knapper {

struct LoopBudget {
  int64_t rows = 128;  ///< most of a step's matmul; more run well on their own
  int64_t depth = 128; ///< most products that an element of a step's sum has
  /// Most bytes of a step's value for each byte of captured rows it is made of.
  int64_t growth = 8;
  /// Most of what a loop's values need beside it. Symbolic sizes are not
  /// counted: `growth` alone bounds them.
  int64_t bytes = 64 << 20;
};

/// The loops of one function; those of their bodies are loops of other ones.
void simplifyLoops(mlir::func::FuncOp function, const LoopBudget &budget = {});

} // namespace knapper
