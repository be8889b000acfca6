#include "frontends/stablehlo/ImportStableHlo.h"
#include "frontends/stablehlo/HloImporter.h"
#include "frontends/stablehlo/Vhlo.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/Alignment.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;

namespace knapper {

Expected<HloModule> importStableHlo(MLIRContext &context,
                                    std::string_view bytes,
                                    const std::string &path) {
  context.loadDialect<func::FuncDialect, ts::TsDialect>();
  std::string where = path.empty() ? "the model" : path;
  std::string_view code = findHloBytecode(bytes);
  if (code.empty())
    return userError("is no StableHLO program: it holds no MLIR bytecode",
                     where, "give what jax.export writes");
  auto offset = static_cast<size_t>(code.data() - bytes.data());
  std::unique_ptr<llvm::WritableMemoryBuffer> aligned;
  // Sections of the format are aligned, as the reader is to see them.
  const llvm::Align alignment(64);
  if (!llvm::isAddrAligned(alignment, code.data())) {
    aligned = llvm::WritableMemoryBuffer::getNewUninitMemBuffer(
        code.size(), where, alignment);
    if (!aligned)
      return deviceError("there is no memory to read it", where, "free memory");
    llvm::copy(code, aligned->getBufferStart());
    code = {aligned->getBufferStart(), code.size()};
  }
  ASSIGN_OR_RETURN(OwningOpRef<ModuleOp> program,
                   readHloBytecode(context, code, where));
  HloImporter importer(context, code.data(), offset);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (importer.diagnostic.empty())
      importer.diagnostic = diagnostic.str();
    return mlir::success();
  });
  ASSIGN_OR_RETURN(OwningOpRef<ModuleOp> module, importer.run(*program));
  std::vector<StringRef> files(1 + importer.buffers.size());
  files[0] = path;
  (module)->getOperation()->setAttr("ts.files",
                                    importer.b.getStrArrayAttr(files));
  return HloModule{std::move(module), std::move(importer.buffers)};
}

} // namespace knapper
