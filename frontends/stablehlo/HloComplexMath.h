// Functions of complex numbers by those of real ones.
#pragma once

#include "frontends/stablehlo/HloNode.h"

namespace knapper {

/// The ops that have a formula of their own; operands are joined planes.
llvm::ArrayRef<HloRow> hloComplexRows();
llvm::ArrayRef<HloRow> hloComplexMatrixRows();

} // namespace knapper
