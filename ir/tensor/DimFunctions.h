//===- DimFunctions.h - The functions in a size, by name -----------------===//
//
// What the text of a size and its algebra share: Dim.cpp prints and computes,
// DimParser.cpp reads.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dim.h"

namespace knapper::ts {

/// As text names them, in the order of DimFn.
inline constexpr llvm::StringRef kDimFnNames[] = {"floordiv", "mod", "min",
                                                  "max"};

/// fn(a, b), simplified as Dim's operators do.
Dim applyDimFn(DimFn fn, Dim a, Dim b);

} // namespace knapper::ts
