//===- QuantizePasses.h - Passes of graph/quantize -----------------------===//
#pragma once

#include "mlir/Pass/Pass.h"

namespace mlir::func {
class FuncOp;
}

namespace knapper {

#define GEN_PASS_DECL
#include "graph/quantize/QuantizePasses.h.inc"
#define GEN_PASS_REGISTRATION
#include "graph/quantize/QuantizePasses.h.inc"

} // namespace knapper
