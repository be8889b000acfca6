#include "frontends/onnx/ImportOnnx.h"
#include "frontends/onnx/Importer.h"

using namespace mlir;

namespace knapper {

Expected<OwningOpRef<ModuleOp>> importOnnx(MLIRContext &context,
                                           const OnnxSource &source,
                                           const OnnxImportOptions &options,
                                           ModelBuffers *buffers) {
  context.loadDialect<func::FuncDialect, ts::TsDialect>();
  ASSIGN_OR_RETURN(OnnxFile file, OnnxFile::open(source));
  // Each attempt begins anew; most models need one.
  constexpr int maxAttempts = 64;
  OnnxGuesses guesses;
  Expected<OwningOpRef<ModuleOp>> module = OwningOpRef<ModuleOp>();
  std::optional<Error> first;
  for (int attempt = 0; attempt < maxAttempts; ++attempt) {
    Importer importer(context, file, options, guesses);
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      if (importer.diagnostic.empty())
        importer.diagnostic = diagnostic.str();
      return mlir::success();
    });
    module = importer.run();
    if (module)
      break;
    if (!first)
      first = module.error();
    while (!guesses.empty() && !guesses.back())
      guesses.pop_back();
    if (guesses.empty())
      break;
    guesses.back() = false;
  }
  if (!module)
    return std::move(*first);
  if (buffers) {
    buffers->files = file.takeBuffers();
  } else {
    for (const std::string &path : file.files())
      if (path.empty())
        return internalError("weights in memory need `buffers` to live in",
                             "importOnnx");
  }
  return module;
}

} // namespace knapper
