#include "compiler/pipeline/Pack.h"
#include "compiler/pipeline/Sources.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;

namespace knapper {

/// Tensor IR as text: what --dump-dir writes, and tests.
static Status parseTensorIr(CompileState &state) {
  ParserConfig config(state.context.get());
  if (state.input.path.empty())
    state.module = parseSourceString<ModuleOp>(
        StringRef(state.input.bytes.data(), state.input.bytes.size()), config);
  else
    state.module = parseSourceFile<ModuleOp>(state.input.path, config);
  if (!state.module || failed(verify(*state.module))) {
    if (!state.diagnostics.empty()) {
      Error error = state.diagnostics.front();
      error.kind = ErrorKind::user;
      return error;
    }
    return userError("not readable as tensor IR", state.input.path);
  }
  return success();
}

bool isText(const CompileInput &input) {
  if (!input.path.empty())
    return StringRef(input.path).ends_with(".mlir");
  return StringRef(input.bytes.data(),
                   std::min<size_t>(input.bytes.size(), 8192))
      .contains("func.func");
}

Status importModel(CompileState &state) {
  if (isText(state.input)) {
    if (Status status = parseTensorIr(state); !status)
      return status;
  } else {
    Expected<std::vector<std::pair<std::string, int64_t>>> dims =
        parseDims(state.options.dims);
    if (!dims)
      return dims.takeError();
    OnnxSource source;
    source.path = state.input.path;
    source.bytes = state.input.bytes;
    OnnxImportOptions options;
    options.dims = std::move(*dims);
    Expected<OwningOpRef<ModuleOp>> module =
        importOnnx(*state.context, source, options, &state.sources->onnx);
    if (!module)
      return module.takeError();
    state.module = std::move(*module);
  }
  if (!state.main())
    return userError("there is no function main", state.input.path,
                     "name the entry function @main");
  return success();
}

} // namespace knapper
