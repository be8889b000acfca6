//===- ImportStableHlo.h - StableHLO programs as tensor IR ---------------===//
//
// Portable artefacts: VHLO bytecode as `jax.export`, PyTorch/XLA and
// TensorFlow's exporters write it, of StableHLO 0.9 and later.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/base/Error.h"
#include <memory>
#include <string_view>
#include <vector>

namespace knapper {

/// A program, and where the data of its large constants lies.
struct HloModule {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// Behind the entries of `ts.files` from the second on; the first is the
  /// program's own file. Must live as long as the module's weights are read.
  std::vector<std::shared_ptr<const std::string>> buffers;
};

/// Imports a program from `bytes`; `path` is its file, empty for a program in
/// memory. `context` gets the dialects that the result needs. Not thread-safe
/// for one context; nothing is kept after the call.
/// Errors: UserError for what is damaged, and one that lists every op that is
/// not supported, with its shapes and the line of the user's program.
Expected<HloModule> importStableHlo(mlir::MLIRContext &context,
                                    std::string_view bytes,
                                    const std::string &path);

/// The ops that have a row, a line each, sorted.
std::string stableHloRows();

} // namespace knapper
