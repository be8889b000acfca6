//===- ShallowMatmul.h - Matmuls of little depth, by elements -------------===//
#pragma once

#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Schedules.h"

namespace knapper {

/// Whether K is so small that a GPU computes the elements one by one. Writing
/// the result takes the time then, and tensor cores would work on tiles padded
/// along K. Matmuls that TMA can load stay with tensor cores; few rows with
/// whole accesses along K stay with `gemv`.
bool isShallowMatmul(ts::KernelOp kernel, const TargetDesc &target);

/// The elements at `at` of a matmul whose K is a number: each is a sum over K,
/// in order. Null after a diagnostic.
mlir::Value emitShallowMatmul(ElementEmitter &e, ts::DotOp dot,
                              const Coord &at);

} // namespace knapper
