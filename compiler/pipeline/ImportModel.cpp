#include "compiler/pipeline/Pack.h"
#include "compiler/pipeline/Sources.h"
#include "compiler/pipeline/TensorText.h"

using namespace mlir;

namespace knapper {

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
  } else {
    ASSIGN_OR_RETURN(auto dims, parseDims(state.options.dims));
    TRY(checkGivenOnce(dims));
    const FrontEnd &frontEnd = frontEndOf(state.input, state.options);
    ASSIGN_OR_RETURN(OwningOpRef<ModuleOp> module,
                     frontEnd.importModel(*state.context, modelOf(state.input),
                                          dims, state.sources->model));
    state.module = std::move(module);
  }
  if (!state.main())
    return userError("there is no function main", state.input.path,
                     "name the entry function @main");
  return success();
}

} // namespace knapper
