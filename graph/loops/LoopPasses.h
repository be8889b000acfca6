//===- LoopPasses.h - Passes of graph/loops ------------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace knapper {

#define GEN_PASS_DECL
#include "graph/loops/LoopPasses.h.inc"
#define GEN_PASS_REGISTRATION
#include "graph/loops/LoopPasses.h.inc"

} // namespace knapper
