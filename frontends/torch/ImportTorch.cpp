#include "frontends/torch/ImportTorch.h"
#include "frontends/torch/AtenImporter.h"
#include "frontends/torch/AtenNode.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace knapper {

// The parser recurses once a bracket; descriptions nest no deeper than a list
// in an argument of a node.
constexpr int deepest = 32;

static bool nestsTooDeeply(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quoted) {
      i += c == '\\';
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > deepest)
        return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

Expected<OwningOpRef<ModuleOp>> importTorch(MLIRContext &context,
                                            std::string_view bytes,
                                            const std::string &path) {
  context.loadDialect<func::FuncDialect, ts::TsDialect>();
  auto damaged = [](const std::string &what) {
    return internalError("the description of the graph is damaged: " + what,
                         "torch front end");
  };
  // Behind a null byte and at a multiple of 64 bytes, the data of constants.
  size_t end = std::min(bytes.find('\0'), bytes.size());
  std::string_view description = bytes.substr(0, end);
  size_t begin = std::min((end / 64 + 1) * 64, bytes.size());
  StringRef data(bytes.data() + begin, bytes.size() - begin);
  if (!StringRef(description.data(), description.size())
           .ltrim()
           .starts_with("{"))
    return userError("is no graph of PyTorch: it begins with no JSON object",
                     path.empty() ? "the model" : path,
                     "give what knapper.torch writes");
  if (nestsTooDeeply(description))
    return damaged("it is nested too deeply");
  llvm::Expected<llvm::json::Value> parsed =
      llvm::json::parse(StringRef(description.data(), description.size()));
  if (!parsed)
    return damaged(llvm::toString(parsed.takeError()));
  const llvm::json::Object *graph = parsed->getAsObject();
  if (!graph)
    return damaged("it is no object");
  AtenImporter importer(context, data, begin, path);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (importer.diagnostic.empty())
      importer.diagnostic = diagnostic.str();
    return mlir::success();
  });
  return importer.run(*graph);
}

} // namespace knapper
