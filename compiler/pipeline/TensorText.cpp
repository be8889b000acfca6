#include "compiler/pipeline/TensorText.h"
#include "frontends/common/TextNesting.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/Text.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace knapper {
bool isText(const CompileInput &input, const Options &options) {
  if (!options.modelFormat.empty())
    return options.modelFormat == "mlir";
  bool resumes = !options.startFrom.empty();
  if (input.path.empty())
    return resumes;
  // StableHLO has the same name.
  return StringRef(input.path).ends_with(".mlir") &&
         (resumes || frontEndFor(modelOf(input)).name() != "stablehlo");
}

ModelInput modelOf(const CompileInput &input) {
  return {input.path, input.bytes};
}

const FrontEnd &frontEndOf(const CompileInput &input, const Options &options) {
  const FrontEnd *named = findFrontEnd(options.modelFormat);
  return named ? *named : frontEndFor(modelOf(input));
}

Expected<OwningOpRef<ModuleOp>> parseTensorText(CompileState &state,
                                                const std::string &path) {
  std::string read;
  StringRef text(state.input.bytes.data(), state.input.bytes.size());
  std::string where = path.empty() ? "the model" : path;
  if (!path.empty()) {
    ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
    ASSIGN_OR_RETURN(std::string content, file.read());
    read = std::move(content);
    text = read;
  }
  if (text.starts_with("ML\xefR"))
    return userError("is MLIR bytecode, not text", where,
                     "print the program as text");
  TRY(checkNesting(text, where,
                   "give what --dump-dir wrote, or an ONNX model"));
  ParserConfig config(state.context.get());
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, config, path);
  if (module && failed(verify(*module)))
    module = {};
  return module;
}

} // namespace knapper
