// Attention and rotary embedding.
#include "frontends/onnx/Heads.h"

#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using P = ts::ComparePredicate;

/// [B, S, heads * D] to [B, heads, S, D].
Value splitHeads(Node &n, Value x, int64_t heads, StringRef attribute) {
  if (!x || ts::rankOf(x) == 4)
    return x;
  SmallVector<Dim> d = ts::dimsOf(x);
  if (d.size() != 3 || heads < 1) {
    (void)n.fail("an input of " + ts::shapeText(x.getType()) +
                     " is neither 4-D nor 3-D with " + attribute,
                 "give 4-D inputs, or 3-D ones and the number of heads");
    return {};
  }
  std::optional<Dim> size = d[2].exactDiv(n.dim(heads));
  if (!size) {
    (void)n.fail("a hidden size of " + d[2].str() + " does not divide into " +
                     Twine(heads) + " heads",
                 "correct " + attribute);
    return {};
  }
  return n.transpose(n.reshape(x, {d[0], d[1], n.dim(heads), *size}),
                     {0, 2, 1, 3});
}

/// An op's default: 1/sqrt(D).
std::optional<double> scaleOf(Node &n, Value query) {
  if (n.hasAttr("scale")) {
    double scale = n.real("scale", 0);
    if (scale != 0)
      return scale;
  }
  std::optional<int64_t> size = ts::dimOf(query, 3).asConstant();
  if (!size || *size < 1) {
    (void)n.unsupported("a symbolic head size without scale");
    return std::nullopt;
  }
  return 1 / std::sqrt(static_cast<double>(*size));
}

/// An i64 tensor of `dims` with the index along `dim`.
Value positions(Node &n, ArrayRef<Dim> dims, int64_t dim) {
  return n.makeAs<ts::IotaOp>(n.type(dims, n.b.getI64Type()), uint64_t(dim));
}

/// The parts of ONNX's Attention.
struct Parts {
  Value query, key, value; ///< 4-D, keys with the past
  Value mask;              ///< 4-D or null; boolean or additive
  Dim past;                ///< keys before the query block, without padding
  double scale = 1, softcap = 0;
  bool causal = false;
};

/// Brings the mask to rank 4 and to all keys: what is missing is not seen.
Value fitMask(Node &n, Value mask, Dim keys) {
  if (!mask)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(mask);
  if (dims.empty() || dims.size() > 4) {
    (void)n.fail("attn_mask is " + ts::shapeText(mask.getType()),
                 "give a mask that broadcasts to the scores");
    return {};
  }
  Type element = ts::elementTypeOf(mask);
  if (!element.isInteger(1) &&
      (isa<IntegerType>(element) || ts::isStorage(element))) {
    element = n.b.getF32Type(); // numbers to add, as any
    mask = n.convert(mask, element);
  }
  while (dims.size() < 4)
    dims.insert(dims.begin(), n.dim(1));
  mask = n.reshape(mask, dims);
  if (dims[3] == keys || dims[3].isConstant(1))
    return mask;
  std::optional<int64_t> missing = (keys - dims[3]).asConstant();
  if (!missing) { // equal, as far as the sizes tell
    dims[3] = keys;
    return n.castDims(mask, dims);
  }
  if (*missing < 0) {
    (void)n.fail("attn_mask has " + dims[3].str() + " keys of " + keys.str(),
                 "give a mask that broadcasts to the scores");
    return {};
  }
  SmallVector<Dim> low(4, n.dim(0)), high = low;
  high[3] = n.dim(*missing);
  Value pad = element.isInteger(1) ? n.integerScalar(0, element)
                                   : n.scalar(-INFINITY, element);
  return n.make<ts::PadOp>(
      mask, Optional{pad}, ts::dimArray(n.importer.context, low),
      ts::dimArray(n.importer.context, high), ts::PadMode::constant);
}

/// Both masks must hold. Boolean ones intersect; a boolean one disables
/// entries of an additive one.
Value combineMasks(Node &n, Value mask, Value allowed) {
  if (!mask || !allowed)
    return mask ? mask : allowed;
  if (ts::elementTypeOf(mask).isInteger(1))
    return n.binary<ts::AndOp>(mask, allowed);
  return n.select(allowed, mask, n.scalarFor(mask, -INFINITY));
}

/// The scores, masked, normalised and applied, op by op; for what ts.attention
/// does not say: the scores as a result, softmax in another precision.
LogicalResult spelledOut(Node &n, const Parts &p, bool rank3) {
  SmallVector<Dim> q = ts::dimsOf(p.query), k = ts::dimsOf(p.key);
  std::optional<Dim> group = q[1].exactDiv(k[1]);
  if (!group)
    return n.fail(q[1].str() + " query heads do not share " + k[1].str() +
                      " key heads evenly",
                  "correct the numbers of heads");
  auto repeated = [&](Value x) {
    SmallVector<Dim> d = ts::dimsOf(x);
    if (group->isConstant(1))
      return x;
    Value wide =
        n.broadcastAt(x, {0, 1, 3, 4}, {d[0], d[1], *group, d[2], d[3]});
    return n.reshape(wide, {d[0], q[1], d[2], d[3]});
  };
  Value key = repeated(p.key), value = repeated(p.value);
  if (!key || !value)
    return failure();
  auto dot = [&](Value a, Value b, int64_t contract) {
    return n.make<ts::DotOp>(a, b, ArrayRef<int64_t>{0, 1},
                             ArrayRef<int64_t>{0, 1}, ArrayRef<int64_t>{3},
                             ArrayRef<int64_t>{contract}, TypeAttr());
  };
  // Both factors by sqrt(scale), as the operator's definition says.
  double root = std::sqrt(std::abs(p.scale));
  Value scores =
      dot(n.mul(p.query, p.scale < 0 ? -root : root), n.mul(key, root), 3);
  if (!scores)
    return failure();
  int64_t mode = n.integer("qk_matmul_output_mode", 0);
  // Newer opsets put the softcap before the mask; so do we for all.
  Value shown = scores;
  if (p.softcap > 0)
    scores = n.mul(n.make<ts::TanhOp>(n.mul(scores, 1 / p.softcap)), p.softcap);
  if (mode == 1)
    shown = scores;
  Value mask = p.mask;
  if (p.causal) {
    SmallVector<Dim> grid{n.dim(1), n.dim(1), q[2], k[2]};
    Value last =
        n.add(positions(n, grid, 2), n.sizeScalar(p.past, n.b.getI64Type()));
    mask = combineMasks(n, mask, n.compare(P::le, positions(n, grid, 3), last));
  }
  if (mask && ts::elementTypeOf(mask).isInteger(1))
    scores = n.select(mask, scores, n.scalarFor(scores, -INFINITY));
  else if (mask)
    scores = n.add(scores, n.convert(mask, ts::elementTypeOf(scores)));
  if (mode == 2)
    shown = scores;
  if (!scores)
    return failure();
  Type element = ts::elementTypeOf(scores), precise = element;
  switch (n.integer("softmax_precision", 0)) {
  case 0:
    break;
  case onnx::TensorProto::FLOAT:
    precise = n.b.getF32Type();
    break;
  case onnx::TensorProto::FLOAT16:
    precise = n.b.getF16Type();
    break;
  case onnx::TensorProto::DOUBLE:
    precise = n.b.getF64Type();
    break;
  case onnx::TensorProto::BFLOAT16:
    precise = n.b.getBF16Type();
    break;
  default:
    return n.fail("softmax_precision is no floating-point type",
                  "use FLOAT, FLOAT16, DOUBLE or BFLOAT16");
  }
  Value weights = n.convert(
      n.make<ts::SoftmaxOp>(n.convert(scores, precise), uint64_t(3), false),
      element);
  // A row that sees no key gives zeros.
  weights =
      n.select(n.make<ts::IsNanOp>(weights), n.scalarFor(weights, 0), weights);
  if (mode == 3)
    shown = weights;
  Value result = dot(weights, value, 2);
  if (n.wants(3) && failed(n.out(shown, 3)))
    return failure();
  return n.out(rank3 ? mergeHeads(n, result) : result);
}

LogicalResult importAttention(Node &n) {
  bool rank3 = ts::rankOf(n[0]) == 3;
  if (int64_t mode = n.integer("qk_matmul_output_mode", 0);
      mode < 0 || mode > 3)
    return n.fail("qk_matmul_output_mode is " + Twine(mode),
                  "set it to 0, 1, 2 or 3");
  Parts p;
  int64_t keyHeads = n.integer("kv_num_heads", 0);
  p.query = splitHeads(n, n[0], n.integer("q_num_heads", 0), "q_num_heads");
  p.key = splitHeads(n, n[1], keyHeads, "kv_num_heads");
  p.value = splitHeads(n, n[2], keyHeads, "kv_num_heads");
  if (!p.query || !p.key || !p.value)
    return failure();
  p.past = n.dim(0);
  if (n.has(4) != n.has(5))
    return n.fail("past_key and past_value come together", "give both");
  if (n.has(4)) {
    if (ts::rankOf(n[4]) != 4 || ts::rankOf(n[5]) != 4)
      return n.fail("past_key and past_value are 4-D", "reshape them");
    p.past = ts::dimOf(n[4], 2);
    auto join = [&](Value past, Value now) {
      SmallVector<Dim> dims = ts::dimsOf(now);
      dims[2] = ts::dimOf(past, 2);
      past = n.castDims(past, dims);
      return n.make<ts::ConcatOp>(ValueRange{past, now}, int64_t(2));
    };
    p.key = join(n[4], p.key);
    p.value = join(n[5], p.value);
  }
  if (!p.key || !p.value || (n.wants(1) && failed(n.out(p.key, 1))) ||
      (n.wants(2) && failed(n.out(p.value, 2))))
    return failure();
  // Sizes that must agree by form.
  SmallVector<Dim> q = ts::dimsOf(p.query), k = ts::dimsOf(p.key),
                   v = ts::dimsOf(p.value);
  k[0] = q[0];
  k[3] = q[3];
  p.key = n.castDims(p.key, k);
  v[0] = k[0];
  v[1] = k[1];
  v[2] = k[2];
  p.value = n.castDims(p.value, v);
  p.mask = fitMask(n, n[3], k[2]);
  std::optional<double> scale = scaleOf(n, p.query);
  if (n.failed() || !scale)
    return failure();
  p.scale = *scale;
  p.softcap = n.real("softcap", 0);
  p.causal = n.flag("is_causal", false);

  // Padded keys and windows become part of the mask.
  SmallVector<Dim> grid{q[0], n.dim(1), q[2], k[2]};
  int64_t left = n.integer("left_window_size", -1),
          right = n.integer("right_window_size", -1);
  Value valid = n[6];
  if (valid || left >= 0 || right >= 0) {
    Type i64 = n.b.getI64Type();
    Value key = positions(n, grid, 3), offset;
    if (valid) {
      if (ts::rankOf(valid) != 1)
        return n.fail("nonpad_kv_seqlen is " + ts::shapeText(valid.getType()),
                      "give a number a batch entry");
      valid = n.broadcastAt(n.convert(valid, i64), {0}, grid);
      p.mask = combineMasks(n, p.mask, n.compare(P::lt, key, valid));
      offset = n.sub(valid, n.sizeScalar(q[2], i64));
    } else {
      offset = n.sizeScalar(p.past, i64);
    }
    Value at = n.add(positions(n, grid, 2), offset);
    if (p.causal && valid) {
      p.mask = combineMasks(n, p.mask, n.compare(P::le, key, at));
      p.causal = false;
    }
    if (left >= 0)
      p.mask = combineMasks(
          n, p.mask,
          n.compare(P::ge, key, n.sub(at, n.integerScalar(left, i64))));
    if (right >= 0)
      p.mask = combineMasks(
          n, p.mask,
          n.compare(P::le, key, n.add(at, n.integerScalar(right, i64))));
  }
  if (n.failed())
    return failure();
  if (n.wants(3) || n.integer("softmax_precision", 0))
    return spelledOut(n, p, rank3);
  // ts.attention lets query s see the keys up to s + T - S, or up to s.
  bool topLeft = false;
  if (p.causal) {
    topLeft = p.past.isConstant(0) && !(k[2] == q[2]);
    if (!topLeft && !(k[2] - q[2] == p.past))
      return spelledOut(n, p, rank3);
  }
  if (p.mask) {
    SmallVector<Dim> dims = ts::dimsOf(p.mask);
    SmallVector<Dim> scores{q[0], q[1], q[2], k[2]};
    for (auto [mine, theirs] : llvm::zip(dims, scores))
      if (!mine.isConstant(1))
        mine = theirs;
    p.mask = n.castDims(p.mask, dims);
    if (!p.mask)
      return failure();
  }
  Value result = n.make<ts::AttentionOp>(
      p.query, p.key, p.value, Optional{p.mask}, llvm::APFloat(p.scale),
      p.causal, topLeft, llvm::APFloat(p.softcap));
  return n.out(rank3 ? mergeHeads(n, result) : result);
}

LogicalResult importRotaryEmbedding(Node &n) {
  int64_t heads = n.integer("num_heads", 0);
  bool rank3 = ts::rankOf(n[0]) == 3;
  Value x = splitHeads(n, n[0], heads, "num_heads");
  Value cos = n[1], sin = n[2];
  if (!x)
    return failure();
  SmallVector<Dim> d = ts::dimsOf(x);
  int64_t rotated = n.integer("rotary_embedding_dim", 0);
  if (rotated < 0 || rotated % 2 ||
      rotated > d[3].asConstant().value_or(rotated))
    return n.fail("rotary_embedding_dim is " + Twine(rotated) +
                      " for heads of " + d[3].str(),
                  "give an even number, at most the size of a head");
  // A table of positions, or the rows already chosen.
  auto rows = [&](Value table) -> Value {
    if (n.has(3)) {
      if (ts::rankOf(table) != 2 || ts::rankOf(n[3]) != 2) {
        (void)n.fail("with position_ids the caches are 2-D", "reshape them");
        return {};
      }
      table = n.make<ts::GatherOp>(table, n[3], uint64_t(0));
    }
    if (!table || ts::rankOf(table) != 3) {
      if (table)
        (void)n.fail("without position_ids the caches are 3-D",
                     "give position_ids");
      return {};
    }
    SmallVector<Dim> own = ts::dimsOf(table);
    if (!own[0].isConstant(1))
      own[0] = d[0];
    own[1] = d[2];
    table = n.castDims(table, own);
    // Partial rotation reads the first columns.
    std::optional<int64_t> columns = own[2].asConstant();
    if (rotated > 0 && columns && *columns < rotated / 2) {
      (void)n.fail("a cache has " + Twine(*columns) +
                       " columns where rotary_embedding_dim is " +
                       Twine(rotated),
                   "give caches of half as many columns");
      return {};
    }
    if (rotated > 0 && columns && *columns > rotated / 2)
      table = n.sliceDim(table, 2, n.dim(0), n.dim(rotated / 2));
    return table;
  };
  cos = rows(cos);
  sin = rows(sin);
  Value y = n.make<ts::RopeOp>(x, cos, sin, n.flag("interleaved", false));
  return n.out(rank3 ? mergeHeads(n, y) : y);
}

constexpr OpRow rows[] = {
    {"", "Attention", 23, 3, 7, importAttention},
    {"", "RotaryEmbedding", 23, 3, 4, importRotaryEmbedding},
};

} // namespace

ArrayRef<OpRow> attentionRows() { return rows; }

} // namespace knapper
