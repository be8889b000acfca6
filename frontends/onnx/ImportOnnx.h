//===- ImportOnnx.h - An ONNX model as tensor IR -------------------------===//
//
// The result is a module with `func.func @main`; arguments and results carry
// `ts.name`. Module attributes:
//
//   ts.symbols  [#ts.symbol<"batch", 0, -1, 1>, ...]  every symbol in the types
//   ts.files    ["/models/m.onnx", "/models/m.data"]  what `ts.weight` refers
//   to
//
// Weights stay in their files: an initialiser above 64 KiB is a `ts.weight`, a
// smaller one a `ts.constant`. Every op's location is a NameLoc with the ONNX
// node's name around one with its operator, `loc("/h/0/mlp/Add"("Add"))`.
//
// Sizes that the graph computes (Shape, Gather, Concat, Reshape...) become
// symbolic sizes in the types. Where ONNX's rules need two sizes to be equal
// that are not so by form, a `ts.dim_cast` says so and the run checks it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/common/FrontEnd.h"

namespace knapper {

/// A model: a file, or its bytes in memory.
struct OnnxSource {
  /// The file. External data must lie in its folder or below.
  std::string path;
  /// The serialised model when `path` is empty. Must outlive what is imported:
  /// weights refer to it.
  std::string_view bytes;
  /// Folder of external data for a model in memory; empty: none is read.
  std::string folder;
};

struct OnnxImportOptions {
  DimNumbers dims; ///< an unknown name is a UserError
};

/// Reads and imports a model. `context` gets the dialects that the result
/// needs. Not thread-safe for one context; nothing is kept after the call but
/// what `buffers` holds (null: a model that needs it is refused).
/// Errors: UserError for whatever is wrong with the model or missing in the
/// importer, naming the node; everything missing is reported at once.
Expected<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(mlir::MLIRContext &context, const OnnxSource &source,
           const OnnxImportOptions &options = {},
           ModelBuffers *buffers = nullptr);

} // namespace knapper
