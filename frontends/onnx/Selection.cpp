// Results whose size the data decides. A kernel counts, the count becomes a
// symbol (`Node::bindSize`), and what follows is as large as that.
#include "frontends/onnx/Selection.h"
#include "frontends/common/TruePlaces.h"

using namespace mlir;

namespace knapper {

using ts::Dim;
using P = ts::ComparePredicate;

static Value iota(Node &n, Dim count) {
  return n.makeAs<ts::IotaOp>(n.type({count}, n.b.getI64Type()), uint64_t(0));
}

Value truePlaces(Node &n, Value mask, StringRef name) {
  return truePlaces(n, mask,
                    [&](Value count) { return n.bindSize(count, name); });
}

Value whereTrue(Node &n, Value mask, StringRef name) {
  Value places = truePlaces(n, mask, name);
  return places ? n.reshape(places, {ts::dimOf(places, 1)}) : places;
}

namespace {

/// All elements in one dim.
Value flattened(Node &n, Value x) {
  return n.reshape(x, {ts::elementCount(x.getType())});
}

LogicalResult importNonZero(Node &n) {
  Type i64 = n.b.getI64Type();
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  Value x = dims.empty() ? flattened(n, n[0]) : n[0];
  Value mask = ts::elementTypeOf(x).isInteger(1)
                   ? x
                   : n.compare(P::ne, x, n.scalarFor(x, 0));
  Value places = truePlaces(n, mask, "nonzero");
  if (!places || !dims.empty())
    return n.out(places);
  return n.out(
      n.broadcastTo(n.integerScalar(0, i64), {n.dim(0), ts::dimOf(places, 1)}));
}

LogicalResult importCompress(Node &n) {
  if (ts::rankOf(n[1]) != 1 || !ts::elementTypeOf(n[1]).isInteger(1))
    return n.fail("the condition is " + ts::shapeText(n[1].getType()),
                  "give a vector of booleans");
  Value x = n[0];
  int64_t axis = 0;
  if (n.hasAttr("axis"))
    axis = n.axis("axis", 0, ts::rankOf(x));
  else
    x = flattened(n, x);
  Value found = whereTrue(n, n[1], "compressed");
  return n.out(n.make<ts::GatherOp>(x, found, uint64_t(axis)));
}

//===----------------------------------------------------------------------===//
// Unique
//===----------------------------------------------------------------------===//

/// Elements that differ; one NaN is as good as another.
Value differ(Node &n, Value a, Value b) {
  Value other = n.compare(P::ne, a, b);
  if (!a || !isa<FloatType>(ts::elementTypeOf(a)))
    return other;
  SmallVector<Value> v =
      n.broadcastAll({n.make<ts::IsNanOp>(a), n.make<ts::IsNanOp>(b)});
  return n.binary<ts::AndOp>(other,
                             n.make<ts::NotOp>(n.make<ts::AndOp>(v[0], v[1])));
}

/// Indices of the rows of [count, width] in rising lexicographic order, equal
/// ones in their order: each row is compared with each.
Value lexicographicOrder(Node &n, Value rows) {
  Type i64 = n.b.getI64Type();
  SmallVector<Dim> dims = ts::dimsOf(rows);
  Dim count = dims[0], one = n.dim(1);
  SmallVector<Dim> all{count, count, dims[1]}, pairs{count, count};
  Value a = n.broadcastAt(rows, {0, 2}, all),
        b = n.broadcastAt(rows, {1, 2}, all);
  Value other = differ(n, a, b);
  // NaN is the largest.
  Value less = n.compare(P::lt, a, b);
  if (a && isa<FloatType>(ts::elementTypeOf(rows)))
    less = n.binary<ts::OrOp>(less, n.make<ts::IsNanOp>(b));
  Type i8 = n.b.getIntegerType(8);
  Value first = n.make<ts::ArgReduceOp>(
      ts::ReduceKind::max, n.convert(other, i8), uint64_t(2), bool(false));
  Value at = n.reshape(first, {count, count, one});
  auto decided = [&](Value flags) {
    Value bit =
        n.make<ts::GatherElementsOp>(n.convert(flags, i8), at, uint64_t(2));
    return n.convert(n.reshape(bit, pairs), n.b.getI1Type());
  };
  Value unequal = decided(other), before = decided(less);
  RankedTensorType type = n.type(pairs, i64);
  Value row = n.makeAs<ts::IotaOp>(type, uint64_t(0)),
        column = n.makeAs<ts::IotaOp>(type, uint64_t(1));
  before = n.select(unequal, before, n.compare(P::lt, row, column));
  // How many rows come before a row is its place.
  Value place =
      n.reduce(ts::ReduceKind::add, n.convert(before, i64), {0}, false);
  Value index = iota(n, count);
  return n.make<ts::ScatterElementsOp>(index, place, index, uint64_t(0),
                                       ts::ReduceKindAttr());
}

LogicalResult importUnique(Node &n) {
  using K = ts::ReduceKind;
  Type i64 = n.b.getI64Type();
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  auto rank = static_cast<int64_t>(dims.size());
  bool sorted = n.flag("sorted", true), whole = !n.hasAttr("axis");
  int64_t axis = whole ? 0 : n.axis("axis", 0, rank);
  if (n.failed())
    return failure();
  Value x = whole ? flattened(n, n[0]) : n[0];
  Dim count = ts::dimOf(x, axis);
  // What is compared: [count] or [count, width].
  Value keys = x;
  if (ts::rankOf(x) > 1) {
    SmallVector<int64_t> order{axis};
    Dim width = n.dim(1);
    for (int64_t i = 0; i < rank; ++i)
      if (i != axis) {
        order.push_back(i);
        width = width * dims[i];
      }
    if (width.isConstant(0))
      return n.unsupported("subtensors without elements");
    keys = n.reshape(n.transpose(x, order), {count, width});
  }
  if (keys && ts::elementTypeOf(keys).isInteger(1))
    keys = n.convert(keys, n.b.getIntegerType(8));
  if (!keys)
    return failure();
  // Equal keys side by side; `order` says where each came from.
  Value order;
  if (ts::rankOf(keys) == 1) {
    Operation *op =
        n.makeOp<ts::TopKOp>(2, keys, count.attr(), uint64_t(0), bool(false));
    order = op ? op->getResult(1) : Value();
  } else {
    order = lexicographicOrder(n, keys);
  }
  Value side = n.make<ts::GatherOp>(keys, order, uint64_t(0));
  Value index = iota(n, count), zero = n.integerScalar(0, i64);
  Value previous = n.binary<ts::MaxOp>(n.add(index, -1.0), zero);
  Value other =
      differ(n, side, n.make<ts::GatherOp>(side, previous, uint64_t(0)));
  if (other && ts::rankOf(other) == 2)
    other = n.reduce(K::logical_or, other, {1}, false);
  Value begins = n.binary<ts::OrOp>(other, n.compare(P::eq, index, zero));
  // The first of equal keys, as an index into x, for each of them.
  auto scan = [&](K kind, Value value, bool exclusive) {
    return n.make<ts::ScanOp>(kind, value, uint64_t(0), exclusive, bool(false));
  };
  auto put = [&](Value into, Value at, Value what) {
    return n.make<ts::ScatterElementsOp>(into, at, what, uint64_t(0),
                                         ts::ReduceKindAttr());
  };
  Value blank = n.broadcastTo(zero, {count});
  Value number, found; // of the class of each element, in x's order; the firsts
  if (sorted) {
    Value classes = n.add(scan(K::add, n.convert(begins, i64), false), -1.0);
    number = put(blank, order, classes);
    Value places = whereTrue(n, begins, "unique");
    found = n.make<ts::GatherOp>(order, places, uint64_t(0));
  } else {
    Value start = scan(K::max, n.select(begins, index, zero), false);
    Value leader = n.make<ts::GatherOp>(order, start, uint64_t(0));
    Value leads = put(blank, order, n.convert(begins, i64));
    Value rankOfLeader = scan(K::add, leads, true);
    number = put(blank, order,
                 n.make<ts::GatherOp>(rankOfLeader, leader, uint64_t(0)));
    found = whereTrue(n, n.compare(P::ne, leads, zero), "unique");
  }
  if (!found || failed(n.out(n.make<ts::GatherOp>(x, found, uint64_t(axis)))))
    return failure();
  if (n.wants(1) && failed(n.out(found, 1)))
    return failure();
  if (n.wants(2) && failed(n.out(number, 2)))
    return failure();
  if (!n.wants(3))
    return mlir::success();
  Value counts = n.make<ts::ScatterElementsOp>(
      blank, number, n.broadcastTo(n.integerScalar(1, i64), {count}),
      uint64_t(0), ts::ReduceKindAttr::get(n.importer.context, K::add));
  return n.out(n.sliceDim(counts, 0, n.dim(0), ts::dimOf(found, 0)), 3);
}

constexpr OpRow rows[] = {
    {"", "Compress", 9, 2, 2, importCompress},
    {"", "NonZero", 9, 1, 1, importNonZero},
    {"", "Unique", 11, 1, 1, importUnique},
};

} // namespace

ArrayRef<OpRow> selectionRows() { return rows; }

} // namespace knapper
