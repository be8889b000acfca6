#include "compiler/pipeline/Translate.h"
#include "compiler/pipeline/Pack.h"
#include "compiler/pipeline/Sources.h"
#include "frontends/stablehlo/HloWriter.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace knapper {

Expected<std::string> translateModel(const CompileInput &input,
                                     const Options &options) {
  TRY(checkOptions(options));
  CompileState state(input, options);
  CompileStats stats;
  state.stats = &stats;
  ScopedDiagnosticHandler handler(state.context.get(), [&](Diagnostic &said) {
    if (said.getSeverity() == DiagnosticSeverity::Error)
      state.diagnostics.push_back(internalError(said.str()));
    return mlir::success();
  });
  Status imported = importModel(state);
  if (!imported)
    return state.diagnostics.empty() ? imported.takeError()
                                     : state.diagnostics.front();
  return HloWriter(state.sources->model).write(*state.module);
}

} // namespace knapper
