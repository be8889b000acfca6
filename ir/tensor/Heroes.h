//===- Heroes.h - The ops that decide how a kernel is computed ------------===//
//
// KernelHeroOpInterface, which Hero.td describes. The dialect attaches it to
// its ops when a context loads it (Heroes.cpp has what each op says).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

#include "ir/tensor/Hero.h.inc"

namespace knapper::ts {

/// Of the dialect's own initialisation.
void attachHeroes(mlir::MLIRContext *context);

} // namespace knapper::ts
