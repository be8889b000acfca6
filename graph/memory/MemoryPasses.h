// The passes of graph/memory and their registration.
#pragma once

#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace knapper::memory {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "graph/memory/MemoryPasses.h.inc"
} // namespace knapper::memory
