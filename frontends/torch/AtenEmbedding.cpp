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

/// Bags of rows; bag i has the indices from offsets[i] on.
struct Bags {
  AtenNode &n;
  Type type, i64;
  Dim read, count, width;
  Value at;     // the row of each index
  Value bag;    // the bag of each index
  Value counts; // 1 for each index, 0 where it is padding
  Value sizes;  // of bags, padding left out
  Value rows;   // those that were read

  Value column(Value x, Dim length) { return n.reshape(x, {length, n.dim(1)}); }
  Value filled(ArrayRef<Dim> dims, Value number) {
    return n.broadcastTo(number, SmallVector<Dim>(dims));
  }
  /// What the indices of a bag have, joined.
  Value joined(K kind, Value what, Value into) {
    return n.make<ts::ScatterNdOp>(
        into, column(bag, read), what,
        ts::ReduceKindAttr::get(n.shared.context, kind));
  }
  Value isCounted() {
    return column(n.compare(P::ne, counts, n.scalar(0, type)), read);
  }
};

/// Null where an operand is.
std::optional<Bags> bagsOf(AtenNode &n) {
  Type type = n.wide(), i64 = n.b.getI64Type();
  Value table = n.operand("weight", type), at = n.operand("indices", i64),
        offsets = n.operand("offsets", i64);
  if (!table || !at || !offsets || n.dims().size() != 2)
    return std::nullopt;
  Bags bags{n,  type, i64, ts::dimOf(at, 0), n.dims()[0], n.dims()[1], at, {},
            {}, {},   {}};
  if (n.flag("include_last_offset"))
    offsets = n.sliceDim(offsets, 0, n.dim(0), bags.count);
  // The bag of each index: how many bags begin at or before it, less one. An
  // empty bag at the end begins behind the last index.
  Dim places = bags.read + 1;
  Value begun = n.make<ts::ScatterNdOp>(
      bags.filled({places}, n.integerScalar(0, i64)),
      bags.column(offsets, bags.count),
      bags.filled({bags.count}, n.integerScalar(1, i64)),
      ts::ReduceKindAttr::get(n.shared.context, K::add));
  begun =
      n.make<ts::ScanOp>(K::add, begun, uint64_t(0), bool(false), bool(false));
  bags.bag = n.add(n.sliceDim(begun, 0, n.dim(0), bags.read), -1.0);
  bags.counts = bags.filled({bags.read}, n.scalar(1, type));
  int64_t padding = n.integer("padding_idx", -1);
  if (padding >= 0)
    bags.counts = n.select(n.compare(P::eq, at, n.integerScalar(padding, i64)),
                           n.scalar(0, type), bags.counts);
  bags.rows = n.make<ts::GatherOp>(table, n.fromFront(at), uint64_t(0));
  if (!bags.rows || !bags.bag || !bags.counts)
    return std::nullopt;
  bags.sizes = bags.joined(K::add, bags.counts,
                           bags.filled({bags.count}, n.scalar(0, type)));
  return bags;
}

Value maximumOf(Bags &bags) {
  AtenNode &n = bags.n;
  Value lowest = n.scalar(-INFINITY, bags.type);
  Value y = bags.joined(K::max, n.select(bags.isCounted(), bags.rows, lowest),
                        bags.filled({bags.count, bags.width}, lowest));
  Value empty = bags.column(
      n.compare(P::eq, bags.sizes, n.scalar(0, bags.type)), bags.count);
  return n.select(empty, n.scalar(0, bags.type), y);
}

/// The row that each maximum was first found in, 0 for those of empty bags.
Value rowsOfMaxima(Bags &bags, Value maxima) {
  AtenNode &n = bags.n;
  SmallVector<Dim> grid{bags.read, bags.width};
  Value reached = n.make<ts::GatherOp>(maxima, bags.bag, uint64_t(0));
  Value found = n.binary<ts::OrOp>(n.compare(P::eq, bags.rows, reached),
                                   n.make<ts::IsNanOp>(bags.rows));
  found = n.binary<ts::AndOp>(found, bags.isCounted());
  Value place = n.makeAs<ts::IotaOp>(n.type(grid, bags.i64), uint64_t(0));
  Value behind = n.integerScalar(INT64_MAX, bags.i64);
  Value first = bags.joined(K::min, n.select(found, place, behind),
                            bags.filled({bags.count, bags.width}, behind));
  Value none = n.compare(P::eq, first, behind);
  first = n.select(none, n.integerScalar(0, bags.i64), first);
  Value row = n.make<ts::GatherOp>(bags.at, first, uint64_t(0));
  return n.select(none, n.integerScalar(0, bags.i64), row);
}

Value sumOf(Bags &bags, bool mean) {
  AtenNode &n = bags.n;
  Value weights = bags.counts;
  if (n.has("per_sample_weights"))
    weights = n.mul(weights, n.operand("per_sample_weights", bags.type));
  Value y = bags.joined(
      K::add, n.mul(bags.rows, bags.column(weights, bags.read)),
      bags.filled({bags.count, bags.width}, n.scalar(0, bags.type)));
  if (!mean)
    return y;
  return n.div(y, n.binary<ts::MaxOp>(bags.column(bags.sizes, bags.count),
                                      n.scalar(1, bags.type)));
}

/// The sum (mode 0), mean (1) or largest (2) of the rows of each bag; then what
/// torch keeps for a gradient, of which ours reads the rows of maxima.
LogicalResult importBag(AtenNode &n) {
  if (n.wants(1) || n.wants(2))
    return n.unsupported("the bag of each index, or the sizes of bags");
  std::optional<Bags> bags = bagsOf(n);
  if (!bags)
    return failure();
  int64_t mode = n.integer("mode");
  if (n.wants(3) && mode != 2)
    return n.unsupported("rows of maxima of sums");
  Value y = mode == 2 ? maximumOf(*bags) : sumOf(*bags, mode == 1);
  if (!y || failed(n.out(y)) || !n.wants(3))
    return failure(n.failed());
  return n.out(rowsOfMaxima(*bags, y), 3);
}

constexpr AtenRow rows[] = {
    {"aten._embedding_bag.default", importBag},
    {"aten._embedding_bag_forward_only.default", importBag},
    {"aten.embedding_renorm.default", importRenorm},
};

} // namespace

ArrayRef<AtenRow> atenEmbeddingRows() { return rows; }

} // namespace knapper
