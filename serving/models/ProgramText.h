// Programs in tensor IR, built and compiled in this process: what the models'
// programs share.
#pragma once

#include "compiler/options/Options.h"
#include "frontends/common/NodeBuilder.h"
#include "runtime/artefact/Artefact.h"

#include <functional>

namespace knapper::serving {

/// The text of the program that `build` writes into an empty module. `name`
/// stands for the user's place in diagnostics.
Expected<std::string> programText(
    const std::string &name,
    llvm::function_ref<Status(GraphBuilder &, mlir::Location, mlir::ModuleOp)>
        build);

/// Compiles what `makeText` gives, or takes it from the compile cache. `files`:
/// those of its weights. DeviceError where memory runs out.
Expected<std::shared_ptr<const Artefact>>
compileProgram(const std::string &name, std::vector<std::string> files,
               Options options,
               llvm::function_ref<Expected<std::string>()> makeText);

} // namespace knapper::serving
