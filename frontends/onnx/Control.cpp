// Control flow whose course the sizes decide.
#include "frontends/onnx/Node.h"

using namespace mlir;

namespace knapper {
namespace {

OnnxScope innerScope(Node &n, StringRef part) {
  OnnxScope inner;
  inner.parent = &n.scope;
  inner.prefix = n.name + "/" + part.str() + "/";
  inner.depth = n.scope.depth + 1;
  for (auto &entry : n.scope.opsets)
    inner.opsets.insert({entry.first(), entry.second});
  for (auto &entry : n.scope.attributes)
    inner.attributes.insert({entry.first(), entry.second});
  return inner;
}

/// The branch that the condition chooses, in place.
LogicalResult importIf(Node &n) {
  std::optional<SmallVector<int64_t>> condition =
      n.numbers(n[0], "the condition");
  if (!condition)
    return failure();
  if (condition->size() != 1)
    return n.fail("the condition must be one boolean", "give a scalar");
  const char *branch = (*condition)[0] ? "then_branch" : "else_branch";
  const onnx::GraphProto *graph = n.graph(branch);
  if (!graph)
    return n.fail(Twine("has no ") + branch, "export the model again");
  OnnxScope inner = innerScope(n, branch);
  Expected<SmallVector<Value>> results = n.importer.importGraph(*graph, inner);
  if (!results) {
    n.error = results.takeError();
    return failure();
  }
  if (results->size() != n.resultCount())
    return n.fail(Twine(branch) + " gives " + Twine(results->size()) +
                      " results of " + Twine(n.resultCount()),
                  "export the model again");
  for (auto [i, value] : llvm::enumerate(*results)) {
    if (!value)
      return n.unsupported("its branch cannot be imported");
    if (failed(n.out(value, i)))
      return failure();
  }
  return mlir::success();
}

constexpr OpRow rows[] = {
    {"", "If", 1, 1, 1, importIf},
};

} // namespace

ArrayRef<OpRow> controlRows() { return rows; }

} // namespace knapper
