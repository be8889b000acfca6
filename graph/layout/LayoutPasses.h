//===- LayoutPasses.h - Passes of graph/layout ---------------------------===//
#pragma once

#include "mlir/Pass/Pass.h"

namespace mlir::func {
class FuncOp;
}

namespace knapper {

#define GEN_PASS_DECL
#include "graph/layout/LayoutPasses.h.inc"
#define GEN_PASS_REGISTRATION
#include "graph/layout/LayoutPasses.h.inc"

} // namespace knapper
