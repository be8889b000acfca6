//===- FormKernels.h - Partition of a function into kernels ---------------===//
#pragma once

#include "graph/fusion/Cost.h"
#include "graph/fusion/FusionReport.h"
#include "mlir/Pass/Pass.h"

namespace knapper::fusion {

/// Moves every op of `function` that computes into a ts.kernel. What stays
/// outside: constants, weights, constant expressions (isConstantExpression),
/// views (isView), bind_size, checks, branches and loops. Ops are ordered so
/// that producers come first. Adds to `report` when given; with `remarks` also
/// emits each boundary as an MLIR remark. Fails, with a diagnostic, on a body
/// that is not one block.
mlir::LogicalResult formKernels(mlir::func::FuncOp function,
                                const Machine &machine,
                                FusionReport *report = nullptr,
                                bool remarks = false);

} // namespace knapper::fusion
