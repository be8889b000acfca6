//===- Rules.h - Which ops may share a kernel -----------------------------===//
//
// What the schedules (codegen/schedule) build from a region, so what fusion may
// put into one. "Pullable" ops give any element of their result from elements
// of their operands by index maps: elementwise, reindexing, pad, concat,
// gathers, iota, size, constants, rope.
//
//   pointwise  pullable ops; all results have one shape. Called `transpose` or
//   (transpose, gather) `gather` when that op decides how memory is read.
//   reduce     any number of reduce, arg_reduce, softmax, layer_norm that
//              reduce the same dims of one shape; before them pullable ops;
//              after them elementwise ops at the whole or at the reduced shape
//              and broadcasts from rows to the whole; results have the whole or
//              the reduced shape.
//   matmul     one dot. Before it reshape, transpose, slice, of integers
//              widening convert, that leave its operands strided; after it elementwise ops at its
//              shape, with pullable side inputs (elementwise and reindexing);
//              then reshapes and transposes.
//   conv, pool one conv or pool, nothing before it, the rest as for matmul.
//   attention  one attention. Before query, key, value: strided reindexing and
//              rope of it; before the mask: elementwise and reindexing ops.
//              After it transposes and reshapes, one result.
//   scatter    one scatter, last. Before its indices and updates pullable ops.
//   scan, sort the op alone.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "graph/fusion/Cost.h"

namespace knapper::fusion {

/// The family of schedules an op alone asks for; nothing for pullable ops.
std::optional<ts::Hero> heroOf(mlir::Operation *op);
bool isPullable(mlir::Operation *op);

struct Verdict {
  std::optional<ts::Hero> hero;
  std::string reason; ///< why not, when there is no hero
};

/// Largest kernel, in ops as pulling emits them (an op read in several ways
/// counts for each).
constexpr int64_t maxEmittedOps = 256;

/// Whether the ops (of one block, producers first) may be one kernel, and of
/// which kind.
Verdict judge(const OpSet &set);

} // namespace knapper::fusion
