//===- VhloBytecode.h - Types and attributes of vhlo and sdy --------------===//
#pragma once

#include "mlir/Bytecode/BytecodeImplementation.h"

namespace knapper {

/// `begin` points to where the buffer that is read begins, set before each
/// reading.
std::unique_ptr<mlir::BytecodeDialectInterface>
makeVhloBytecode(mlir::Dialect *dialect, const char *const *begin);
/// An attribute of sdy is a list: its code, then its fields (HloSharding.h).
std::unique_ptr<mlir::BytecodeDialectInterface>
makeSdyBytecode(mlir::Dialect *dialect);

} // namespace knapper
