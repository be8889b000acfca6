// The passes of graph/fusion and their registration.
#pragma once

#include "graph/fusion/FormKernels.h"
#include "ir/tensor/Dialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace knapper::fusion {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "graph/fusion/FusionPasses.h.inc"
} // namespace knapper::fusion
