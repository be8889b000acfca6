//===- Rules.h - Which ops may share a kernel -----------------------------===//
//
// Fusion puts into one region what the schedules (codegen/schedule) can build
// from it. A "pullable" op gives any element of its result from elements of its
// operands by index maps: elementwise, reindexing, pad, concat, gathers, iota,
// size, constants, rope.
//
//   pointwise  Pullable ops whose results have one shape. Called `transpose` or
//              `gather` when such an op decides how memory is read.
//   reduce     Any number of reduce, arg_reduce, softmax and layer_norm that
//              reduce the same dims of one shape. Before them: pullable ops.
//              After them: elementwise ops at the whole or at the reduced
//              shape, and broadcasts from rows to the whole. Results have the
//              whole or the reduced shape.
//   matmul     One dot. Before it: reshapes, transposes and slices that leave
//              its operands strided, and widening converts of integers. After
//              it: elementwise ops at its shape, with pullable side inputs
//              (elementwise and reindexing); then reshapes and transposes.
//   conv, pool One conv or pool, with nothing before it; the rest as of matmul.
//   attention  One attention. Before query, key and value: strided reindexing,
//              and rope of it. Before the mask: elementwise and reindexing ops.
//              After it: transposes and reshapes. One result.
//   scatter    One scatter, which is last. Before its indices and updates:
//              pullable ops.
//   scan, sort The op alone.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "graph/fusion/Cost.h"

namespace knapper::fusion {

/// The family of schedules for a kernel of this op alone; nothing for a
/// pullable op.
std::optional<ts::Hero> heroOf(mlir::Operation *op);
/// Whether any element of the op's result follows from operand elements by
/// index maps (see above).
bool isPullable(mlir::Operation *op);

/// A hero, or the reason why there is no kernel.
struct Verdict {
  std::optional<ts::Hero> hero;
  std::string reason; ///< why not, when there is no hero
};

/// The largest kernel, in emitted ops: an op that is read at several
/// coordinates counts once for each.
constexpr int64_t maxEmittedOps = 256;

/// Whether the ops (of one block, producers first) may be one kernel, and its
/// hero.
Verdict judge(const OpSet &set);

} // namespace knapper::fusion
