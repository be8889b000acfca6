// Reading and writing by index.
#include "frontends/torch/AtenNode.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using K = ts::ReduceKind;

ts::ReduceKindAttr kindOf(AtenNode &n, K kind) {
  return ts::ReduceKindAttr::get(n.shared.context, kind);
}

Value withDim(AtenNode &n, Value x) {
  return x && ts::rankOf(x) == 0 ? n.reshape(x, {n.dim(1)}) : x;
}

LogicalResult importEmbedding(AtenNode &n) {
  Value weight = n.tensor("weight"), at = n.fromFront(n.tensor("indices"));
  return n.out(n.make<ts::GatherOp>(weight, at, uint64_t(0)));
}

/// Rows of gradients are added up where their indices say; `padding_idx` gets
/// none.
LogicalResult importEmbeddingBackward(AtenNode &n) {
  Type type = n.wide();
  Value grad = n.operand("grad_output", type), at = n.tensor("indices");
  if (!grad || !at || n.dims().size() != 2)
    return failure();
  if (n.flag("scale_grad_by_freq"))
    return n.unsupported("scale_grad_by_freq");
  Dim count = ts::elementCount(at.getType()), width = n.dims()[1];
  at = n.reshape(at, {count, n.dim(1)});
  grad = n.reshape(grad, {count, width});
  int64_t padding = n.integer("padding_idx", -1);
  if (padding >= 0 && at)
    grad = n.select(n.compare(ts::ComparePredicate::eq, at,
                              n.integerScalar(padding, ts::elementTypeOf(at))),
                    n.scalarFor(grad, 0), grad);
  Value zeros = n.broadcastTo(n.scalar(0, type), n.dims());
  return n.out(n.make<ts::ScatterNdOp>(zeros, at, grad, kindOf(n, K::add)));
}

LogicalResult importIndexSelect(AtenNode &n) {
  Value x = n.tensor("self"), at = n.fromFront(n.tensor("index"));
  if (!x || !at)
    return failure();
  if (ts::rankOf(x) == 0)
    return n.out(n.reshape(x, n.dims()));
  int64_t dim = n.dimension("dim", ts::rankOf(x));
  return n.out(n.make<ts::GatherOp>(x, withDim(n, at), uint64_t(dim)));
}

/// Indices beyond the data beside the dim: torch wants them to be at most as
/// large, and takes the first.
Value within(AtenNode &n, Value x, ArrayRef<Dim> dims) {
  for (auto [d, size] : llvm::enumerate(dims))
    if (x)
      x = n.sliceDim(x, static_cast<int64_t>(d), n.dim(0), size);
  return x;
}

LogicalResult importGather(AtenNode &n) {
  // An index without elements may have any rank.
  if (llvm::any_of(n.dims(), [](Dim dim) { return dim.isConstant(0); }))
    return n.out(n.broadcastTo(n.scalar(0, n.element()), n.dims()));
  Value x = withDim(n, n.tensor("self")),
        at = withDim(n, n.fromFront(n.tensor("index")));
  if (!x || !at)
    return failure();
  int64_t dim = n.dimension("dim", ts::rankOf(x));
  SmallVector<Dim> dims = ts::dimsOf(at);
  if (n.failed() || dims.size() != ts::dimsOf(x).size())
    return failure();
  dims[dim] = ts::dimOf(x, dim);
  Value y = n.make<ts::GatherElementsOp>(within(n, x, dims), at, uint64_t(dim));
  return n.out(n.reshape(y, n.dims()));
}

/// How torch calls the reductions of a scatter; nothing for one that we lack.
std::optional<K> reductionOf(StringRef name) {
  if (name == "add" || name == "sum")
    return K::add;
  if (name == "multiply" || name == "prod")
    return K::mul;
  if (name == "amax")
    return K::max;
  if (name == "amin")
    return K::min;
  return std::nullopt;
}

/// The number that a reduction begins with.
Value neutral(AtenNode &n, K kind, Type element) {
  if (kind == K::add || kind == K::mul)
    return n.integerScalar(kind == K::mul, element);
  if (isa<FloatType>(element))
    return n.scalar(kind == K::max ? -INFINITY : INFINITY, element);
  unsigned width = element.getIntOrFloatBitWidth();
  bool isUnsigned = element.isUnsignedInteger();
  return n.integerScalar(
      kind == K::max ? (isUnsigned ? 0 : llvm::minIntN(width))
                     : static_cast<int64_t>(isUnsigned ? llvm::maxUIntN(width)
                                                       : llvm::maxIntN(width)),
      element);
}

/// Where elements are combined: narrow floats in f32, booleans, whose sum is or
/// and whose product is and, as bytes.
Type combinedIn(AtenNode &n, std::optional<K> &kind) {
  Type element = n.element();
  if (!kind || !element)
    return element;
  if (!element.isInteger(1))
    return n.wide();
  kind = *kind == K::add ? K::max : *kind == K::mul ? K::min : *kind;
  return n.b.getIntegerType(8);
}

/// x with `src` combined where `at`, of the same dims, says.
LogicalResult combined(AtenNode &n, Value x, Value at, Value src, int64_t dim,
                       std::optional<K> kind, bool mean) {
  if (!x || !at || !src)
    return failure();
  Type type = ts::elementTypeOf(x);
  ts::ReduceKindAttr attribute = kind ? kindOf(n, *kind) : ts::ReduceKindAttr();
  bool without = kind && n.has("include_self") && !n.flag("include_self");
  Value count;
  if (without || mean) {
    Type counted = mean ? type : Type(n.b.getIntegerType(8));
    Value ones = n.broadcastTo(n.integerScalar(1, counted), ts::dimsOf(at));
    Value zeros = n.broadcastTo(n.integerScalar(0, counted), ts::dimsOf(x));
    count = n.make<ts::ScatterElementsOp>(zeros, at, ones, uint64_t(dim),
                                          kindOf(n, mean ? K::add : K::max));
    if (!count)
      return failure();
    Value touched =
        n.compare(ts::ComparePredicate::gt, count, n.integerScalar(0, counted));
    if (without)
      x = n.select(touched, neutral(n, *kind, type), x);
  }
  Value y = n.make<ts::ScatterElementsOp>(x, at, src, uint64_t(dim), attribute);
  if (mean) {
    if (!without)
      count = n.add(count, n.integerScalar(1, type));
    count = n.binary<ts::MaxOp>(count, n.integerScalar(1, type));
    // Of integers rounded down.
    Value rest = isa<FloatType>(type) ? Value() : n.binary<ts::RemOp>(y, count);
    y = n.div(y, count);
    if (rest)
      y = n.select(
          n.compare(ts::ComparePredicate::lt, rest, n.integerScalar(0, type)),
          n.sub(y, n.integerScalar(1, type)), y);
  }
  y = y && n.element() ? n.convert(y, n.element()) : y;
  return n.out(y ? n.reshape(y, n.dims()) : y);
}

LogicalResult scatter(AtenNode &n, std::optional<K> kind, bool mean = false) {
  Type type = combinedIn(n, kind);
  Value x = withDim(n, n.operand("self", type)),
        at = withDim(n, n.fromFront(n.tensor("index")));
  if (!x || !at)
    return failure();
  int64_t dim = n.dimension("dim", ts::rankOf(x));
  if (n.failed())
    return failure();
  Value src = n.has("src")
                  ? withDim(n, n.operand("src", type))
                  : n.broadcastTo(n.operand("value", type), ts::dimsOf(at));
  if (!src)
    return failure();
  // torch takes an index of another rank where it has no elements.
  if (ts::rankOf(at) != ts::rankOf(x) || ts::rankOf(src) != ts::rankOf(at)) {
    x = n.element() ? n.convert(x, n.element()) : x;
    return n.out(n.reshape(x, n.dims()));
  }
  if (n.has("src"))
    src = within(n, src, ts::dimsOf(at));
  return combined(n, x, at, src, dim, kind, mean);
}

/// Slices of `source` and where along a dim of self they belong.
struct IndexedSlices {
  Value self, at, source;
  int64_t dim;
};
std::optional<IndexedSlices> indexedSlices(AtenNode &n, Type type) {
  Value x = withDim(n, n.operand("self", type)),
        at = withDim(n, n.fromFront(n.tensor("index"))),
        src = n.operand("source", type);
  if (!x || !at || !src)
    return std::nullopt;
  int64_t dim = n.dimension("dim", ts::rankOf(x));
  if (n.failed())
    return std::nullopt;
  SmallVector<Dim> dims = ts::dimsOf(x);
  dims[dim] = ts::dimOf(at, 0);
  src = ts::rankOf(src) == 0 ? n.broadcastTo(src, dims) : n.castDims(src, dims);
  return IndexedSlices{x, n.broadcastAt(at, {dim}, dims), src, dim};
}

/// Slices of `source` combined with those of self.
LogicalResult importIndexReduce(AtenNode &n) {
  StringRef name = n.text("reduce");
  bool mean = name == "mean";
  std::optional<K> kind = mean ? std::optional(K::add) : reductionOf(name);
  if (!kind)
    return n.unsupported("the reduction '" + name + "'");
  std::optional<IndexedSlices> slices = indexedSlices(n, combinedIn(n, kind));
  return slices ? combined(n, slices->self, slices->at, slices->source,
                           slices->dim, kind, mean)
                : failure();
}
LogicalResult importScatter(AtenNode &n) {
  StringRef name = n.text("reduce");
  if (name == "mean")
    return scatter(n, K::add, /*mean=*/true);
  std::optional<K> kind;
  if (!name.empty()) {
    kind = reductionOf(name);
    if (!kind)
      return n.unsupported("the reduction '" + name + "'");
  }
  return scatter(n, kind);
}
LogicalResult importScatterAdd(AtenNode &n) { return scatter(n, K::add); }

/// self with alpha * source added, or source put, along a dim.
template <bool adds> LogicalResult importIndexAdd(AtenNode &n) {
  std::optional<K> kind;
  if (adds)
    kind = K::add;
  Type type = combinedIn(n, kind);
  std::optional<IndexedSlices> slices = indexedSlices(n, type);
  if (!slices)
    return failure();
  Value source = slices->source;
  if (adds && n.has("alpha") && n.known("alpha") != 1)
    source = n.mul(source, n.operand("alpha", type));
  return combined(n, slices->self, slices->at, source, slices->dim, kind,
                  /*mean=*/false);
}

/// How many elements fall into each of `bins` ranges from min to max.
LogicalResult importHistogram(AtenNode &n) {
  double low = n.real("min"), high = n.real("max");
  auto bins = n.integer("bins", 100);
  Type type = n.wide();
  if (type && !isa<FloatType>(type))
    type = n.b.getF64Type(); // GPUs count integers too
  Value x = n.operand("self", type);
  if (!x || n.failed())
    return failure();
  if (!(low < high))
    return n.unsupported("bounds that the data gives");
  Type i64 = n.b.getI64Type();
  x = n.reshape(x, {ts::elementCount(x.getType())});
  // In this order, which decides the bin of a number on an edge.
  Value from = n.scalarFor(x, low), to = n.scalarFor(x, high);
  Value at =
      n.div(n.mul(n.sub(x, from), static_cast<double>(bins)), n.sub(to, from));
  at = n.binary<ts::MinOp>(n.make<ts::FloorOp>(at),
                           n.scalarFor(at, static_cast<double>(bins - 1)));
  Value inside = n.binary<ts::AndOp>(
      n.compare(ts::ComparePredicate::ge, x, n.scalarFor(x, low)),
      n.compare(ts::ComparePredicate::le, x, n.scalarFor(x, high)));
  Value index = n.convert(n.select(inside, at, n.scalarFor(at, 0)), i64);
  Value zeros = n.broadcastTo(n.scalar(0, type), {n.dim(bins)});
  Value counts = n.make<ts::ScatterElementsOp>(
      zeros, index, n.convert(inside, type), uint64_t(0), kindOf(n, K::add));
  return n.out(n.convert(counts, n.element()));
}

//===----------------------------------------------------------------------===//
// index and index_put
//===----------------------------------------------------------------------===//

/// self[indices]: the indexed dims in front, and where they go in the result.
struct AtenIndexing {
  SmallVector<int64_t> order; ///< dims of self, the indexed ones first
  SmallVector<Dim> shape;     ///< that the indices broadcast to
  Value places;               ///< [shape.., indexed dims]
  size_t indexed;
  int64_t at; ///< where the shape stands in the result
};

std::optional<AtenIndexing> readIndices(AtenNode &n, Value self) {
  SmallVector<Value> indices = n.tensors("indices");
  AtenIndexing result;
  SmallVector<int64_t> rest;
  SmallVector<Value> given;
  SmallVector<SmallVector<Dim>> shapes;
  bool gap = false, ended = false;
  int64_t rank = ts::rankOf(self), first = -1;
  for (int64_t d = 0; d < rank; ++d) {
    Value index =
        d < static_cast<int64_t>(indices.size()) ? indices[d] : Value();
    if (!index) {
      rest.push_back(d);
      ended |= first >= 0;
      continue;
    }
    if (isa<FloatType>(ts::elementTypeOf(index)) ||
        ts::elementTypeOf(index).isInteger(1) ||
        ts::elementTypeOf(index).isInteger(8)) {
      (void)n.unsupported("indices that are a mask");
      return std::nullopt;
    }
    gap |= ended;
    if (first < 0)
      first = d;
    result.order.push_back(d);
    given.push_back(n.convert(index, n.b.getI64Type()));
    shapes.push_back(ts::dimsOf(index));
  }
  if (given.empty()) {
    (void)n.unsupported("no indices");
    return std::nullopt;
  }
  result.indexed = given.size();
  llvm::append_range(result.order, rest);
  result.shape = n.broadcastDims(shapes);
  SmallVector<Dim> column = result.shape;
  column.push_back(n.dim(1));
  SmallVector<Value> columns;
  for (Value index : given)
    columns.push_back(n.reshape(n.broadcastTo(index, result.shape), column));
  result.places =
      columns.size() == 1
          ? columns[0]
          : n.make<ts::ConcatOp>(ValueRange(columns),
                                 static_cast<int64_t>(result.shape.size()));
  result.at = gap ? 0 : first;
  if (!result.places)
    return std::nullopt;
  return result;
}

/// The result's dims for [shape.., rest..].
SmallVector<int64_t> resultOrder(const AtenIndexing &i, size_t rest) {
  auto shape = static_cast<int64_t>(i.shape.size());
  SmallVector<int64_t> order;
  for (int64_t d = 0; d < i.at; ++d)
    order.push_back(shape + d);
  for (int64_t d = 0; d < shape; ++d)
    order.push_back(d);
  for (auto d = i.at; d < static_cast<int64_t>(rest); ++d)
    order.push_back(shape + d);
  return order;
}

LogicalResult importIndex(AtenNode &n) {
  Value self = n.tensor("self");
  if (!self)
    return failure();
  std::optional<AtenIndexing> i = readIndices(n, self);
  if (!i)
    return failure();
  if (i->indexed == 1) {
    Value at = n.reshape(i->places, i->shape);
    Value y = n.make<ts::GatherOp>(self, at, uint64_t(i->order[0]));
    return n.out(y);
  }
  Value y = n.make<ts::GatherNdOp>(n.transpose(self, i->order), i->places,
                                   uint64_t(0));
  return n.out(n.transpose(y, resultOrder(*i, ts::rankOf(self) - i->indexed)));
}

SmallVector<int64_t> inverse(ArrayRef<int64_t> order) {
  SmallVector<int64_t> back(order.size());
  for (auto [i, dim] : llvm::enumerate(order))
    back[dim] = static_cast<int64_t>(i);
  return back;
}

/// Values of which the run may have none, with a zero behind them: what reads
/// the first one for nothing finds it.
static Value neverEmpty(AtenNode &n, Value values) {
  SmallVector<Dim> dims = ts::dimsOf(values);
  if (dims.front().asConstant())
    return values;
  dims.front() = dims.front().like(1);
  Value zero = n.broadcastTo(n.scalar(0, ts::elementTypeOf(values)), dims);
  return zero ? n.make<ts::ConcatOp>(ValueRange{values, zero}, uint64_t(0))
              : Value();
}

/// self with the values, one after the other, where the mask says.
Value placeWhere(AtenNode &n, Value self, Value mask, Value values) {
  if (!self || !mask || !values)
    return {};
  if (ts::elementCount(values.getType()).isConstant(0))
    return self;
  Type i64 = n.b.getI64Type();
  SmallVector<Dim> dims = ts::dimsOf(self);
  Dim count = ts::elementCount(self.getType());
  Value flat = n.reshape(n.broadcastTo(mask, dims), {count});
  Value place = n.make<ts::ScanOp>(K::add, n.convert(flat, i64), uint64_t(0),
                                   bool(true), bool(false));
  place = n.select(flat, place, n.integerScalar(0, i64));
  Value list = n.reshape(values, {ts::elementCount(values.getType())});
  Value picked = n.make<ts::GatherOp>(neverEmpty(n, list), place, uint64_t(0));
  return n.reshape(n.select(flat, picked, n.reshape(self, {count})), dims);
}

/// self with the values where the mask of its first dims says: one for all, or
/// one after the other.
Value putWhere(AtenNode &n, Value self, Value mask, Value values, bool adds) {
  if (ts::elementCount(values.getType()).isConstant(0))
    return self;
  SmallVector<Dim> dims = ts::dimsOf(self), rows;
  Dim count = ts::elementCount(mask.getType());
  rows.push_back(count);
  rows.append(dims.begin() + ts::rankOf(mask), dims.end());
  Value own = n.reshape(self, rows), flat = n.reshape(mask, {count});
  auto rank = static_cast<int64_t>(rows.size());
  Value picked;
  if (ts::rankOf(values) < rank || ts::dimOf(values, 0).isConstant(1)) {
    picked = n.broadcastTo(values, rows);
  } else {
    SmallVector<Dim> given = rows;
    given.front() = ts::dimOf(values, 0);
    Type i64 = n.b.getI64Type();
    Value place = n.make<ts::ScanOp>(K::add, n.convert(flat, i64), uint64_t(0),
                                     bool(true), bool(false));
    place = n.select(flat, place, n.integerScalar(0, i64));
    picked = n.make<ts::GatherOp>(neverEmpty(n, n.broadcastTo(values, given)),
                                  place, uint64_t(0));
  }
  if (adds)
    picked = n.add(own, picked);
  return n.reshape(n.select(n.broadcastAt(flat, {0}, rows), picked, own), dims);
}

LogicalResult importMaskedScatter(AtenNode &n) {
  Value self = n.operand("self"), mask = n.tensor("mask");
  if (!self || !mask)
    return failure();
  return n.out(placeWhere(n, n.broadcastTo(self, n.dims()),
                          n.convert(mask, n.b.getI1Type()),
                          n.operand("source")));
}

/// Elements of the flat tensor.
LogicalResult importPut(AtenNode &n) {
  std::optional<K> kind;
  if (n.flag("accumulate"))
    kind = K::add;
  Type type = combinedIn(n, kind);
  Value self = n.operand("self", type), at = n.tensor("index"),
        source = n.operand("source", type);
  if (!self || !at || !source)
    return failure();
  Dim count = ts::elementCount(at.getType());
  Value y = n.make<ts::ScatterElementsOp>(
      n.reshape(self, {ts::elementCount(self.getType())}),
      n.reshape(at, {count}), n.reshape(source, {count}), uint64_t(0),
      kind ? kindOf(n, *kind) : ts::ReduceKindAttr());
  y = y && n.element() ? n.convert(y, n.element()) : y;
  return n.out(y ? n.reshape(y, n.dims()) : y);
}

LogicalResult importIndexPut(AtenNode &n) {
  bool adds = n.flag("accumulate");
  std::optional<K> kind;
  if (adds)
    kind = K::add;
  Type type = combinedIn(n, kind);
  Value self = n.operand("self", type), values = n.operand("values", type);
  if (!self || !values)
    return failure();
  SmallVector<Value> indices = n.tensors("indices");
  if (indices.size() == 1 && indices[0] &&
      ts::elementTypeOf(indices[0]).isInteger(1)) {
    Value y = putWhere(n, self, indices[0], values, adds);
    return n.out(y && n.element() ? n.convert(y, n.element()) : y);
  }
  std::optional<AtenIndexing> i = readIndices(n, self);
  if (!i)
    return failure();
  Value front = n.transpose(self, i->order);
  if (!front)
    return failure();
  SmallVector<Dim> frontDims = ts::dimsOf(front), updates = i->shape;
  updates.append(frontDims.begin() + static_cast<int64_t>(i->indexed),
                 frontDims.end());
  SmallVector<int64_t> order = resultOrder(*i, ts::rankOf(self) - i->indexed);
  SmallVector<Dim> whole;
  for (int64_t d : order)
    whole.push_back(updates[d]);
  values = n.transpose(n.broadcastTo(values, whole), inverse(order));
  Value y = n.make<ts::ScatterNdOp>(
      front, i->places, values, kind ? kindOf(n, *kind) : ts::ReduceKindAttr());
  y = y && n.element() ? n.convert(y, n.element()) : y;
  return n.out(y ? n.transpose(y, inverse(i->order)) : y);
}

constexpr AtenRow rows[] = {
    {"aten._unsafe_index.Tensor", importIndex},
    {"aten._unsafe_index_put.default", importIndexPut},
    {"aten.embedding.default", importEmbedding},
    {"aten.embedding_dense_backward.default", importEmbeddingBackward},
    {"aten.gather.default", importGather},
    {"aten.histc.default", importHistogram},
    {"aten.index.Tensor", importIndex},
    {"aten.index_add.default", importIndexAdd<true>},
    {"aten.index_copy.default", importIndexAdd<false>},
    {"aten.index_put.default", importIndexPut},
    {"aten.index_reduce.default", importIndexReduce},
    {"aten.index_select.default", importIndexSelect},
    {"aten.masked_scatter.default", importMaskedScatter},
    {"aten.put.default", importPut},
    {"aten.scatter.reduce", importScatter},
    {"aten.scatter.src", importScatter},
    {"aten.scatter.value", importScatter},
    {"aten.scatter.value_reduce", importScatter},
    {"aten.scatter_add.default", importScatterAdd},
    {"aten.scatter_reduce.two", importScatter},
};

} // namespace

ArrayRef<AtenRow> atenIndexRows() { return rows; }

} // namespace knapper
