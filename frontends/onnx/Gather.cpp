// Reading and writing by index.
#include "frontends/onnx/RuntimeSizes.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

LogicalResult importGather(Node &n) {
  int64_t axis = n.axis("axis", 0, ts::rankOf(n[0]));
  return n.out(n.make<ts::GatherOp>(n[0], n[1], uint64_t(axis)));
}

/// The indices; where they reach beyond `data` beside the axis the run is
/// refused.
Value within(Node &n, Value indices, Value data, int64_t axis) {
  SmallVector<Dim> dims = ts::dimsOf(indices), most = ts::dimsOf(data);
  if (n.failed() || dims.size() != most.size())
    return indices; // said elsewhere
  for (size_t d = 0; d < dims.size(); ++d) {
    std::optional<int64_t> left = ts::lowerBound(most[d] - dims[d]);
    if (static_cast<int64_t>(d) != axis && !(left && *left >= 0))
      dims[d] = dims[d].min(most[d]);
  }
  return n.castDims(indices, dims);
}

LogicalResult importGatherElements(Node &n) {
  int64_t axis = n.axis("axis", 0, ts::rankOf(n[0]));
  Value indices = within(n, n[1], n[0], axis);
  if (n.failed() || !indices)
    return failure();
  return n.out(
      n.castDims(n.make<ts::GatherElementsOp>(n[0], indices, uint64_t(axis)),
                 ts::dimsOf(n[1])));
}

LogicalResult importGatherNd(Node &n) {
  int64_t batch = n.integer("batch_dims", 0);
  SmallVector<Dim> dims = ts::dimsOf(n[0]), indices = ts::dimsOf(n[1]);
  if (batch < 0 || batch > static_cast<int64_t>(dims.size()) ||
      batch >= static_cast<int64_t>(indices.size()))
    return n.fail("batch_dims " + Twine(batch) + " does not fit " +
                      ts::shapeText(n[0].getType()) + " and " +
                      ts::shapeText(n[1].getType()),
                  "correct batch_dims");
  for (int64_t i = 0; i < batch; ++i)
    indices[i] = dims[i];
  return n.out(
      n.make<ts::GatherNdOp>(n[0], n.castDims(n[1], indices), uint64_t(batch)));
}

/// The combination that `reduction` names; nothing for an unknown one.
std::optional<ts::ReduceKindAttr> reductionOf(Node &n) {
  std::string name = n.text("reduction", "none");
  if (name == "none")
    return ts::ReduceKindAttr();
  std::optional<ts::ReduceKind> kind = ts::symbolizeReduceKind(name);
  if (!kind || *kind == ts::ReduceKind::logical_and ||
      *kind == ts::ReduceKind::logical_or) {
    (void)n.fail("reduction is '" + name + "'",
                 "use none, add, mul, max or min");
    return std::nullopt;
  }
  return ts::ReduceKindAttr::get(n.importer.context, *kind);
}

LogicalResult importScatterElements(Node &n) {
  std::optional<ts::ReduceKindAttr> kind = reductionOf(n);
  if (!kind)
    return failure();
  int64_t axis = n.axis("axis", 0, ts::rankOf(n[0]));
  if (ts::rankOf(n[1]) != ts::rankOf(n[2]))
    return n.fail("indices and updates differ in rank",
                  "give an update an index");
  Value indices = within(n, n[1], n[0], axis);
  if (n.failed() || !indices)
    return failure();
  return n.out(n.make<ts::ScatterElementsOp>(
      n[0], indices, n.castDims(n[2], ts::dimsOf(indices)), uint64_t(axis),
      *kind));
}

LogicalResult importScatterNd(Node &n) {
  std::optional<ts::ReduceKindAttr> kind = reductionOf(n);
  if (!kind)
    return failure();
  SmallVector<Dim> dims = ts::dimsOf(n[0]), expected = ts::dimsOf(n[1]);
  if (expected.empty())
    return n.fail("indices are a scalar", "give them a last dim");
  std::optional<int64_t> depth = expected.back().asConstant();
  if (!depth || *depth > static_cast<int64_t>(dims.size()))
    return n.fail("the last dim of the indices is " + expected.back().str() +
                      " for rank " + Twine(dims.size()),
                  "correct the indices");
  expected.pop_back();
  llvm::append_range(expected, ArrayRef<Dim>(dims).drop_front(*depth));
  if (static_cast<int64_t>(expected.size()) != ts::rankOf(n[2]))
    return n.fail("updates are " + ts::shapeText(n[2].getType()) +
                      ", which the indices do not give",
                  "correct the updates' shape");
  return n.out(
      n.make<ts::ScatterNdOp>(n[0], n[1], n.castDims(n[2], expected), *kind));
}

LogicalResult importOneHot(Node &n) {
  std::optional<SmallVector<Dim>> depth;
  bool isReal = isa<FloatType>(ts::elementTypeOf(n[1]));
  if (isReal && n[1].getDefiningOp<ts::ConstantOp>()) {
    std::optional<SmallVector<double>> number = n.realNumbers(n[1], "depth");
    if (!number)
      return failure();
    depth.emplace();
    for (double value : *number)
      depth->push_back(n.dim(value >= 0 && value < 1e12
                                 ? static_cast<int64_t>(value)
                                 : -1)); // refused as a dim
  } else {
    Value whole = n[1];
    if (isReal) { // NaN as well becomes -1, which is no size
      Value isSize =
          n.compare(ts::ComparePredicate::ge, whole, n.scalarFor(whole, 0));
      whole = n.convert(n.select(isSize, whole, n.scalarFor(whole, -1)),
                        n.b.getI64Type());
    }
    depth = sizesOrSymbols(n, whole, "depth");
  }
  if (!depth)
    return failure();
  if (depth->size() != 1 || ts::rankOf(n[2]) != 1 ||
      ts::dimOf(n[2], 0).asConstant().value_or(2) != 2)
    return n.fail("depth must be one number and values two",
                  "give values [off, on]");
  Value values = n.castDims(n[2], {n.dim(2)});
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  auto rank = static_cast<int64_t>(dims.size());
  int64_t axis = n.axis("axis", -1, rank + 1);
  SmallVector<int64_t> at;
  for (int64_t i = 0; i < rank; ++i)
    at.push_back(i < axis ? i : i + 1);
  dims.insert(dims.begin() + axis, depth->front());
  Type i64 = n.b.getI64Type();
  Value position = n.makeAs<ts::IotaOp>(n.type(dims, i64), uint64_t(axis));
  // Negative indices count from the end.
  Value index = n.broadcastAt(n.convert(n[0], i64), at, dims);
  Value wrapped = n.select(
      n.compare(ts::ComparePredicate::lt, index, n.integerScalar(0, i64)),
      n.add(index, n.sizeScalar(depth->front(), i64)), index);
  Value hit = n.compare(ts::ComparePredicate::eq, position, wrapped);
  auto value = [&](int64_t i) {
    return n.reshape(n.sliceDim(values, 0, n.dim(i), n.dim(1)), {});
  };
  return n.out(n.select(hit, value(1), value(0)));
}

/// Along time, the first lens[b] elements of batch entry b are reversed.
LogicalResult importReverseSequence(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  auto rank = static_cast<int64_t>(dims.size());
  int64_t time = n.axis("time_axis", 0, rank),
          batch = n.axis("batch_axis", 1, rank);
  if (n.failed())
    return failure();
  if (ts::rankOf(n[1]) != 1 || time == batch)
    return n.fail("needs a vector of lengths and two different axes",
                  "correct sequence_lens, time_axis or batch_axis");
  Type i64 = n.b.getI64Type();
  Value position = n.makeAs<ts::IotaOp>(n.type(dims, i64), uint64_t(time));
  Value length = n.broadcastAt(n.convert(n[1], i64), {batch}, dims);
  Value mirrored = n.sub(n.sub(length, n.integerScalar(1, i64)), position);
  Value index = n.select(n.compare(ts::ComparePredicate::lt, position, length),
                         mirrored, position);
  return n.out(n.make<ts::GatherElementsOp>(n[0], index, uint64_t(time)));
}

/// The update at `write_indices` of each batch entry's sequence.
LogicalResult importTensorScatter(Node &n) {
  SmallVector<Dim> past = ts::dimsOf(n[0]), update = ts::dimsOf(n[1]);
  auto rank = static_cast<int64_t>(past.size());
  int64_t axis = n.axis("axis", -2, rank);
  std::string mode = n.text("mode", "linear");
  if (n.failed())
    return failure();
  if (mode != "linear" && mode != "circular")
    return n.fail("mode is '" + mode + "'", "use linear or circular");
  if (!axis || update.size() != past.size() ||
      (n.has(2) && ts::rankOf(n[2]) != 1))
    return n.fail("cache, update and write_indices are " +
                      ts::shapeText(n[0].getType()) + ", " +
                      ts::shapeText(n[1].getType()) + " and " +
                      (n.has(2) ? ts::shapeText(n[2].getType()) : "absent"),
                  "give equal ranks, a vector of indices and an axis that is "
                  "not the batch");
  using P = ts::ComparePredicate;
  Type i64 = n.b.getI64Type();
  Dim length = past[axis], written = update[axis];
  Value zero = n.integerScalar(0, i64);
  Value from = n.has(2) ? n.convert(n.castDims(n[2], {past[0]}), i64)
                        : n.broadcastTo(zero, {past[0]});
  update = past;
  update[axis] = written;
  Value fresh = n.castDims(n[1], update);
  if (!from || !fresh)
    return failure();
  if (written.isConstant(0))
    return n.out(n[0]);
  // [batch, written]: where an element of the update goes.
  SmallVector<Dim> places{past[0], written};
  Value place = n.makeAs<ts::IotaOp>(n.type(places, i64), uint64_t(1));
  Value index = n.add(n.broadcastAt(from, {0}, places), place);
  if (mode == "circular") {
    index = n.binary<ts::ModOp>(index, n.sizeScalar(length, i64));
  } else {
    // What would not fit goes to an index outside, which fails the run.
    Value room = n.sizeScalar(length - written, i64);
    Value fits = n.binary<ts::AndOp>(n.compare(P::ge, from, zero),
                                     n.compare(P::le, from, room));
    index = n.select(n.broadcastAt(fits, {0}, places), index,
                     n.sizeScalar(length, i64));
  }
  if (!index)
    return failure();
  Value at = n.broadcastAt(index, {0, axis}, update);
  return n.out(n.make<ts::ScatterElementsOp>(n[0], at, fresh, uint64_t(axis),
                                             ts::ReduceKindAttr()));
}

constexpr OpRow rows[] = {
    {"", "Gather", 1, 2, 2, importGather},
    {"", "GatherElements", 11, 2, 2, importGatherElements},
    {"", "GatherND", 11, 2, 2, importGatherNd},
    {"", "OneHot", 9, 3, 3, importOneHot},
    {"", "ReverseSequence", 10, 2, 2, importReverseSequence},
    {"", "Scatter", 9, 3, 3, importScatterElements, 10},
    {"", "ScatterElements", 11, 3, 3, importScatterElements},
    {"", "ScatterND", 11, 3, 3, importScatterNd},
    {"", "TensorScatter", 24, 2, 3, importTensorScatter},
};

} // namespace

ArrayRef<OpRow> gatherRows() { return rows; }

} // namespace knapper
