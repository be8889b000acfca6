// The error that lists what an ONNX model needs and Knapper lacks.
#include "frontends/onnx/Importer.h"
#include "frontends/onnx/InspectOnnx.h"
#include "runtime/operators/Registry.h"

using namespace mlir;

namespace knapper {

Error problemsError(ArrayRef<OnnxProblem> problems, const std::string &where) {
  using Key = std::tuple<std::string, std::string, int64_t, std::string>;
  std::map<Key, std::vector<std::string>> groups;
  for (const OnnxProblem &p : problems)
    groups[{p.domain, p.op, p.opset, p.reason}].push_back(p.node);
  std::string text = "the model needs what is not supported yet:";
  for (const auto &[key, nodes] : groups) {
    const auto &[domain, op, opset, reason] = key;
    text += "\n  " + op + " (" + (domain.empty() ? "ai.onnx" : domain) +
            " opset " + std::to_string(opset) + "): " + reason + "; " +
            std::to_string(nodes.size()) +
            (nodes.size() == 1 ? " node: " : " nodes: ");
    for (size_t i = 0; i < nodes.size() && i < 3; ++i)
      text += (i ? ", '" : "'") + nodes[i] + "'";
    if (nodes.size() > 3)
      text += ", ...";
  }
  bool registers = llvm::all_of(problems, [](const OnnxProblem &p) {
    return p.reason == whyUnknown("an.unknown.domain", false);
  });
  return userError(std::move(text), where,
                   registers ? howToRegister(problems[0].domain, problems[0].op)
                             : "replace these operators before export; "
                               "`knapper inspect` lists what a model uses");
}

} // namespace knapper
