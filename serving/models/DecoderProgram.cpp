#include "serving/models/DecoderProgram.h"

#include "compiler/pipeline/Compile.h"
#include "compiler/pipeline/LlvmErrors.h"
#include "compiler/registration/Registration.h"
#include "mlir/IR/Verifier.h"
#include "serving/models/DecoderBuilder.h"
#include "serving/models/EncoderBuilder.h"

#include <unistd.h>

using namespace mlir;

namespace knapper::serving {

/// The text of a program that `build` writes.
template <typename Build>
static Expected<std::string> programText(const std::string &family,
                                         Build &&build) {
  DialectRegistry registry;
  registerAllKnapperDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  GraphBuilder graph(context);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    graph.diagnostic = diagnostic.str();
    return mlir::success();
  });
  Location location = NameLoc::get(StringAttr::get(&context, family));
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  TRY(build(graph, location, *module));
  if (failed(verify(*module)))
    return internalError("the program is not valid: " + graph.diagnostic,
                         family);
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  return text;
}

/// Compiles what `makeText` gives.
template <typename MakeText>
static Expected<std::shared_ptr<const Artefact>>
compileProgram(const std::string &family, std::vector<std::string> files,
               Options options, MakeText &&makeText) {
  throwLlvmErrors();
  try {
    ASSIGN_OR_RETURN(std::string text, makeText());
    options.modelFormat = "mlir";
    CompileInput input;
    input.bytes = text;
    input.givenName = family;
    input.dataFiles = std::move(files);
    input.namesNoFile = input.dataFiles.empty();
    ASSIGN_OR_RETURN(int descriptor, compileModel(input, options, ""));
    auto artefact = Artefact::loadFd(descriptor, family);
    close(descriptor);
    return artefact;
  } catch (const std::bad_alloc &) {
    return deviceError("out of memory while compiling", family, "free memory");
  } catch (const std::exception &failure) {
    return internalError(failure.what(), family);
  }
}

Expected<std::string> decoderText(const DecoderConfig &config,
                                  const Checkpoint &checkpoint,
                                  const DecoderForm &form,
                                  std::vector<WeightInput> *weights) {
  return programText(config.family, [&](GraphBuilder &graph, Location location,
                                        ModuleOp module) {
    DecoderBuilder builder(graph, location, config, checkpoint, form);
    Status status = builder.build(module);
    if (weights)
      *weights = builder.takeInputs();
    return status;
  });
}

Expected<DecoderProgram> compileDecoder(const DecoderConfig &config,
                                        const Checkpoint &checkpoint,
                                        const DecoderForm &form,
                                        Options options) {
  DecoderProgram program;
  ASSIGN_OR_RETURN(program.artefact,
                   compileProgram(config.family,
                                  form.weightInputs ? std::vector<std::string>()
                                                    : checkpoint.files(),
                                  std::move(options), [&] {
                                    return decoderText(config, checkpoint, form,
                                                       &program.weights);
                                  }));
  return program;
}

Expected<std::shared_ptr<const Artefact>>
compileEncoder(const EncoderConfig &config, const Checkpoint &checkpoint,
               Options options) {
  return compileProgram(
      config.family, checkpoint.files(), std::move(options), [&] {
        return programText(
            config.family,
            [&](GraphBuilder &graph, Location location, ModuleOp module) {
              return EncoderBuilder(graph, location, config, checkpoint)
                  .build(module);
            });
      });
}

} // namespace knapper::serving
