#include "frontends/onnx/Import.h"
#include "frontends/onnx/Importer.h"

using namespace mlir;

namespace knapper {

Expected<OwningOpRef<ModuleOp>> importOnnx(MLIRContext &context,
                                           const OnnxSource &source,
                                           const OnnxImportOptions &options,
                                           OnnxBuffers *buffers) {
  context.loadDialect<func::FuncDialect, ts::TsDialect>();
  Expected<OnnxFile> file = OnnxFile::open(source);
  if (!file)
    return file.takeError();
  Importer importer(context, *file, options);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (importer.diagnostic.empty())
      importer.diagnostic = diagnostic.str();
    return mlir::success();
  });
  Expected<OwningOpRef<ModuleOp>> module = importer.run();
  if (!module)
    return module;
  if (buffers) {
    buffers->files = file->takeBuffers();
  } else {
    for (const std::string &path : file->files())
      if (path.empty())
        return internalError("weights in memory need `buffers` to live in",
                             "importOnnx");
  }
  return module;
}

} // namespace knapper
