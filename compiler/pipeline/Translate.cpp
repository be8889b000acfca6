#include "compiler/pipeline/Translate.h"
#include "compiler/pipeline/KeptSource.h"
#include "compiler/pipeline/Pack.h"
#include "compiler/pipeline/Sources.h"
#include "compiler/pipeline/TensorText.h"
#include "frontends/stablehlo/HloWriter.h"
#include "graph/layout/Transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "runtime/artefact/Artefact.h"
#include "runtime/artefact/Format.h"

using namespace mlir;

namespace knapper {

/// The artefact that the input is, or null: it is a model.
static Expected<std::shared_ptr<const Artefact>>
artefactOf(const CompileInput &input) {
  constexpr std::string_view magic(kMagic, sizeof(kMagic));
  if (modelOf(input).begin(magic.size()) != magic)
    return std::shared_ptr<const Artefact>();
  return input.path.empty()
             ? Artefact::loadMemory(std::as_bytes(std::span(input.bytes)))
             : Artefact::load(input.path);
}

/// Of what the artefact was made from, with the sizes that it was made for.
static Expected<std::string> translateSource(const Artefact &artefact,
                                             const CompileInput &input,
                                             const Options &options) {
  ASSIGN_OR_RETURN(KeptSource kept, readKeptSource(artefact));
  CompileInput model = {.path = {},
                        .bytes = kept.bytes,
                        .cancel = input.cancel,
                        .givenName = kept.name};
  Options own = options;
  own.modelFormat = kept.format;
  own.dims = kept.dims + "," + options.dims;
  return translateModel(model, own);
}

Expected<std::string> translateModel(const CompileInput &input,
                                     const Options &options) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Artefact> artefact, artefactOf(input));
  if (artefact)
    return translateSource(*artefact, input, options);
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
  // What StableHLO transforms are complex numbers: these are planes of them.
  for (auto function : state.module->getOps<func::FuncOp>())
    if (function.getBody().hasOneBlock())
      lowerTransforms(function, /*passes=*/false);
  return HloWriter(state.sources->model).write(*state.module);
}

} // namespace knapper
