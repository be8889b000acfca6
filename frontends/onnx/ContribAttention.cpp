// com.microsoft: attention, through the standard's operator.
#include "frontends/onnx/Heads.h"
#include "frontends/onnx/Integers.h"
#include "frontends/onnx/Standard.h"

#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using P = ts::ComparePredicate;

//===----------------------------------------------------------------------===//
// Heads
//===----------------------------------------------------------------------===//

/// [B, S, heads * D] to [B, heads, S, D].
Value splitHeads(Node &n, Value x, int64_t heads) {
  if (!x)
    return {};
  SmallVector<Dim> d = ts::dimsOf(x);
  std::optional<Dim> size =
      d.size() == 3 && heads > 0 ? d[2].exactDiv(n.dim(heads)) : std::nullopt;
  if (!size) {
    (void)n.fail(ts::shapeText(x.getType()) + " does not split into " +
                     Twine(heads) + " heads",
                 "give [batch, sequence, heads * size]");
    return {};
  }
  return n.transpose(n.reshape(x, {d[0], d[1], n.dim(heads), *size}),
                     {0, 2, 1, 3});
}

/// Part `index` of dim `dim`, which has the extent 1 and goes away.
Value part(Node &n, Value x, int64_t dim, int64_t index) {
  if (!x)
    return {};
  SmallVector<Dim> d = ts::dimsOf(x);
  d.erase(d.begin() + dim);
  return n.reshape(n.sliceDim(x, dim, n.dim(index), n.dim(1)), d);
}

Value positions(Node &n, ArrayRef<Dim> dims, int64_t dim) {
  return n.makeAs<ts::IotaOp>(n.type(dims, n.b.getI64Type()), uint64_t(dim));
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

/// What to add to the scores [B, N, S, T] for a mask of integers: null without
/// one. Masks are [B] (keys of each row), [2B] (their ends, then their begins),
/// [B, T] and [B, S, T]; where they do not hold, `filter` is added, so that a
/// row that sees nothing sees all keys alike.
Value additiveMask(Node &n, Value mask, Dim batch, Dim queries, Dim keys,
                   Type element, double filter) {
  if (!mask)
    return {};
  Type i64 = n.b.getI64Type();
  SmallVector<Dim> dims = ts::dimsOf(mask),
                   row{batch, n.dim(1), n.dim(1), keys};
  Value allowed;
  switch (dims.size()) {
  case 1: {
    mask = n.convert(mask, i64);
    Value key = positions(n, row, 3), begins;
    bool both = dims[0] == batch * 2;
    if (both) {
      begins = n.sliceDim(mask, 0, batch, batch);
      mask = n.sliceDim(mask, 0, n.dim(0), batch);
    } else if (dims[0] == batch * 3 + 2) {
      (void)n.unsupported("a mask of cumulated lengths");
      return {};
    }
    allowed = n.compare(P::lt, key, n.broadcastAt(mask, {0}, row));
    if (begins)
      allowed = n.binary<ts::AndOp>(
          allowed, n.compare(P::ge, key, n.broadcastAt(begins, {0}, row)));
    break;
  }
  case 2:
    mask = n.reshape(n.castDims(mask, {batch, keys}), row);
    allowed = n.compare(P::gt, mask, n.scalarFor(mask, 0));
    break;
  case 3:
    row[2] = queries;
    mask = n.reshape(n.castDims(mask, {batch, queries, keys}), row);
    allowed = n.compare(P::gt, mask, n.scalarFor(mask, 0));
    break;
  default:
    (void)n.unsupported("a mask of rank " + Twine(dims.size()));
    return {};
  }
  return n.select(allowed, n.scalar(0, element), n.scalar(filter, element));
}

Value sum(Node &n, Value x, Value y) {
  return x && y ? n.add(x, y) : x ? x : y;
}

/// 4-D operands, `past` null or a pair; results are [B, S, N * D], then the
/// present keys and values.
SmallVector<Value> attend(Node &n, Value query, Value key, Value value,
                          Value mask, Value pastKey, Value pastValue,
                          bool causal, bool present) {
  if (n.failed() || !query || !key || !value)
    return SmallVector<Value>(3);
  Standard attention(n, "Attention", 23);
  if (n.real("scale", 0) != 0)
    attention.keep({"scale"});
  attention.set("is_causal", int64_t(causal));
  if (n.real("softcap", 0) > 0)
    attention.keep({"softcap"});
  SmallVector<Value> results = attention.results(
      {query, key, value, mask, pastKey, pastValue}, present ? 3 : 1);
  results.resize(3);
  results[0] = mergeHeads(n, results[0]);
  return results;
}

double filterOf(Node &n) { return n.real("mask_filter_value", -10000); }

//===----------------------------------------------------------------------===//
// Attention and QAttention
//===----------------------------------------------------------------------===//

/// The matmuls of the input and the joint weights [.., q + k + v] in, with
/// bias; `past` is [2, B, N, P, D] and so is the result 1.
LogicalResult selfAttention(Node &n, Value joint, Value mask, Value past,
                            Value bias, ArrayRef<int64_t> given) {
  if (!joint)
    return failure();
  SmallVector<Dim> d = ts::dimsOf(joint);
  int64_t heads = n.integer("num_heads", 0);
  if (d.size() != 3 || heads < 1)
    return n.fail("the input times the weights is " +
                      ts::shapeText(joint.getType()),
                  "give [batch, sequence, hidden] and num_heads");
  if (n.flag("do_rotary", false))
    return n.unsupported("do_rotary");
  if (n.flag("past_present_share_buffer", false))
    return n.unsupported("past_present_share_buffer");
  SmallVector<Dim> sizes;
  for (int64_t size : given)
    sizes.push_back(n.dim(size));
  if (sizes.empty()) {
    std::optional<Dim> third = d[2].exactDiv(n.dim(3));
    if (third)
      sizes.assign(3, *third);
  }
  if (sizes.size() != 3 || !(sizes[0] + sizes[1] + sizes[2] == d[2]))
    return n.fail("the weights' " + d[2].str() +
                      " columns are no query, key and value",
                  "correct the weights or qkv_hidden_sizes");
  Value parts[3];
  Dim at = n.dim(0);
  for (int i = 0; i < 3; ++i) {
    parts[i] = splitHeads(n, n.sliceDim(joint, 2, at, sizes[i]), heads);
    at = at + sizes[i];
  }
  Dim keys = d[1];
  Value pastKey, pastValue;
  if (past) {
    if (ts::rankOf(past) != 5)
      return n.fail("past is " + ts::shapeText(past.getType()),
                    "give [2, batch, heads, keys, size]");
    keys = keys + ts::dimOf(past, 3);
    pastKey = part(n, past, 0, 0);
    pastValue = part(n, past, 0, 1);
  }
  Type element = ts::elementTypeOf(joint);
  Value adds = sum(
      n, additiveMask(n, mask, d[0], d[1], keys, element, filterOf(n)), bias);
  bool present = n.wants(1);
  SmallVector<Value> results =
      attend(n, parts[0], parts[1], parts[2], adds, pastKey, pastValue,
             n.flag("unidirectional", false), present);
  if (present) {
    Value both[2];
    for (int i = 0; i < 2; ++i) {
      if (!results[i + 1])
        return failure();
      SmallVector<Dim> dims = ts::dimsOf(results[i + 1]);
      dims.insert(dims.begin(), n.dim(1));
      both[i] = n.reshape(results[i + 1], dims);
    }
    if (failed(n.out(n.make<ts::ConcatOp>(ValueRange(both), int64_t(0)), 1)))
      return failure();
  }
  return n.out(results[0]);
}

/// input, weights, bias, mask, past, what is added to the scores.
LogicalResult importAttention(Node &n) {
  if (n.has(6))
    return n.unsupported("past_sequence_length (a buffer that is shared)");
  Value joint = Standard(n, "MatMul")({n[0], n[1]});
  if (joint && n.has(2))
    joint = n.add(joint, n[2]);
  return selfAttention(n, joint, n[3], n[4], n[5],
                       n.integers("qkv_hidden_sizes"));
}

/// input, weights, bias, their scales, mask, their zero points, past.
LogicalResult importQAttention(Node &n) {
  Type f32 = n.b.getF32Type();
  Value matmul = integerMatMul(n, n[0], n[6], n[1], n[7]);
  Value joint = n.mul(n.convert(matmul, f32),
                      n.mul(n.convert(n[3], f32), n.convert(n[4], f32)));
  return selfAttention(n, n.add(joint, n[2]), n[5], n[8], {}, {});
}

//===----------------------------------------------------------------------===//
// MultiHeadAttention
//===----------------------------------------------------------------------===//

/// query, key, value, bias, key mask, what is added to the scores, past keys
/// and values. Queries may hold keys and values, keys the values.
LogicalResult importMultiHeadAttention(Node &n) {
  int64_t heads = n.integer("num_heads", 0);
  if (n.has(8) || n.has(9))
    return n.unsupported("a buffer of past keys that is shared");
  if (n.wants(3))
    return n.unsupported("the scores as a result");
  auto merged = [&](Value x) -> Value {
    SmallVector<Dim> d = ts::dimsOf(x);
    return n.reshape(x, {d[0], d[1], d[2] * d[3]});
  };
  Value query = n[0], key = n[1], value = n[2];
  if (ts::rankOf(query) == 5) { // [B, S, N, 3, D]
    key = merged(part(n, n[0], 3, 1));
    value = merged(part(n, n[0], 3, 2));
    query = merged(part(n, n[0], 3, 0));
  } else if (key && ts::rankOf(key) == 5) { // [B, T, N, 2, D]
    value = merged(part(n, n[1], 3, 1));
    key = merged(part(n, n[1], 3, 0));
  }
  if (ts::rankOf(query) != 3 || !key || !value)
    return n.fail("the query is " + ts::shapeText(query.getType()) +
                      ", or keys or values are absent",
                  "give [batch, sequence, hidden] of all three");
  SmallVector<Value> parts{query, key, value};
  if (n.has(3)) { // for the three, one after another
    Dim at = n.dim(0);
    bool crossed = ts::rankOf(key) == 4;
    for (size_t i = 0; i < 3; ++i) {
      Dim size = crossed ? ts::dimOf(query, 2) : ts::dimOf(parts[i], 2);
      if (crossed && i == 2)
        size = ts::dimOf(n[3], 0) - at;
      if (ts::rankOf(parts[i]) == 3)
        parts[i] = n.add(parts[i], n.sliceDim(n[3], 0, at, size));
      at = at + size;
    }
  }
  for (Value &x : parts)
    if (x && ts::rankOf(x) == 3)
      x = splitHeads(n, x, heads);
  if (n.failed())
    return failure();
  Dim keys = ts::dimOf(parts[1], 2);
  if (n.has(6))
    keys = keys + ts::dimOf(n[6], 2);
  Type element = ts::elementTypeOf(query);
  Value adds =
      sum(n,
          additiveMask(n, n[4], ts::dimOf(query, 0), ts::dimOf(query, 1), keys,
                       element, filterOf(n)),
          n[5]);
  SmallVector<Value> results =
      attend(n, parts[0], parts[1], parts[2], adds, n[6], n[7],
             n.flag("unidirectional", false), n.wants(1) || n.wants(2));
  for (size_t i : {1, 2})
    if (n.wants(i) && failed(n.out(results[i], i)))
      return failure();
  return n.out(results[0]);
}

//===----------------------------------------------------------------------===//
// Rotary embedding
//===----------------------------------------------------------------------===//

/// x is [B, N, S, D], the positions [B, S].
Value rotate(Node &n, Value x, Value cos, Value sin, Value at, bool interleaved,
             int64_t columns) {
  return Standard(n, "RotaryEmbedding")
      .set("interleaved", int64_t(interleaved))
      .set("rotary_embedding_dim", columns)({x, cos, sin, at});
}

/// input, positions ([1]: of the first token; or [B, S]), cos, sin.
LogicalResult importRotaryEmbedding(Node &n) {
  if (n.flag("is_packed_batching", false))
    return n.unsupported("is_packed_batching");
  Value x = n[0], at = n.convert(n[1], n.b.getI64Type());
  bool rank3 = ts::rankOf(x) == 3;
  if (rank3) {
    int64_t heads = n.integer("num_heads", 0);
    if (!heads) { // as many as the tables are wide
      std::optional<int64_t> hidden = ts::dimOf(x, 2).asConstant(),
                             half = ts::dimOf(n[2], 1).asConstant();
      if (!hidden || !half || *half < 1)
        return n.unsupported("num_heads is absent and sizes are symbolic");
      heads = *hidden / (*half * 2);
    }
    x = splitHeads(n, x, heads);
  }
  if (!x)
    return failure();
  if (ts::rankOf(x) != 4)
    return n.fail("the input is " + ts::shapeText(x.getType()),
                  "give [batch, sequence, hidden] or [batch, heads, sequence, "
                  "size]");
  SmallVector<Dim> grid{ts::dimOf(x, 0), ts::dimOf(x, 2)};
  if (ts::rankOf(at) < 2)
    at = n.add(positions(n, grid, 1), n.reshape(at, {}));
  Value y = rotate(n, x, n[2], n[3], at, n.flag("interleaved", false),
                   n.integer("rotary_embedding_dim", 0));
  double scale = n.real("scale", 1);
  if (y && scale != 1)
    y = n.mul(y, scale);
  return n.out(rank3 ? mergeHeads(n, y) : y);
}

//===----------------------------------------------------------------------===//
// GroupQueryAttention
//===----------------------------------------------------------------------===//

/// The cache with what is new from each row's `past` keys on. It is as large
/// as the past or, where that is too small, as all keys.
Value appended(Node &n, Value past, Value fresh, Value from, Dim keys) {
  if (!past || !fresh)
    return {};
  SmallVector<Dim> low(4, n.dim(0)), high = low, dims = ts::dimsOf(fresh);
  dims[2] = ts::dimOf(past, 2);
  past = n.castDims(past, dims);
  high[2] = keys - dims[2];
  if (!high[2].isConstant(0)) {
    MLIRContext *context = n.importer.context;
    Value zero = n.scalarFor(past, 0);
    past =
        n.make<ts::PadOp>(past, Optional{zero}, ts::dimArray(context, low),
                          ts::dimArray(context, high), ts::PadMode::constant);
  }
  return Standard(n, "TensorScatter")
      .set("axis", int64_t(2))({past, fresh, from});
}

/// Refuses what a GroupQueryAttention asks for that there is not.
LogicalResult checkGroupQuery(Node &n) {
  if (failed(require(n, {5, 6})))
    return failure();
  if (ts::rankOf(n[0]) != 3 || n.integer("num_heads", 0) < 1 ||
      n.integer("kv_num_heads", 0) < 1)
    return n.fail("needs a query [batch, sequence, hidden], num_heads and "
                  "kv_num_heads",
                  "correct them");
  if (n.has(12) || n.has(13) || n.integer("kv_cache_bit_width", 0))
    return n.unsupported("a quantised cache");
  if (n.has(14) || n.has(15))
    return n.unsupported("norms of queries and keys");
  if (n.flag("sliding_window_cache", false))
    return n.unsupported("sliding_window_cache");
  if (n.wants(3))
    return n.unsupported("the scores as a result");
  if (!n.flag("causal", true))
    return n.unsupported("causal 0");
  if (n.has(1) != n.has(2) || n.has(3) != n.has(4))
    return n.fail("keys and values come together", "give both, or neither");
  return mlir::success();
}

/// One more key, of zeros: its score is 0, or what the head's sink says.
/// Returns the mask with it, as numbers.
Value maskWithSink(Node &n, Value mask, bool causal, Type element,
                   ArrayRef<Dim> scores, Value &keys, Value &values) {
  if (causal) {
    SmallVector<Dim> grid{n.dim(1), n.dim(1), scores[2], scores[3]};
    Value seen = n.compare(P::le, positions(n, grid, 3), positions(n, grid, 2));
    mask = !mask ? seen
           : ts::elementTypeOf(mask).isInteger(1)
               ? n.binary<ts::AndOp>(mask, seen)
               : n.select(seen, mask, n.scalarFor(mask, -INFINITY));
  }
  if (!mask)
    return {};
  if (ts::elementTypeOf(mask).isInteger(1))
    mask = n.select(mask, n.scalar(0, element), n.scalar(-INFINITY, element));
  SmallVector<Dim> dims(scores);
  mask = n.broadcastTo(mask, dims);
  dims[3] = n.dim(1);
  Value sink = n.has(11) ? n.broadcastAt(n.convert(n[11], element), {1}, dims)
                         : n.broadcastTo(n.scalar(0, element), dims);
  mask = n.make<ts::ConcatOp>(ValueRange{mask, sink}, int64_t(3));
  auto extended = [&](Value x) -> Value {
    if (!x)
      return {};
    SmallVector<Dim> one = ts::dimsOf(x);
    one[2] = n.dim(1);
    Value row = n.broadcastTo(n.scalarFor(x, 0), one);
    return n.make<ts::ConcatOp>(ValueRange{x, row}, int64_t(2));
  };
  keys = extended(keys);
  values = extended(values);
  return mask;
}

LogicalResult importGroupQueryAttention(Node &n) {
  if (failed(checkGroupQuery(n)))
    return failure();
  int64_t heads = n.integer("num_heads", 0),
          keyHeads = n.integer("kv_num_heads", 0);
  Value query = n[0], key = n[1], value = n[2];
  if (!key) { // [B, S, (N + 2 * KV) * D]
    std::optional<Dim> size =
        ts::dimOf(query, 2).exactDiv(n.dim(heads + 2 * keyHeads));
    if (!size)
      return n.fail(ts::shapeText(query.getType()) +
                        " does not split into heads",
                    "correct num_heads or kv_num_heads");
    Dim own = *size * heads, other = *size * keyHeads;
    key = n.sliceDim(query, 2, own, other);
    value = n.sliceDim(query, 2, own + other, other);
    query = n.sliceDim(query, 2, n.dim(0), own);
  }
  query = splitHeads(n, query, heads);
  key = splitHeads(n, key, keyHeads);
  value = splitHeads(n, value, keyHeads);
  if (!query || !key || !value)
    return failure();

  // Keys before this call, of each row. A prompt has none.
  Type i64 = n.b.getI64Type();
  Dim batch = ts::dimOf(query, 0), length = ts::dimOf(query, 2);
  Value total = n.reshape(n.convert(n[6], i64), {});
  bool isFirst = !n.has(3) || ts::dimOf(n[3], 2).isConstant(0);
  Value zero = n.integerScalar(0, i64);
  Value from = n.broadcastTo(zero, {batch});
  Dim keys = length;
  if (!isFirst) {
    Value last = n.convert(n.reshape(n[5], {batch}), i64);
    Value before = n.sub(n.add(last, 1), n.sizeScalar(length, i64));
    Value prompt = n.compare(P::eq, total, n.sizeScalar(length, i64));
    from = n.select(prompt, zero, n.binary<ts::MaxOp>(before, zero));
    // As many keys as the cache has room for, or more.
    Dim room = ts::dimOf(n[3], 2);
    std::optional<SmallVector<Dim>> known = n.importer.sizes(total);
    if (known && known->size() == 1)
      keys = room.max(known->front());
    else
      keys = n.bindSize(n.binary<ts::MaxOp>(total, n.sizeScalar(room, i64)),
                        "keys");
  }

  if (n.flag("do_rotary", false)) {
    if (failed(require(n, {7, 8})))
      return failure();
    SmallVector<Dim> grid{batch, length};
    Value at =
        n.has(9) ? n.convert(n[9], i64)
                 : n.add(positions(n, grid, 1), n.broadcastAt(from, {0}, grid));
    bool interleaved = n.flag("rotary_interleaved", false);
    query = rotate(n, query, n[7], n[8], at, interleaved, 0);
    key = rotate(n, key, n[7], n[8], at, interleaved, 0);
  }
  Value allKeys = key, allValues = value;
  if (!isFirst) {
    allKeys = appended(n, n[3], key, from, keys);
    allValues = appended(n, n[4], value, from, keys);
  }
  if ((n.wants(1) && failed(n.out(allKeys, 1))) ||
      (n.wants(2) && failed(n.out(allValues, 2))) || n.failed())
    return failure();

  // A token sees what came before it, and a window of it.
  Value mask;
  int64_t window = n.integer("local_window_size", -1);
  bool causal = isFirst;
  if (!isFirst || window > 0) {
    SmallVector<Dim> grid{batch, n.dim(1), length, keys};
    Value own = n.add(positions(n, grid, 2), n.broadcastAt(from, {0}, grid));
    Value other = positions(n, grid, 3);
    if (!isFirst)
      mask = n.compare(P::le, other, own);
    if (window > 0) {
      Value near =
          n.compare(P::gt, other, n.sub(own, n.integerScalar(window, i64)));
      mask = mask ? n.binary<ts::AndOp>(mask, near) : near;
    }
  }
  Type element = ts::elementTypeOf(query);
  if (n.has(10)) { // added to the scores
    Value bias = n[10];
    if (mask)
      bias = n.select(mask, bias, n.scalarFor(bias, -INFINITY));
    mask = bias;
  }
  bool smooth = n.integer("smooth_softmax", -1) > 0;
  if (smooth || n.has(11)) {
    mask =
        maskWithSink(n, mask, causal, element,
                     {batch, n.dim(heads), length, keys}, allKeys, allValues);
    if (!mask)
      return failure();
    causal = false;
  }
  return n.out(
      attend(n, query, allKeys, allValues, mask, {}, {}, causal, false)[0]);
}

constexpr OpRow rows[] = {
    {"com.microsoft", "Attention", 1, 2, 7, importAttention},
    {"com.microsoft", "GroupQueryAttention", 1, 1, 16,
     importGroupQueryAttention},
    {"com.microsoft", "MultiHeadAttention", 1, 1, 10, importMultiHeadAttention},
    {"com.microsoft", "QAttention", 1, 5, 9, importQAttention},
    {"com.microsoft", "RotaryEmbedding", 1, 4, 4, importRotaryEmbedding},
};

} // namespace

ArrayRef<OpRow> contribAttentionRows() { return rows; }

} // namespace knapper
