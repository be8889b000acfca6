//===- ContainerCode.h - Ops of MLIR bytecode, before its reader ----------===//
#pragma once

#include "frontends/stablehlo/ContainerCursor.h"

namespace knapper {

/// False where MLIR's reader would believe what the section of ops gets wrong:
/// arguments of the outermost block, counts beyond the section, an order of
/// uses that a value does not have, regions nested deeper than any program's.
bool checkHloCode(Cursor cursor, uint64_t version);

} // namespace knapper
