// Attention whose scores and probabilities graphs may change.
#include "frontends/onnx/Node.h"
#include "frontends/onnx/Tensors.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// `x` after the graph that attribute `name` holds, or `x` where there is none.
Value modified(Node &n, const char *name, Value x) {
  if (!x || !n.hasAttr(name))
    return x;
  const onnx::GraphProto *graph = n.graph(name);
  if (!graph)
    return {};
  if (graph->input_size() != 1 || graph->output_size() != 1) {
    (void)n.fail(Twine(name) + " has " + Twine(graph->input_size()) +
                     " inputs and " + Twine(graph->output_size()) + " outputs",
                 "give a graph with one of each");
    return {};
  }
  OnnxScope inner = innerScope(n, name);
  inner.values[graph->input(0).name()] = x;
  Expected<SmallVector<Value>> results = n.importer.importGraph(*graph, inner);
  if (!results) {
    n.error = results.takeError();
    return {};
  }
  Value y = results->front();
  if (!y) {
    (void)n.unsupported(Twine(name) + " cannot be imported");
    return {};
  }
  if (ts::rankOf(y) != 4 || ts::elementTypeOf(y) != ts::elementTypeOf(x)) {
    (void)n.fail(Twine(name) + " gives " + ts::shapeText(y.getType()),
                 "keep shape and element type");
    return {};
  }
  return n.castDims(y, ts::dimsOf(x));
}

LogicalResult importFlexAttention(Node &n) {
  for (unsigned i = 0; i < 3; ++i)
    if (ts::rankOf(n[i]) != 4)
      return n.fail("input " + Twine(i) + " is " +
                        ts::shapeText(n[i].getType()),
                    "give [batch, heads, length, size]");
  SmallVector<Dim> q = ts::dimsOf(n[0]), k = ts::dimsOf(n[1]),
                   v = ts::dimsOf(n[2]);
  std::optional<Dim> shared = q[1].exactDiv(k[1]);
  if (!shared)
    return n.fail(q[1].str() + " query heads do not share " + k[1].str() +
                      " key heads evenly",
                  "correct the heads");
  double scale = n.real("scale", 0);
  if (!n.hasAttr("scale")) {
    std::optional<int64_t> size = q[3].asConstant();
    if (!size || !*size)
      return n.unsupported("heads of symbolic size without a scale");
    scale = 1 / std::sqrt(static_cast<double>(*size));
  }
  Type element = ts::elementTypeOf(n[0]);
  Type fine = element.isF64() ? element : Type(n.b.getF32Type());
  if (n.hasAttr("softmax_precision")) {
    auto dtype = static_cast<int32_t>(n.integer("softmax_precision", 0));
    fine = onnxElementType(n.importer.context, dtype);
    if (!fine || !isa<FloatType>(fine))
      return n.unsupported("softmax_precision " + onnxTypeName(dtype));
  }
  Value query = n.convert(n[0], fine);
  Value key = n.convert(n.castDims(n[1], {q[0], k[1], k[2], q[3]}), fine);
  Value value = n.convert(n.castDims(n[2], {q[0], k[1], k[2], v[3]}), fine);
  // [B, G, shared, L, D]: heads of one group meet one key head.
  Value grouped = n.reshape(query, {q[0], k[1], *shared, q[2], q[3]});
  Value scores = n.make<ts::DotOp>(
      grouped, key, ArrayRef<int64_t>{0, 1}, ArrayRef<int64_t>{0, 1},
      ArrayRef<int64_t>{4}, ArrayRef<int64_t>{3}, TypeAttr());
  SmallVector<Dim> whole{q[0], q[1], q[2], k[2]},
      split{q[0], k[1], *shared, q[2], k[2]};
  scores = n.reshape(scores, whole);
  if (!scores)
    return failure();
  scores = modified(n, "score_mod", n.mul(scores, scale));
  if (!scores)
    return failure();
  Value shares = modified(
      n, "prob_mod", n.make<ts::SoftmaxOp>(scores, uint64_t(3), bool(false)));
  if (!shares)
    return failure();
  Value y =
      n.make<ts::DotOp>(n.reshape(shares, split), value,
                        ArrayRef<int64_t>{0, 1}, ArrayRef<int64_t>{0, 1},
                        ArrayRef<int64_t>{4}, ArrayRef<int64_t>{2}, TypeAttr());
  return n.out(n.convert(n.reshape(y, {q[0], q[1], q[2], v[3]}), element));
}

constexpr OpRow rows[] = {
    {"ai.onnx.preview", "FlexAttention", 1, 3, 3, importFlexAttention},
};

} // namespace

ArrayRef<OpRow> flexAttentionRows() { return rows; }

} // namespace knapper
