//===- SimplifyLoops.h - Loops of a known number of steps -----------------===//
//
// Front ends write a scan as a loop that carries everything: the weights that
// no step changes, the whole sequence, an array into which each step writes its
// row (jax.lax.scan lowers to such a `while`). Per step that costs a copy, a
// scatter or a small matmul each. In this order:
//
//   unchanged    a carried value that the body returns as it came   a capture
//   ordered      gather(x, [i]) and [T - 1 - i]                     a slice
//   stacked      scatter(rows, [i], y), read by nobody else         a scan of y
//   unused       carried values and scans that nobody reads         gone
//   invariant    what captures alone decide                         before the
//   loop batched      dot(x[i], w) of few rows                           one
//   matmul of all steps before the loop summed       acc + dot(a, b) of little
//   depth                    one matmul of all steps behind the loop
//
// The last two are loop distribution (Kennedy and McKinley, 1990) of a
// recurrent network's input projections and weight gradients. They need memory
// for all steps; `LoopBudget` bounds it. Sums are added up in another order.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace mlir::func {
class FuncOp;
}

namespace knapper {

struct LoopBudget {
  int64_t rows = 128;       ///< of a step's matmul; more run well on their own
  int64_t depth = 128;      ///< of a step's sum of products
  int64_t growth = 8;       ///< elements a step, times those that it reads
  int64_t bytes = 64 << 20; ///< for all steps of a loop; of known sizes
};

/// The loops of one function; those of their bodies are loops of other ones.
void simplifyLoops(mlir::func::FuncOp function, const LoopBudget &budget = {});

} // namespace knapper
