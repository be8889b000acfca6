// com.microsoft: activations, normalisations and embeddings of transformers.
#include "frontends/onnx/Standard.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

Value plus(Node &n, Value x, Value y) { return y ? n.add(x, y) : x; }

LogicalResult importGelu(Node &n) {
  return n.out(n.make<ts::GeluOp>(plus(n, n[0], n[1]), /*tanh=*/false));
}

LogicalResult importFastGelu(Node &n) {
  return n.out(n.make<ts::GeluOp>(plus(n, n[0], n[1]), /*tanh=*/true));
}

LogicalResult importQuickGelu(Node &n) {
  Value gate =
      n.make<ts::SigmoidOp>(n.mul(n[0], n.real("alpha", 1.7020000219345093)));
  return n.out(n.mul(n[0], gate));
}

LogicalResult importBiasAdd(Node &n) {
  return n.out(n.add(n.add(n[0], n[1]), n[2]));
}

/// The left half times gelu of the right one.
LogicalResult importBiasSplitGelu(Node &n) {
  Value x = n.add(n[0], n[1]);
  if (!x || !ts::rankOf(x))
    return n.fail("the input has no dims", "give [.., 2 * D]");
  int64_t last = ts::rankOf(x) - 1;
  std::optional<Dim> half = ts::dimOf(x, last).exactDiv(n.dim(2));
  if (!half)
    return n.fail("the last dim of " + ts::shapeText(x.getType()) + " is odd",
                  "give [.., 2 * D]");
  Value left = n.sliceDim(x, last, n.dim(0), *half),
        right = n.sliceDim(x, last, *half, *half);
  return n.out(n.mul(left, n.make<ts::GeluOp>(right, /*tanh=*/false)));
}

/// At inference nothing drops out.
LogicalResult importBiasDropout(Node &n) {
  if (n.has(4)) {
    std::optional<SmallVector<int64_t>> training =
        n.numbers(n[4], "training_mode");
    if (!training)
      return failure();
    if (!training->empty() && training->front())
      return n.unsupported("dropping out while training");
  }
  Value y = plus(n, n.add(n[0], n[1]), n[2]);
  if (n.wants(1) && y &&
      failed(n.out(
          n.broadcastTo(n.integerScalar(1, n.b.getI1Type()), ts::dimsOf(y)),
          1)))
    return failure();
  return n.out(y);
}

//===----------------------------------------------------------------------===//
// Normalisations
//===----------------------------------------------------------------------===//

/// `epsilon` is the operator's own default.
Value normalized(Node &n, Value x, Value scale, Value bias, bool rms,
                 double epsilon) {
  if (!x)
    return {};
  Standard norm(n, rms ? "RMSNormalization" : "LayerNormalization");
  norm.set("axis", int64_t(-1)).set("epsilon", n.real("epsilon", epsilon));
  return norm({x, scale, bias});
}

/// input, skip, gamma, (beta), bias; the sum is result 3.
template <bool rms> LogicalResult importSkipNormalization(Node &n) {
  Value beta = rms ? Value() : n[3], bias = n[rms ? 3 : 4];
  // The skipped part may lack the batch.
  Value skip = n.broadcastTo(n[1], ts::dimsOf(n[0]));
  Value sum = plus(n, n.add(n[0], skip), bias);
  if (n.wants(1) || n.wants(2))
    return n.unsupported("mean and inv_std_var as results");
  if (n.wants(3) && failed(n.out(sum, 3)))
    return failure();
  return n.out(normalized(n, sum, n[2], beta, rms, 1e-12));
}

/// ONNX Runtime has it in the domain of the standard.
LogicalResult importSimplifiedNormalization(Node &n) {
  if (n.wants(1))
    return n.unsupported("inv_std_var as a result");
  Type element = ts::elementTypeOf(n[0]), own = ts::elementTypeOf(n[1]);
  Value scale = n[1], x = n[0];
  if (own != element) { // the result has the scale's type
    Type fine = n.b.getF32Type();
    x = n.convert(x, fine);
    scale = n.convert(scale, fine);
  }
  Value y =
      Standard(n, "RMSNormalization").keep({"axis", "epsilon"})({x, scale});
  return n.out(n.convert(y, own));
}

/// GroupNormalization of rows of channels, and silu after it.
LogicalResult groupNorm(Node &n, Value x, Value gamma, Value beta) {
  if (!x)
    return failure();
  int64_t rank = ts::rankOf(x);
  if (rank < 3)
    return n.fail("needs spatial dims, has " + ts::shapeText(x.getType()),
                  "give an input of rank 3 or more");
  bool last = n.flag("channels_last", true);
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (last) {
    std::rotate(order.begin() + 1, order.end() - 1, order.end());
    x = n.transpose(x, order);
  }
  Type element = ts::elementTypeOf(x), fine = ts::elementTypeOf(gamma);
  Value y = Standard(n, "GroupNormalization")
                .set("num_groups", n.integer("groups", 0))
                .set("epsilon", n.real("epsilon", 1e-5))(
                    {n.convert(x, fine), gamma, beta});
  if (!y)
    return failure();
  if (n.integer("activation", 0))
    y = n.mul(y, n.make<ts::SigmoidOp>(y));
  if (last) {
    llvm::sort(order);
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
    y = n.transpose(y, order);
  }
  return n.out(n.convert(y, element));
}

LogicalResult importGroupNorm(Node &n) {
  return groupNorm(n, n[0], n[1], n[2]);
}

LogicalResult importSkipGroupNorm(Node &n) {
  Value skip = n[3];
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  if (ts::rankOf(skip) == 2 && dims.size() == 4) // [N, C]
    skip = n.reshape(
        skip, {ts::dimOf(skip, 0), n.dim(1), n.dim(1), ts::dimOf(skip, 1)});
  Value sum = plus(n, n.add(n[0], skip), n[4]);
  if (n.wants(1) && failed(n.out(sum, 1)))
    return failure();
  return groupNorm(n, sum, n[1], n[2]);
}

//===----------------------------------------------------------------------===//
// Embeddings
//===----------------------------------------------------------------------===//

/// ids, segments, three tables, gamma, beta, mask, positions.
LogicalResult importEmbedLayerNormalization(Node &n) {
  if (failed(require(n, {2, 3, 5, 6})))
    return failure();
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  if (dims.size() != 2)
    return n.fail("the numbers of words are " + ts::shapeText(n[0].getType()),
                  "give [batch, sequence]");
  Type i64 = n.b.getI64Type();
  auto read = [&](Value table, Value indices) {
    return n.make<ts::GatherOp>(table, indices, uint64_t(0));
  };
  Value positions = n[8];
  if (!positions)
    positions = n.makeAs<ts::IotaOp>(n.type({dims[1]}, i64), uint64_t(0));
  Value sum = n.add(read(n[2], n[0]), read(n[3], positions));
  if (n.has(1) && n.has(4))
    sum = n.add(sum, read(n[4], n[1]));
  if (n.wants(2) && failed(n.out(sum, 2)))
    return failure();
  // Tokens a row that the mask lets through.
  if (n.wants(1)) {
    Type i32 = n.b.getI32Type();
    Value count = n.broadcastTo(n.integerScalar(0, i32), {dims[0]});
    if (n.has(7))
      count = n.reduce(ts::ReduceKind::add,
                       n.convert(n.compare(ts::ComparePredicate::eq, n[7],
                                           n.scalarFor(n[7], 1)),
                                 i32),
                       {1}, false);
    if (failed(n.out(count, 1)))
      return failure();
  }
  return n.out(normalized(n, sum, n[5], n[6], /*rms=*/false, 1e-12));
}

LogicalResult importTorchEmbedding(Node &n) {
  return n.out(n.make<ts::GatherOp>(n[0], n[1], uint64_t(0)));
}

constexpr OpRow rows[] = {
    {"", "SimplifiedLayerNormalization", 1, 2, 2,
     importSimplifiedNormalization},
    {"com.microsoft", "BiasAdd", 1, 3, 3, importBiasAdd},
    {"com.microsoft", "BiasDropout", 1, 2, 5, importBiasDropout},
    {"com.microsoft", "BiasGelu", 1, 2, 2, importGelu},
    {"com.microsoft", "BiasSplitGelu", 1, 2, 2, importBiasSplitGelu},
    {"com.microsoft", "EmbedLayerNormalization", 1, 1, 9,
     importEmbedLayerNormalization},
    {"com.microsoft", "FastGelu", 1, 1, 2, importFastGelu},
    {"com.microsoft", "Gelu", 1, 1, 1, importGelu},
    {"com.microsoft", "GroupNorm", 1, 3, 3, importGroupNorm},
    {"com.microsoft", "QuickGelu", 1, 1, 1, importQuickGelu},
    {"com.microsoft", "SimplifiedLayerNormalization", 1, 2, 2,
     importSimplifiedNormalization},
    {"com.microsoft", "SkipGroupNorm", 1, 4, 5, importSkipGroupNorm},
    {"com.microsoft", "SkipLayerNormalization", 1, 3, 5,
     importSkipNormalization<false>},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", 1, 3, 4,
     importSkipNormalization<true>},
    {"com.microsoft", "TorchEmbedding", 1, 2, 4, importTorchEmbedding},
};

} // namespace

ArrayRef<OpRow> contribLayerRows() { return rows; }

} // namespace knapper
