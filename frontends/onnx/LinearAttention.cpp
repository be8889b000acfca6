// Attention whose keys and values are kept in a matrix of fixed size.
#include "frontends/onnx/Node.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// More steps than these are not written out one after the other.
constexpr int64_t mostSteps = 64;

/// [B, T, heads * size] as [B, heads, T, size], in f32.
Value headsOf(Node &n, Value x, int64_t heads) {
  if (!x)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(x);
  std::optional<Dim> size =
      dims.size() == 3 ? dims[2].exactDiv(n.dim(heads)) : std::nullopt;
  if (!size) {
    (void)n.fail(ts::shapeText(x.getType()) + " does not divide into " +
                     Twine(heads) + " heads",
                 "give [batch, time, heads * size]");
    return {};
  }
  Value split = n.reshape(x, {dims[0], dims[1], n.dim(heads), *size});
  return n.convert(n.transpose(split, {0, 2, 1, 3}), n.b.getF32Type());
}

/// Step `t` of [B, H, T, D], as [B, H, D].
Value stepOf(Node &n, Value x, int64_t t) {
  Value one = n.sliceDim(x, 2, n.dim(t), n.dim(1));
  if (!one)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(one);
  return n.reshape(one, {dims[0], dims[1], dims[3]});
}

/// [B, H, D] x [B, H, D, E] to [B, H, E]
Value read(Node &n, Value vector, Value state) {
  if (!vector || !state)
    return {};
  return n.make<ts::DotOp>(vector, state, ArrayRef<int64_t>{0, 1},
                           ArrayRef<int64_t>{0, 1}, ArrayRef<int64_t>{2},
                           ArrayRef<int64_t>{2}, TypeAttr());
}

LogicalResult importLinearAttention(Node &n) {
  std::string rule = n.text("update_rule", "gated_delta");
  bool gated = rule == "gated" || rule == "gated_delta",
       delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear")
    return n.fail("update_rule is '" + rule + "'",
                  "use linear, gated, delta or gated_delta");
  if (gated != n.has(4) || delta != n.has(5))
    return n.fail("update_rule " + rule + (gated ? " needs" : " takes no") +
                      " decay and" + (delta ? " needs" : " takes no") + " beta",
                  "correct the inputs or update_rule");
  int64_t heads = n.integer("q_num_heads", 0),
          kept = n.integer("kv_num_heads", 0);
  if (heads < 1 || kept < 1 || heads % kept)
    return n.fail(Twine(heads) + " query heads do not share " + Twine(kept) +
                      " key heads evenly",
                  "correct q_num_heads or kv_num_heads");
  Value query = headsOf(n, n[0], heads), key = headsOf(n, n[1], kept),
        value = headsOf(n, n[2], kept), decay, beta;
  if (!query || !key || !value)
    return failure();
  SmallVector<Dim> q = ts::dimsOf(query), k = ts::dimsOf(key),
                   v = ts::dimsOf(value);
  std::optional<int64_t> steps = q[2].asConstant();
  if (!steps)
    return n.unsupported("a symbolic number of steps");
  if (*steps > mostSteps)
    return n.unsupported("more than " + std::to_string(mostSteps) + " steps");
  key = n.castDims(key, {q[0], k[1], q[2], q[3]});
  value = n.castDims(value, {q[0], k[1], q[2], v[3]});
  Type f32 = n.b.getF32Type();
  // Both are numbers a head, or one a key element.
  if (gated)
    decay = headsOf(n, n[4], kept);
  if (delta)
    beta = headsOf(
        n, n[5],
        ts::rankOf(n[5]) == 3 && ts::dimOf(n[5], 2).isConstant(1) ? 1 : kept);
  SmallVector<Dim> stateDims{q[0], k[1], q[3], v[3]};
  Value state = n.has(3) ? n.castDims(n.convert(n[3], f32), stateDims)
                         : n.broadcastTo(n.scalar(0, f32), stateDims);
  double scale = n.real("scale", 0);
  if (scale == 0) {
    std::optional<int64_t> size = q[3].asConstant();
    if (!size || !*size)
      return n.unsupported("heads of symbolic size without a scale");
    scale = 1 / std::sqrt(static_cast<double>(*size));
  }
  Dim shared = n.dim(heads / kept);
  SmallVector<Value> outputs;
  for (int64_t t = 0; t < *steps; ++t) {
    Value now = stepOf(n, key, t), added = stepOf(n, value, t);
    if (!now || !added || !state)
      return failure();
    if (gated) {
      Value factor = n.make<ts::ExpOp>(stepOf(n, decay, t));
      if (!factor)
        return failure();
      SmallVector<Dim> dims = ts::dimsOf(factor);
      dims.push_back(n.dim(1));
      state = n.mul(state, n.reshape(factor, dims));
    }
    if (delta)
      added = n.mul(n.sub(added, read(n, now, state)), stepOf(n, beta, t));
    state = n.add(state, n.mul(n.broadcastAt(now, {0, 1, 2}, stateDims),
                               n.broadcastAt(added, {0, 1, 3}, stateDims)));
    // Query heads of one group read one state: [B, G, shared, D].
    Value asked = n.reshape(stepOf(n, query, t), {q[0], k[1], shared, q[3]});
    if (!asked || !state)
      return failure();
    Value y = n.make<ts::DotOp>(asked, state, ArrayRef<int64_t>{0, 1},
                                ArrayRef<int64_t>{0, 1}, ArrayRef<int64_t>{3},
                                ArrayRef<int64_t>{2}, TypeAttr());
    outputs.push_back(
        n.reshape(n.mul(y, scale), {q[0], n.dim(1), v[3] * heads}));
    if (!outputs.back())
      return failure();
  }
  Value y = outputs.empty() ? n.broadcastTo(n.scalar(0, f32),
                                            {q[0], n.dim(0), v[3] * heads})
            : outputs.size() == 1
                ? outputs[0]
                : n.make<ts::ConcatOp>(ValueRange(outputs), int64_t(1));
  if (failed(n.out(n.convert(y, ts::elementTypeOf(n[0])))))
    return failure();
  return n.out(n.convert(state, ts::elementTypeOf(n.has(3) ? n[3] : n[0])), 1);
}

constexpr OpRow rows[] = {
    {"", "LinearAttention", 27, 3, 6, importLinearAttention},
};

} // namespace

ArrayRef<OpRow> linearAttentionRows() { return rows; }

} // namespace knapper
