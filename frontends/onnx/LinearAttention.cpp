// Attention whose keys and values are kept in a matrix of fixed size.
#include "frontends/onnx/ControlFlowBodies.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// So many steps stand one after the other; more become a ts.loop.
constexpr int64_t mostUnrolled = 4;

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
Value stepOf(Node &n, Value x, Dim t) {
  Value one = n.sliceDim(x, 2, t, n.dim(1));
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

/// What all steps read, [B, H, T, D] each in f32; `decay` and `beta` are null
/// where the rule has none.
struct Steps {
  Value query, key, value, decay, beta;
  double scale;
  int64_t heads, kept; ///< query heads; those of keys and values

  SmallVector<Value *> values() {
    return {&query, &key, &value, &decay, &beta};
  }
};

/// The state [B, G, D, E] after step `t`, and what the queries read of it
/// [B, H * E].
std::pair<Value, Value> step(Node &n, const Steps &s, Value state, Dim t) {
  Value key = stepOf(n, s.key, t), added = stepOf(n, s.value, t);
  if (!key || !added || !state)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(state);
  if (s.decay) {
    // A number a head, or one a key element.
    Value factor = n.make<ts::ExpOp>(stepOf(n, s.decay, t));
    if (!factor)
      return {};
    SmallVector<Dim> column = ts::dimsOf(factor);
    column.push_back(n.dim(1));
    state = n.mul(state, n.reshape(factor, column));
  }
  if (s.beta)
    added = n.mul(n.sub(added, read(n, key, state)), stepOf(n, s.beta, t));
  state = n.add(state, n.mul(n.broadcastAt(key, {0, 1, 2}, dims),
                             n.broadcastAt(added, {0, 1, 3}, dims)));
  // Query heads of one group read one state: [B, G, shared, D].
  Value asked = n.reshape(stepOf(n, s.query, t),
                          {dims[0], dims[1], n.dim(s.heads / s.kept), dims[2]});
  if (!asked || !state)
    return {};
  Value y = n.make<ts::DotOp>(asked, state, ArrayRef<int64_t>{0, 1},
                              ArrayRef<int64_t>{0, 1}, ArrayRef<int64_t>{3},
                              ArrayRef<int64_t>{2}, TypeAttr());
  return {state, n.reshape(n.mul(y, s.scale), {dims[0], dims[3] * s.heads})};
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
  Steps s;
  s.heads = n.integer("q_num_heads", 0);
  s.kept = n.integer("kv_num_heads", 0);
  if (s.heads < 1 || s.kept < 1 || s.heads % s.kept)
    return n.fail(Twine(s.heads) + " query heads do not share " +
                      Twine(s.kept) + " key heads evenly",
                  "correct q_num_heads or kv_num_heads");
  s.query = headsOf(n, n[0], s.heads);
  s.key = headsOf(n, n[1], s.kept);
  s.value = headsOf(n, n[2], s.kept);
  if (!s.query || !s.key || !s.value)
    return failure();
  SmallVector<Dim> q = ts::dimsOf(s.query), v = ts::dimsOf(s.value);
  Dim group = n.dim(s.kept);
  s.key = n.castDims(s.key, {q[0], group, q[2], q[3]});
  s.value = n.castDims(s.value, {q[0], group, q[2], v[3]});
  auto beside = [&](size_t index, int64_t heads) -> Value {
    Value x = headsOf(n, n[index], heads);
    if (!x)
      return {};
    SmallVector<Dim> dims = ts::dimsOf(x);
    return n.castDims(x, {q[0], dims[1], q[2], dims[3]});
  };
  if (gated)
    s.decay = beside(4, s.kept);
  if (delta)
    s.beta = beside(5, ts::rankOf(n[5]) == 3 && ts::dimOf(n[5], 2).isConstant(1)
                           ? 1
                           : s.kept);
  Type f32 = n.b.getF32Type();
  SmallVector<Dim> stateDims{q[0], group, q[3], v[3]};
  Value state = n.has(3) ? n.castDims(n.convert(n[3], f32), stateDims)
                         : n.broadcastTo(n.scalar(0, f32), stateDims);
  s.scale = n.real("scale", 0);
  if (s.scale == 0) {
    std::optional<int64_t> size = q[3].asConstant();
    if (!size || !*size)
      return n.unsupported("heads of symbolic size without a scale");
    s.scale = 1 / std::sqrt(static_cast<double>(*size));
  }
  if (n.failed() || !state)
    return failure();
  Value y; // [B, T, H * E]
  std::optional<int64_t> known = q[2].asConstant();
  if (known && *known >= 1 && *known <= mostUnrolled) {
    SmallVector<Value> outputs;
    for (int64_t t = 0; t < *known; ++t) {
      auto [next, row] = step(n, s, state, n.dim(t));
      state = next;
      outputs.push_back(n.reshape(row, {q[0], n.dim(1), v[3] * s.heads}));
      if (!state || !outputs.back())
        return failure();
    }
    y = outputs.size() == 1
            ? outputs[0]
            : n.make<ts::ConcatOp>(ValueRange(outputs), int64_t(1));
  } else {
    LoopShape shape;
    shape.around = &n.scope;
    shape.trips = q[2];
    shape.carried = {state};
    shape.reversed = {false};
    std::optional<SmallVector<Value>> results = buildLoop(
        n, shape,
        [&](OnnxBody &body, Dim counter, ArrayRef<Value> carried,
            Iteration &iteration) {
          Steps inside = s;
          for (Value *value : inside.values())
            *value = n.importer.capture(body, *value);
          auto [next, row] = step(n, inside, carried[0], counter);
          if (n.failed() || !row)
            return failure();
          iteration.carried = {n.castDims(next, ts::dimsOf(carried[0]))};
          iteration.scans = {row};
          return mlir::success();
        });
    if (!results)
      return failure();
    state = (*results)[0];
    y = n.transpose((*results)[1], {1, 0, 2});
  }
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
