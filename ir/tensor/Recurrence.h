//===- Recurrence.h - The ops ts.recurrence and ts.next -------------------===//
//
// Apart from Dialect.h, which everything includes, because few places know it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

namespace knapper::ts {
class NextOp;

class RecurrenceOp;
} // namespace knapper::ts

#define GET_OP_CLASSES
#include "ir/tensor/Recurrence.h.inc"

namespace knapper::ts {

/// The values of the body that depend on a state.
llvm::DenseSet<mlir::Value> dependentValues(RecurrenceOp op);
/// The first op of the body that takes a state in another way than C3 says;
/// null where there is none.
mlir::Operation *firstMixed(RecurrenceOp op);

} // namespace knapper::ts
