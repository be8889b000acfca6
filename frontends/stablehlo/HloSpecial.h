//===- HloSpecial.h - Special functions of chlo ---------------------------===//
#pragma once

#include "frontends/stablehlo/HloNode.h"

namespace knapper {

llvm::ArrayRef<HloRow> hloSpecialRows();

} // namespace knapper
