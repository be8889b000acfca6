#include "compiler/pipeline/Pack.h"
#include "compiler/pipeline/Sources.h"
#include "compiler/pipeline/TensorText.h"

using namespace mlir;

namespace knapper {

/// Tensor IR as text: what --dump-dir writes, and tests.
static Status parseTensorIr(CompileState &state) {
  auto module = parseTensorText(state, state.input.path);
  if (!module)
    return module.takeError();
  state.module = std::move(*module);
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
    if (Status status = parseTensorIr(state); !status)
      return status;
  } else {
    Expected<std::vector<std::pair<std::string, int64_t>>> dims =
        parseDims(state.options.dims);
    if (!dims)
      return dims.takeError();
    if (Status status = checkGivenOnce(*dims); !status)
      return status;
    OnnxSource source;
    source.path = state.input.path;
    source.bytes = state.input.bytes;
    OnnxImportOptions options;
    options.dims = std::move(*dims);
    Expected<OwningOpRef<ModuleOp>> module =
        importOnnx(*state.context, source, options, &state.sources->onnx);
    if (!module)
      return module.takeError();
    state.module = std::move(*module);
  }
  if (!state.main())
    return userError("there is no function main", state.input.path,
                     "name the entry function @main");
  return success();
}

} // namespace knapper
