#include "frontends/stablehlo/ImportStableHlo.h"
#include "frontends/stablehlo/HloImporter.h"
#include "frontends/stablehlo/Vhlo.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace knapper {

Expected<HloModule> importStableHlo(MLIRContext &context,
                                    std::string_view bytes,
                                    const std::string &path) {
  context.loadDialect<func::FuncDialect, ts::TsDialect>();
  std::string where = path.empty() ? "the model" : path;
  ASSIGN_OR_RETURN(HloProgram program, readHloProgram(context, bytes, where));
  HloImporter importer(context, program.begin, program.offset);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (importer.diagnostic.empty())
      importer.diagnostic = diagnostic.str();
    return mlir::success();
  });
  ASSIGN_OR_RETURN(OwningOpRef<ModuleOp> module, importer.run(*program.module));
  std::vector<StringRef> files(1 + importer.buffers.size());
  files[0] = path;
  (module)->getOperation()->setAttr("ts.files",
                                    importer.b.getStrArrayAttr(files));
  return HloModule{std::move(module), std::move(importer.buffers)};
}

} // namespace knapper
