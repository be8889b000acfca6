//===- Vhlo.h - Portable artefacts of StableHLO as MLIR ops ---------------===//
//
// MLIR's bytecode reader does the container; the dialects `vhlo` and `sdy` here
// know what StableHLO keeps in it, for reading alone. Types and attributes
// become builtin ones: integers with a sign signless, those without as they
// are, enumerations texts ("EQ") or numbers, what has no counterpart `none`.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/base/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <memory>
#include <string_view>

namespace knapper {

/// Tensors of more bytes than this stay in the file: their attribute is a
/// dictionary with `type`, and `offset` and `bytes` in the buffer that was
/// read.
constexpr size_t hloLargestConstant = 65536;

/// The bytecode in what `jax.export` writes: all of it, or a vector of the
/// flatbuffer that `Exported.serialize` gives. Empty where there is none.
std::string_view findHloBytecode(std::string_view bytes);
/// Whether the bytes begin as MLIR bytecode does.
bool isHloBytecode(std::string_view bytes);

/// Reads a program; its ops are not verified. `bytes` begin with the bytecode.
/// Not thread-safe for one context.
/// Errors: UserError for what is damaged or of another kind.
Expected<mlir::OwningOpRef<mlir::ModuleOp>>
readHloBytecode(mlir::MLIRContext &context, std::string_view bytes,
                const std::string &where);

/// A program as it was read, and what its large constants lie in.
struct HloProgram {
  std::shared_ptr<llvm::MemoryBuffer> aligned; ///< null: the caller's bytes
  const char *begin;                           ///< of the bytecode
  size_t offset;                               ///< of the bytecode in the file
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// Finds the bytecode in `bytes` and reads it, or reads text (HloText.h). What
/// is not aligned as the format asks is copied.
/// Errors: UserError where there is none or it is damaged.
Expected<HloProgram> readHloProgram(mlir::MLIRContext &context,
                                    std::string_view bytes,
                                    const std::string &where);

} // namespace knapper
