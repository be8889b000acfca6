#include "serving/models/DecoderProgram.h"

#include "compiler/pipeline/Compile.h"
#include "compiler/pipeline/LlvmErrors.h"
#include "compiler/registration/Registration.h"
#include "mlir/IR/Verifier.h"
#include "serving/models/DecoderBuilder.h"

#include <unistd.h>

using namespace mlir;

namespace knapper::serving {

Expected<std::string> decoderText(const DecoderConfig &config,
                                  const Checkpoint &checkpoint,
                                  int64_t blockTokens) {
  DialectRegistry registry;
  registerAllKnapperDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  GraphBuilder graph(context);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    graph.diagnostic = diagnostic.str();
    return mlir::success();
  });
  Location location = NameLoc::get(StringAttr::get(&context, config.family));
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  DecoderBuilder builder(graph, location, config, checkpoint, blockTokens);
  TRY(builder.build(*module));
  if (failed(verify(*module)))
    return internalError("the program is not valid: " + graph.diagnostic,
                         config.family);
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  return text;
}

Expected<std::shared_ptr<const Artefact>>
compileDecoder(const DecoderConfig &config, const Checkpoint &checkpoint,
               int64_t blockTokens, Options options) {
  throwLlvmErrors();
  try {
    ASSIGN_OR_RETURN(std::string text,
                     decoderText(config, checkpoint, blockTokens));
    options.modelFormat = "mlir";
    CompileInput input;
    input.bytes = text;
    input.givenName = config.family;
    input.dataFiles = checkpoint.files();
    ASSIGN_OR_RETURN(int descriptor, compileModel(input, options, ""));
    auto artefact = Artefact::loadFd(descriptor, config.family);
    close(descriptor);
    return artefact;
  } catch (const std::bad_alloc &) {
    return deviceError("out of memory while compiling", config.family,
                       "free memory");
  } catch (const std::exception &failure) {
    return internalError(failure.what(), config.family);
  }
}

} // namespace knapper::serving
