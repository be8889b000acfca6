// Results whose size the data decides. A kernel counts, torch's symbol gets the
// count, and what follows is as large as that.
#include "frontends/common/TruePlaces.h"
#include "frontends/torch/AtenImporter.h"
#include "frontends/torch/AtenNode.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using P = ts::ComparePredicate;
using K = ts::ReduceKind;

Value iota(AtenNode &n, Dim count) {
  return n.makeAs<ts::IotaOp>(n.type({count}, n.b.getI64Type()), uint64_t(0));
}
Value flattened(AtenNode &n, Value x) {
  return x ? n.reshape(x, {ts::elementCount(x.getType())}) : x;
}
Value scan(AtenNode &n, K kind, Value x, bool exclusive) {
  return n.make<ts::ScanOp>(kind, x, uint64_t(0), bool(exclusive), bool(false));
}
Value put(AtenNode &n, Value into, Value at, Value what) {
  return n.make<ts::ScatterElementsOp>(into, at, what, uint64_t(0),
                                       ts::ReduceKindAttr());
}

/// [rank, count] of the true elements of a mask. How many is the size that
/// torch claims for dim `dim` of result `index`.
Value truePlaces(AtenNode &n, Value mask, size_t index, size_t dim) {
  return truePlaces(
      n, mask, [&](Value count) { return n.bindClaimed(count, index, dim); });
}
/// Of a 1-d mask, as one dim.
Value whereTrue(AtenNode &n, Value mask, size_t index, size_t dim) {
  Value places = truePlaces(n, mask, index, dim);
  return places ? n.reshape(places, {ts::dimOf(places, 1)}) : places;
}

Value isTrue(AtenNode &n, Value x) {
  return x ? n.convert(x, n.b.getI1Type()) : x;
}

/// The index along each dim of elements at these places of the flat tensor:
/// [count, rank].
Value unravelled(AtenNode &n, Value found, ArrayRef<Dim> dims) {
  if (!found)
    return {};
  Type i64 = n.b.getI64Type();
  Dim count = ts::dimOf(found, 0);
  if (dims.empty())
    return n.broadcastTo(n.integerScalar(0, i64), {count, n.dim(0)});
  SmallVector<Value> columns(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    Value size = n.sizeScalar(dims[i], i64);
    columns[i] = n.reshape(i ? n.binary<ts::ModOp>(found, size) : found,
                           {count, n.dim(1)});
    found = n.div(found, size);
  }
  return columns.size() == 1
             ? columns[0]
             : n.make<ts::ConcatOp>(ValueRange(columns), int64_t(1));
}

LogicalResult importNonZero(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  if (ts::rankOf(x) == 0)
    return n.out(
        unravelled(n, whereTrue(n, isTrue(n, flattened(n, x)), 0, 0), {}));
  Value places = truePlaces(n, isTrue(n, x), 0, 0);
  return n.out(places ? n.transpose(places, {1, 0}) : places);
}

/// As many rows as `size` says, the last ones `fill_value`.
LogicalResult importNonZeroStatic(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  Type i64 = n.b.getI64Type();
  SmallVector<Dim> dims = ts::dimsOf(x);
  Value mask = isTrue(n, flattened(n, x));
  Dim size = n.size("size"), count = ts::elementCount(x.getType());
  Value ones = n.convert(mask, i64), place = scan(n, K::add, ones, true);
  Value limit = n.sizeScalar(size, i64);
  Value kept = n.binary<ts::AndOp>(mask, n.compare(P::lt, place, limit));
  Value room = n.broadcastTo(n.integerScalar(0, i64), {size + 1});
  Value found =
      n.sliceDim(put(n, room, n.select(kept, place, limit), iota(n, count)), 0,
                 n.dim(0), size);
  Value total = n.reduce(K::add, ones, {0}, true);
  Value given = n.compare(P::lt, iota(n, size), total);
  Value index = unravelled(n, found, dims);
  if (!index || !given)
    return failure();
  return n.out(n.select(n.reshape(given, {size, n.dim(1)}), index,
                        n.integerScalar(n.integer("fill_value", -1), i64)));
}

LogicalResult importMaskedSelect(AtenNode &n) {
  SmallVector<Value> v =
      n.broadcastAll({n.tensor("self"), isTrue(n, n.tensor("mask"))});
  if (!v[0] || !v[1])
    return failure();
  Value found = whereTrue(n, flattened(n, v[1]), 0, 0);
  return n.out(n.make<ts::GatherOp>(flattened(n, v[0]), found, uint64_t(0)));
}

/// i, repeats[i] times for each i: place j has the number of runs that have
/// ended at or before it.
LogicalResult importRepeatInterleave(AtenNode &n) {
  Type i64 = n.b.getI64Type();
  Value repeats = n.operand("repeats", i64);
  if (!repeats)
    return failure();
  Dim count = ts::dimOf(repeats, 0);
  Dim size = n.has("output_size")
                 ? n.size("output_size")
                 : n.bindClaimed(n.reduce(K::add, repeats, {0}, false), 0, 0);
  // Each run marks its end; a running sum counts the marks.
  Value ends = scan(n, K::add, repeats, false);
  Value room = n.broadcastTo(n.integerScalar(0, i64), {size + 1});
  Value marks = n.make<ts::ScatterElementsOp>(
      room, ends, n.broadcastTo(n.integerScalar(1, i64), {count}), uint64_t(0),
      ts::ReduceKindAttr::get(n.shared.context, K::add));
  Value index = n.sliceDim(scan(n, K::add, marks, false), 0, n.dim(0), size);
  return n.out(index ? n.convert(index, n.element()) : index);
}

//===----------------------------------------------------------------------===//
// Unique elements
//===----------------------------------------------------------------------===//

/// Whether each element of a 1-d tensor differs from the one before; the first
/// does. No NaN is another.
Value beginsOf(AtenNode &n, Value x) {
  if (!x)
    return {};
  Type i64 = n.b.getI64Type();
  Value index = iota(n, ts::dimOf(x, 0)), zero = n.integerScalar(0, i64);
  Value previous = n.binary<ts::MaxOp>(n.add(index, -1.0), zero);
  return n.binary<ts::OrOp>(
      n.compare(P::ne, x, n.make<ts::GatherOp>(x, previous, uint64_t(0))),
      n.compare(P::eq, index, zero));
}

/// Results of runs of equal elements of x: one of each, the number of the run
/// of each element (put where `order` says) and how long each is.
LogicalResult runs(AtenNode &n, Value x, Value order) {
  Value begins = beginsOf(n, x);
  Value found = whereTrue(n, begins, 0, 0);
  if (!found)
    return failure();
  Type i64 = n.b.getI64Type();
  Value first = n.make<ts::GatherOp>(x, found, uint64_t(0));
  if (!first || failed(n.out(n.convert(first, n.element()))))
    return failure();
  Value number = n.add(scan(n, K::add, n.convert(begins, i64), false), -1.0);
  auto blank = [&](size_t i) {
    return n.broadcastTo(n.integerScalar(0, i64), n.dims(i));
  };
  if (n.wants(1)) {
    Value y = number;
    if (!n.flag("return_inverse"))
      y = blank(1);
    else if (order)
      y = put(n, n.broadcastTo(n.integerScalar(0, i64), {ts::dimOf(x, 0)}),
              order, number);
    if (failed(n.out(y ? n.reshape(y, n.dims(1)) : y, 1)))
      return failure();
  }
  if (!n.wants(2))
    return mlir::success();
  if (!n.flag("return_counts"))
    return n.out(blank(2), 2);
  Dim count = ts::dimOf(x, 0);
  Value sizes = n.make<ts::ScatterElementsOp>(
      n.broadcastTo(n.integerScalar(0, i64), {count}), number,
      n.broadcastTo(n.integerScalar(1, i64), {count}), uint64_t(0),
      ts::ReduceKindAttr::get(n.shared.context, K::add));
  return n.out(n.sliceDim(sizes, 0, n.dim(0), ts::dimOf(found, 0)), 2);
}

/// Booleans as bytes, which have an order.
Value ordered(AtenNode &n, Value x) {
  return x && ts::elementTypeOf(x).isInteger(1)
             ? n.convert(x, n.b.getIntegerType(8))
             : x;
}

LogicalResult importUnique(AtenNode &n) {
  Value x = ordered(n, flattened(n, n.tensor("self")));
  if (!x)
    return failure();
  Operation *op = n.makeOp<ts::TopKOp>(2, x, ts::dimOf(x, 0).attr(),
                                       uint64_t(0), bool(false));
  return op ? runs(n, op->getResult(0), op->getResult(1)) : failure();
}

LogicalResult importUniqueConsecutive(AtenNode &n) {
  Value x = n.tensor("self");
  if (x && n.has("dim") && ts::rankOf(x) != 1)
    return n.unsupported("runs of equal slices");
  // torch's trace has another rank then.
  if (n.has("dim") && n.integer("dim") < 0)
    return n.unsupported("a dim from the end");
  return runs(n, ordered(n, flattened(n, x)), {});
}

/// How often each number occurs, or the sum of its weights.
LogicalResult importBincount(AtenNode &n) {
  Type i64 = n.b.getI64Type();
  Value x = n.operand("self", i64);
  if (!x || !n.element())
    return failure();
  Value least = n.sizeScalar(n.size("minlength"), i64);
  Dim count = ts::dimOf(x, 0);
  Value longest =
      n.binary<ts::MaxOp>(n.add(n.reduce(K::max, x, {0}, false), 1.0), least);
  if (count.isConstant(0))
    longest = least;
  Dim size = n.bindClaimed(longest, 0, 0);
  Value ones = n.has("weights")
                   ? n.operand("weights")
                   : n.broadcastTo(n.integerScalar(1, n.element()), {count});
  return n.out(n.make<ts::ScatterElementsOp>(
      n.broadcastTo(n.integerScalar(0, n.element()), {size}), x, ones,
      uint64_t(0), ts::ReduceKindAttr::get(n.shared.context, K::add)));
}

/// An element as a size, which the run refuses where it is negative.
LogicalResult importItem(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  if (isa<FloatType>(ts::elementTypeOf(x)))
    return n.unsupported("a number that is no whole one");
  x = n.reshape(n.convert(x, n.b.getI64Type()), {});
  if (!x)
    return failure();
  n.importer.bind(x, n.text("symbol"), n.loc);
  return mlir::success();
}

constexpr AtenRow rows[] = {
    {"aten._local_scalar_dense.default", importItem},
    {"aten._unique.default", importUnique},
    {"aten._unique2.default", importUnique},
    {"aten.bincount.default", importBincount},
    {"aten.masked_select.default", importMaskedSelect},
    {"aten.nonzero.default", importNonZero},
    {"aten.nonzero_static.default", importNonZeroStatic},
    {"aten.repeat_interleave.Tensor", importRepeatInterleave},
    {"aten.unique_consecutive.default", importUniqueConsecutive},
};

} // namespace

ArrayRef<AtenRow> atenSelectionRows() { return rows; }

} // namespace knapper
