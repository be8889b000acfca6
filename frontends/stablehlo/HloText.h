//===- HloText.h - StableHLO as text -------------------------------------===//
//
// MLIR's parser does the grammar of modules, functions, types and locations;
// the dialects here know the forms of ops (HloTextForms.h) and attributes. What
// comes out is spelled as bytecode spells it: one importer serves both.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/base/Error.h"
#include <string_view>

namespace knapper {

/// Whether bytes look like a module with StableHLO's ops in text; `begin` is
/// the file's first part.
bool isHloText(std::string_view begin);

/// How much of a file `isHloText` wants to see.
constexpr size_t hloTextBegin = 65536;

/// Reads a program; its ops are not verified. Not thread-safe for one context.
/// Errors: UserError with the line and column of what cannot be read.
Expected<mlir::OwningOpRef<mlir::ModuleOp>>
readHloText(mlir::MLIRContext &context, std::string_view text,
            const std::string &where);

} // namespace knapper
