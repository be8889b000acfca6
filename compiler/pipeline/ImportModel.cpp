#include "compiler/pipeline/Pack.h"
#include "compiler/pipeline/Sources.h"
#include "compiler/pipeline/TensorText.h"
#include "mlir/IR/Verifier.h"

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

/// A program for several devices is run by as many threads that exchange its
/// parts: whoever compiles one says that there are.
static Status checkDevices(CompileState &state) {
  Operation *module = state.module->getOperation();
  auto said = module->getAttrOfType<IntegerAttr>("ts.devices");
  int64_t devices = said ? said.getInt() : 1, wanted = state.options.devices;
  if (said)
    module->removeAttr("ts.devices");
  if (devices == wanted)
    return success();
  return userError("the program is cut for " + std::to_string(devices) +
                       (devices == 1 ? " device" : " devices") +
                       ", and the option says " + std::to_string(wanted),
                   "option devices",
                   wanted == 1 ? "give devices=" + std::to_string(devices) +
                                     ", or export it for one device, without "
                                     "shardings"
                               : "leave the option out, or give the number");
}

Status importModel(CompileState &state) {
  ASSIGN_OR_RETURN(bool text, isText(state.input, state.options));
  if (text) {
    TRY(parseTensorIr(state));
  } else {
    ASSIGN_OR_RETURN(auto dims, parseDims(state.options.dims));
    TRY(checkGivenOnce(dims));
    ASSIGN_OR_RETURN(const FrontEnd *frontEnd,
                     frontEndOf(state.input, state.options));
    ModelInput model = modelOf(state.input);
    ASSIGN_OR_RETURN(OwningOpRef<ModuleOp> module,
                     guarded(*frontEnd, "imported it", model, [&] {
                       return frontEnd->importModel(*state.context, model, dims,
                                                    state.sources->model);
                     }));
    state.module = std::move(module);
    // The passes trust it; a defect of a front end ends here.
    if (mlir::failed(verify(*state.module))) {
      Error said = state.diagnostics.empty() ? internalError("without a reason")
                                             : state.diagnostics.front();
      return internalError(
          "the front end '" + std::string(frontEnd->name()) +
              "' made a program that is not valid: " + said.what,
          said.where.empty() ? "import" : said.where);
    }
  }
  if (!state.main())
    return userError("there is no function main", state.input.path,
                     "name the entry function @main");
  if (text) {
    TRY(checkProgram(state.main(), state.input.path));
    checkSlices(*state.module);
  }
  TRY(checkDevices(state));
  return success();
}

} // namespace knapper
