// Scaled dot-product attention, forward and backward.
#include "frontends/torch/AtenNode.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using P = ts::ComparePredicate;
using K = ts::ReduceKind;

struct Attention {
  Value query, key, value; ///< [B, H, S, D]
  Value mask;              ///< as torch gives it, or null
  double scale;            ///< where `factor` is null
  Value factor;            ///< the same, 0-d, of a symbolic head size
  bool causal;
};

std::optional<Attention> readAttention(AtenNode &n, Type type) {
  Attention a;
  a.query = n.operand("query", type);
  a.key = n.operand("key", type);
  a.value = n.operand("value", type);
  if (!a.query || !a.key || !a.value)
    return std::nullopt;
  if (n.real("dropout_p", 0) != 0) {
    (void)n.unsupported("dropout inside of attention");
    return std::nullopt;
  }
  a.causal = n.flag("is_causal");
  if (n.has("attn_mask"))
    a.mask = n.tensor("attn_mask");
  if (n.has("scale")) {
    a.scale = n.real("scale");
  } else {
    Dim width = ts::dimOf(a.query, 3);
    int64_t known = width.asConstant().value_or(1);
    a.scale = 1 / std::sqrt(static_cast<double>(known));
    if (width.isSymbolic()) {
      Type wide = AtenNode::wideOf(type);
      a.factor = n.div(n.scalar(1, wide),
                       n.make<ts::SqrtOp>(n.sizeScalar(width, wide)));
    }
  }
  // Sizes that agree as torch knows.
  SmallVector<Dim> k = ts::dimsOf(a.key), v = ts::dimsOf(a.value);
  k[0] = ts::dimOf(a.query, 0);
  k[3] = ts::dimOf(a.query, 3);
  v[0] = k[0], v[1] = k[1], v[2] = k[2];
  a.key = n.castDims(a.key, k);
  a.value = n.castDims(a.value, v);
  if (n.failed())
    return std::nullopt;
  return a;
}

/// x times the scale, in x's element type.
Value scaled(AtenNode &n, Value x, const Attention &a) {
  if (!a.factor)
    return n.mul(x, a.scale);
  if (!x)
    return {};
  Value wide = n.mul(n.convert(x, ts::elementTypeOf(a.factor)), a.factor);
  return n.convert(wide, ts::elementTypeOf(x));
}

/// The mask with rank 4.
Value maskOf(AtenNode &n, const Attention &a) {
  if (!a.mask)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(a.mask);
  while (dims.size() < 4)
    dims.insert(dims.begin(), n.dim(1));
  SmallVector<Dim> scores{ts::dimOf(a.query, 0), ts::dimOf(a.query, 1),
                          ts::dimOf(a.query, 2), ts::dimOf(a.key, 2)};
  Value mask = n.reshape(a.mask, dims);
  for (auto [mine, whole] : llvm::zip(dims, scores))
    if (!mine.isConstant(1))
      mine = whole;
  return mask ? n.castDims(mask, dims) : mask;
}

/// Keys repeated until there is a head for each of the query's.
Value repeatHeads(AtenNode &n, Value x, Dim heads) {
  SmallVector<Dim> d = ts::dimsOf(x);
  if (d[1] == heads)
    return x;
  std::optional<Dim> times = heads.exactDiv(d[1]);
  if (!times) {
    (void)n.unsupported("query heads that the key's do not divide");
    return {};
  }
  return n.reshape(
      n.broadcastAt(x, {0, 1, 3, 4}, {d[0], d[1], *times, d[2], d[3]}),
      {d[0], heads, d[2], d[3]});
}

Value dot(AtenNode &n, Value x, Value y, int64_t xContract, int64_t yContract) {
  return n.make<ts::DotOp>(
      x, y, ArrayRef<int64_t>{0, 1}, ArrayRef<int64_t>{0, 1},
      ArrayRef<int64_t>{xContract}, ArrayRef<int64_t>{yContract}, TypeAttr());
}

/// scale * q k^T + mask, in the wide type.
Value scoresOf(AtenNode &n, const Attention &a, Type wide) {
  Value key = repeatHeads(n, a.key, ts::dimOf(a.query, 1));
  if (!key)
    return {};
  Value query = a.query;
  if (a.factor) { // as the forward's
    query = n.convert(query, wide);
    key = n.convert(key, wide);
  }
  Value scores = n.convert(dot(n, query, key, 3, 3), wide);
  scores = scaled(n, scores, a);
  if (!scores)
    return {};
  Value least = n.scalarFor(scores, -INFINITY);
  if (Value mask = maskOf(n, a))
    scores = ts::elementTypeOf(mask).isInteger(1)
                 ? n.select(mask, scores, least)
                 : n.add(scores, n.convert(mask, wide));
  if (a.causal) { // from the first key on
    Type i64 = n.b.getI64Type();
    RankedTensorType plane =
        n.type({ts::dimOf(scores, 2), ts::dimOf(scores, 3)}, i64);
    Value seen = n.compare(P::ge, n.makeAs<ts::IotaOp>(plane, uint64_t(0)),
                           n.makeAs<ts::IotaOp>(plane, uint64_t(1)));
    scores = n.select(seen, scores, least);
  }
  return scores;
}

/// log(sum(e^scores)) over the keys.
Value logSumExp(AtenNode &n, Value scores) {
  Value most = n.reduce(K::max, scores, {3}, true);
  Value base = n.select(n.make<ts::IsInfOp>(most, true, true),
                        n.scalarFor(most, 0), most);
  Value sum =
      n.reduce(K::add, n.make<ts::ExpOp>(n.sub(scores, base)), {3}, true);
  return n.add(n.make<ts::LogOp>(sum), base);
}

LogicalResult importAttention(AtenNode &n) {
  Type own = n.element();
  std::optional<Attention> a = readAttention(n, own);
  if (!a)
    return failure();
  // The op's scale is a number: another one is the query's, which 16 bits would
  // round.
  Type inner = a->factor ? AtenNode::wideOf(own) : own;
  Value mask = maskOf(n, *a);
  if (mask && !ts::elementTypeOf(mask).isInteger(1))
    mask = n.convert(mask, inner);
  Value query = n.convert(a->query, inner), key = n.convert(a->key, inner),
        value = n.convert(a->value, inner);
  if (a->factor)
    query = n.mul(query, a->factor);
  Value y = n.make<ts::AttentionOp>(query, key, value, Optional{mask},
                                    llvm::APFloat(a->factor ? 1.0 : a->scale),
                                    bool(a->causal), bool(a->causal),
                                    llvm::APFloat(0.0));
  if (failed(n.out(n.convert(y, own))))
    return failure();
  if (n.wants(1)) {
    Type wide = n.element(1);
    Value scores = scoresOf(n, *a, wide);
    Value sum = scores ? logSumExp(n, scores) : Value();
    if (failed(n.out(sum ? n.reshape(sum, n.dims(1)) : sum, 1)))
      return failure();
  }
  for (size_t i = 2; i < n.resultCount(); ++i) // seeds and offsets of dropout
    if (n.wants(i) &&
        failed(n.out(n.broadcastTo(n.integerScalar(0, n.element(i)), n.dims(i)),
                     i)))
      return failure();
  return mlir::success();
}

/// Sums over the query heads that share a key's.
Value sumHeads(AtenNode &n, Value x, ArrayRef<Dim> dims) {
  if (!x || ArrayRef<Dim>(ts::dimsOf(x)) == dims)
    return x;
  std::optional<Dim> times = ts::dimOf(x, 1).exactDiv(dims[1]);
  if (!times)
    return n.castDims(x, dims);
  return n.reduce(K::add,
                  n.reshape(x, {dims[0], dims[1], *times, dims[2], dims[3]}),
                  {2}, false);
}

/// The gradients of query, key and value (Dao et al., "FlashAttention", 2022,
/// algorithm 4, without its tiles).
LogicalResult importAttentionBackward(AtenNode &n) {
  Type type = n.element(), wide = n.wide();
  std::optional<Attention> a = readAttention(n, type);
  Value grad = n.operand("grad_out", type), out = n.operand("out", wide),
        sum = n.operand("logsumexp", wide);
  if (!a || !grad || !out || !sum)
    return failure();
  Value scores = scoresOf(n, *a, wide);
  if (!scores)
    return failure();
  SmallVector<Dim> rows = ts::dimsOf(scores);
  rows[3] = n.dim(1);
  // A row that sees no key has a sum of e^-inf, and no share of any.
  Value none = n.make<ts::IsInfOp>(sum, true, true);
  sum = n.reshape(n.select(none, n.scalarFor(sum, 0), sum), rows);
  Value p = n.make<ts::ExpOp>(n.sub(scores, sum));
  Dim heads = ts::dimOf(a->query, 1);
  Value key = repeatHeads(n, a->key, heads),
        value = repeatHeads(n, a->value, heads);
  if (!p || !key || !value)
    return failure();
  Value dv = dot(n, n.convert(p, type), grad, 2, 2);
  Value dp = n.convert(dot(n, grad, value, 3, 3), wide);
  Value row = n.reduce(K::add, n.mul(n.convert(grad, wide), out), {3}, true);
  Value ds = scaled(n, n.mul(p, n.sub(dp, row)), *a);
  if (!ds)
    return failure();
  ds = n.convert(ds, type);
  Value dq = dot(n, ds, key, 3, 2), dk = dot(n, ds, a->query, 2, 2);
  if (failed(n.out(dq, 0)) ||
      failed(n.out(sumHeads(n, dk, ts::dimsOf(a->key)), 1)))
    return failure();
  return n.out(sumHeads(n, dv, ts::dimsOf(a->value)), 2);
}

constexpr AtenRow rows[] = {
    {"aten._scaled_dot_product_flash_attention_for_cpu.default",
     importAttention},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
     importAttentionBackward},
};

} // namespace

ArrayRef<AtenRow> atenAttentionRows() { return rows; }

} // namespace knapper
