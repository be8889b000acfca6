// Bags of embeddings.
#include "frontends/torch/AtenNode.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using P = ts::ComparePredicate;
using K = ts::ReduceKind;

/// Rows that are read and longer than max_norm are made as long as that.
LogicalResult importRenorm(AtenNode &n) {
  Type type = n.wide();
  Value table = n.operand("self", type), at = n.tensor("indices");
  if (!table || !at || ts::rankOf(table) != 2)
    return failure();
  double p = n.real("norm_type", 2), most = n.real("max_norm");
  Dim count = ts::dimOf(table, 0), read = ts::elementCount(at.getType());
  Value size = n.make<ts::AbsOp>(table), norm;
  if (p == 1)
    norm = n.reduce(K::add, size, {1}, true);
  else if (p == 2)
    norm = n.make<ts::SqrtOp>(n.reduce(K::add, n.mul(table, table), {1}, true));
  else
    norm = n.binary<ts::PowOp>(
        n.reduce(K::add, n.binary<ts::PowOp>(size, n.scalarFor(size, p)), {1},
                 true),
        n.scalarFor(size, 1 / p));
  Type i8 = n.b.getIntegerType(8);
  Value marks = n.make<ts::ScatterElementsOp>(
      n.broadcastTo(n.integerScalar(0, i8), {count}), n.reshape(at, {read}),
      n.broadcastTo(n.integerScalar(1, i8), {read}), uint64_t(0),
      ts::ReduceKindAttr());
  if (!marks || !norm)
    return failure();
  Value isRead = n.compare(P::ne, n.reshape(marks, {count, n.dim(1)}),
                           n.integerScalar(0, i8));
  Value scale = n.div(n.scalarFor(norm, most), n.add(norm, 1e-7));
  Value long_ = n.binary<ts::AndOp>(
      isRead, n.compare(P::gt, norm, n.scalarFor(norm, most)));
  return n.out(n.select(long_, n.mul(table, scale), table));
}

/// The sum (mode 0), mean (1) or largest (2) of the rows of each bag; bag i has
/// the indices from offsets[i] on.
LogicalResult importBag(AtenNode &n) {
  for (size_t i = 1; i < 4; ++i)
    if (n.wants(i))
      return n.unsupported("what only its gradient reads");
  Type type = n.wide(), i64 = n.b.getI64Type();
  Value table = n.operand("weight", type), at = n.operand("indices", i64),
        offsets = n.operand("offsets", i64);
  if (!table || !at || !offsets || n.dims().size() != 2)
    return failure();
  int64_t mode = n.integer("mode"), padding = n.integer("padding_idx", -1);
  Dim read = ts::dimOf(at, 0), bags = n.dims()[0], width = n.dims()[1];
  if (n.flag("include_last_offset"))
    offsets = n.sliceDim(offsets, 0, n.dim(0), bags);
  // The bag of each index: how many bags begin at or before it, less one.
  SmallVector<Dim> grid{read, bags};
  Value place = n.makeAs<ts::IotaOp>(n.type(grid, i64), uint64_t(0));
  Value begun = n.compare(P::le, n.broadcastAt(offsets, {1}, grid), place);
  Value bag = n.add(n.reduce(K::add, n.convert(begun, i64), {1}, false), -1.0);
  Value counts = n.broadcastTo(n.scalar(1, type), {read});
  if (padding >= 0)
    counts = n.select(n.compare(P::eq, at, n.integerScalar(padding, i64)),
                      n.scalar(0, type), counts);
  Value parts = n.make<ts::GatherOp>(table, at, uint64_t(0));
  if (!parts || !bag || !counts)
    return failure();
  Value weights = counts;
  if (n.has("per_sample_weights"))
    weights = n.mul(weights, n.operand("per_sample_weights", type));
  Value column = n.reshape(bag, {read, n.dim(1)});
  auto added = [&](ArrayRef<Dim> dims, Value what, K kind, Value into) {
    (void)dims;
    return n.make<ts::ScatterNdOp>(
        into, column, what, ts::ReduceKindAttr::get(n.shared.context, kind));
  };
  Value size =
      added({bags}, counts, K::add, n.broadcastTo(n.scalar(0, type), {bags}));
  size = n.reshape(size, {bags, n.dim(1)});
  Value y;
  if (mode == 2) {
    Value masked =
        n.select(n.compare(P::ne, n.reshape(counts, {read, n.dim(1)}),
                           n.scalar(0, type)),
                 parts, n.scalar(-INFINITY, type));
    y = added({bags, width}, masked, K::max,
              n.broadcastTo(n.scalar(-INFINITY, type), {bags, width}));
    y = n.select(n.compare(P::eq, size, n.scalar(0, type)), n.scalar(0, type),
                 y);
  } else {
    y = added({bags, width}, n.mul(parts, n.reshape(weights, {read, n.dim(1)})),
              K::add, n.broadcastTo(n.scalar(0, type), {bags, width}));
    if (mode == 1)
      y = n.div(y, n.binary<ts::MaxOp>(size, n.scalar(1, type)));
  }
  return n.out(y);
}

constexpr AtenRow rows[] = {
    {"aten._embedding_bag.default", importBag},
    {"aten._embedding_bag_forward_only.default", importBag},
    {"aten.embedding_renorm.default", importRenorm},
};

} // namespace

ArrayRef<AtenRow> atenEmbeddingRows() { return rows; }

} // namespace knapper
