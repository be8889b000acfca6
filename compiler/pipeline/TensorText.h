//===- TensorText.h - Tensor IR as text -----------------------------------===//
//
// The text form of a program is trusted input (docs/security.md): it may name
// any file. Bytes of a caller's are read as text only where the caller says so.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/pipeline/Phases.h"
#include "frontends/common/FrontEnd.h"

namespace knapper {

/// Whether the model is tensor IR as text rather than ONNX: by
/// --model-format, else by the path's ending `.mlir`, or because
/// --start-from reads what --dump-dir wrote. Never by what the bytes hold.
/// Errors as frontEndOf.
Expected<bool> isText(const CompileInput &input, const Options &options);

/// The front end of a model that is no text: by --model-format, else the first
/// that accepts it. InternalError where a front end throws, or two have one
/// name.
Expected<const FrontEnd *> frontEndOf(const CompileInput &input,
                                      const Options &options);
/// The model as front ends see it.
ModelInput modelOf(const CompileInput &input);

/// Parses and verifies a module: the file at `path`, or `state`'s bytes when
/// `path` is empty. Null where it is not valid, which `state.diagnostics` says;
/// UserError when it cannot be read or nests too deeply.
Expected<mlir::OwningOpRef<mlir::ModuleOp>>
parseTensorText(CompileState &state, const std::string &path);

/// What the verifier leaves to front ends, and a text may have wrong. UserError
/// where a list of the module has wrong entries, the entry function has no
/// body, takes or gives what no artefact does, or slices known sizes outside of
/// them.
Status checkProgram(mlir::func::FuncOp main, const std::string &where);

/// Slices whose parts depend on symbols are checked when they run, as front
/// ends do it; those in a kernel before it.
void checkSlices(mlir::ModuleOp program);

} // namespace knapper
