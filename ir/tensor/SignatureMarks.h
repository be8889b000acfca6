// What the arguments and results of main say of themselves beyond their types.
// What is computed is the same with these attributes and without; the
// description of the artefact says them.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace knapper::ts {

/// A unit attribute of an argument that callers give away (JAX's
/// donate_argnums).
inline constexpr llvm::StringLiteral kDonated = "ts.donated";
/// A unit attribute of a tensor of complex numbers: its last dim is two, the
/// real part and the imaginary one.
inline constexpr llvm::StringLiteral kComplex = "ts.complex";

} // namespace knapper::ts
