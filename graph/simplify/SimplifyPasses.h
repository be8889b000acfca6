//===- SimplifyPasses.h - Passes of graph/simplify -----------------------===//
#pragma once

#include "mlir/Pass/Pass.h"
#include <memory>

namespace mlir::func {
class FuncOp;
}

namespace knapper {

#define GEN_PASS_DECL
#include "graph/simplify/SimplifyPasses.h.inc"
#define GEN_PASS_REGISTRATION
#include "graph/simplify/SimplifyPasses.h.inc"

} // namespace knapper
