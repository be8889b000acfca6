#include "serving/models/ProgramText.h"

#include "compiler/pipeline/Compile.h"
#include "compiler/pipeline/LlvmErrors.h"
#include "compiler/registration/Registration.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

#include <unistd.h>

using namespace mlir;

namespace knapper::serving {

Expected<std::string> programText(
    const std::string &name,
    llvm::function_ref<Status(GraphBuilder &, Location, ModuleOp)> build) {
  DialectRegistry registry;
  registerAllKnapperDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  GraphBuilder graph(context);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    graph.diagnostic = diagnostic.str();
    return mlir::success();
  });
  Location location = NameLoc::get(StringAttr::get(&context, name));
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  TRY(build(graph, location, *module));
  if (failed(verify(*module)))
    return internalError("the program is not valid: " + graph.diagnostic, name);
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  return text;
}

Expected<std::shared_ptr<const Artefact>>
compileProgram(const std::string &name, std::vector<std::string> files,
               Options options,
               llvm::function_ref<Expected<std::string>()> makeText) {
  throwLlvmErrors();
  try {
    ASSIGN_OR_RETURN(std::string text, makeText());
    options.modelFormat = "mlir";
    CompileInput input;
    input.bytes = text;
    input.givenName = name;
    input.dataFiles = std::move(files);
    input.namesNoFile = input.dataFiles.empty();
    ASSIGN_OR_RETURN(int descriptor, compileModel(input, options, ""));
    ArtefactLoadOptions how;
    if (options.verifyFiles)
      how = {ConstantChecks::atLoad, static_cast<int32_t>(options.threads)};
    auto artefact = Artefact::loadFd(descriptor, name, how);
    close(descriptor);
    return artefact;
  } catch (const std::bad_alloc &) {
    return deviceError("out of memory while compiling", name, "free memory");
  } catch (const std::exception &failure) {
    return internalError(failure.what(), name);
  }
}

} // namespace knapper::serving
