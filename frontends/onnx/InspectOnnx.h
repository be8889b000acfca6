//===- InspectOnnx.h - What an ONNX model holds, without compiling it ----===//
#pragma once

#include "frontends/onnx/ImportOnnx.h"

namespace knapper {

/// A JSON object:
///
///   {"producer": "pytorch 2.9.0", "ir_version": 10,
///    "opsets": [{"domain": "ai.onnx", "version": 20}],
///    "inputs": [{"name": "x", "dtype": "FLOAT", "dims": ["batch", 384]}],
///    "outputs": [...],
///    "file_bytes": 90950314, "initializers": 101, "initializer_bytes":
///    90889728, "functions": 0, "nodes": 285, "operators": [{"domain":
///    "ai.onnx", "op": "Add", "opset": 20,
///                   "count": 56, "supported": true,
///                   "registered": false}, ...],
///    "unsupported": [{"domain", "op", "opset", "reason", "nodes": [...]}]}
///
/// Nodes inside functions and subgraphs count. `unsupported` is what the table
/// of operators and the element types say; a supported operator may still have
/// a setting that import refuses. `registered` operators are the caller's own
/// (`knapper_register_operator`). Errors: UserError for a file that is none.
Expected<std::string> inspectOnnx(const OnnxSource &source);

/// Why an operator has no row. `known`: another opset has it.
const char *whyUnknown(llvm::StringRef domain, bool known);

} // namespace knapper
