//===- ShallowProduct.h - Products of little depth, by elements -----------===//
#pragma once

#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Schedules.h"

namespace knapper {

/// Whether a kernel's product is so shallow that a GPU computes its elements
/// one by one: what takes time is then the result, of which tensor cores would
/// see tiles padded to their depth. What copies of blocks reach stays theirs,
/// and a few rows whose depth whole accesses read stay those of `gemv`.
bool isShallowProduct(ts::KernelOp kernel, const TargetDesc &target);

/// Elements of a product whose depth is a number: each the sum of its products,
/// one after the other. Null on an error.
mlir::Value emitShallowProduct(ElementEmitter &e, ts::DotOp dot,
                               const Coord &at);

} // namespace knapper
