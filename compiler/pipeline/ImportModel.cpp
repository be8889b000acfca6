#include "compiler/pipeline/Pack.h"
#include "compiler/pipeline/Sources.h"
#include "compiler/pipeline/TensorText.h"
#include "frontends/stablehlo/ImportStableHlo.h"
#include "frontends/torch/ImportTorch.h"
#include "runtime/base/InputFile.h"

using namespace mlir;

namespace knapper {

/// The bytes of the model: the caller's, or `read` from its file.
static Expected<std::string_view> modelBytes(const CompileInput &input,
                                             std::string &read) {
  if (input.path.empty())
    return std::string_view(input.bytes);
  ASSIGN_OR_RETURN(InputFile file, InputFile::open(input.path));
  ASSIGN_OR_RETURN(std::string content, file.read());
  read = std::move(content);
  return std::string_view(read);
}

static Status importProgram(CompileState &state) {
  if (!state.options.dims.empty())
    return userError("the sizes of a StableHLO program are numbers",
                     "option dim", "leave it out");
  std::string read;
  ASSIGN_OR_RETURN(std::string_view bytes, modelBytes(state.input, read));
  ASSIGN_OR_RETURN(HloModule program,
                   importStableHlo(*state.context, bytes, state.input.path));
  state.module = std::move(program.module);
  // A file with a path is read where it lies.
  state.sources->program = {state.input.path.empty() ? bytes
                                                     : std::string_view()};
  state.sources->unpacked = std::move(program.buffers);
  return success();
}

/// Tensor IR as text: what --dump-dir writes, and tests.
static Status parseTensorIr(CompileState &state) {
  ASSIGN_OR_RETURN(auto module, parseTensorText(state, state.input.path));
  state.module = std::move(module);
  if (!state.module) {
    if (!state.diagnostics.empty()) {
      const Error &error = state.diagnostics.front();
      return userError(error.what, error.where, "correct the text");
    }
    return userError("not readable as tensor IR", state.input.path);
  }
  return success();
}

Status importModel(CompileState &state) {
  if (isText(state.input, state.options)) {
    TRY(parseTensorIr(state));
  } else if (isTorchGraph(state.options)) {
    std::string read;
    ASSIGN_OR_RETURN(std::string_view bytes, modelBytes(state.input, read));
    ASSIGN_OR_RETURN(OwningOpRef<ModuleOp> module,
                     importTorch(*state.context, bytes));
    state.module = std::move(module);
  } else if (isStableHlo(state.input, state.options)) {
    TRY(importProgram(state));
  } else {
    ASSIGN_OR_RETURN(auto dims, parseDims(state.options.dims));
    TRY(checkGivenOnce(dims));
    OnnxSource source;
    source.path = state.input.path;
    source.bytes = state.input.bytes;
    OnnxImportOptions options;
    options.dims = std::move(dims);
    ASSIGN_OR_RETURN(
        OwningOpRef<ModuleOp> module,
        importOnnx(*state.context, source, options, &state.sources->onnx));
    state.module = std::move(module);
  }
  if (!state.main())
    return userError("there is no function main", state.input.path,
                     "name the entry function @main");
  return success();
}

} // namespace knapper
