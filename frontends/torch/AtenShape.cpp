// Views, copies and what else moves elements.
#include "frontends/torch/AtenNode.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// The same elements with the dims that torch says.
LogicalResult importReshape(AtenNode &n) {
  return n.out(n.reshape(n.tensor("self"), n.dims()));
}

/// The elements, in another type where torch says so.
LogicalResult importCopy(AtenNode &n) { return n.out(n.operand("self")); }

LogicalResult importConvert(AtenNode &n) { return n.out(n.operand("a")); }

/// src in the shape and type of self.
LogicalResult importCopyFrom(AtenNode &n) {
  return n.out(n.broadcastTo(n.operand("src"), n.dims()));
}

LogicalResult importExpand(AtenNode &n) {
  return n.out(n.broadcastTo(n.tensor("self"), n.dims()));
}

LogicalResult importPermute(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  SmallVector<int64_t> order;
  for (int64_t dim : n.integers("dims"))
    order.push_back(n.normalAxis(dim, ts::rankOf(x)));
  return n.failed() ? failure() : n.out(n.transpose(x, order));
}

Value swapped(AtenNode &n, Value x, int64_t a, int64_t b) {
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, ts::rankOf(x)));
  std::swap(order[a], order[b]);
  return n.transpose(x, order);
}

LogicalResult importTranspose(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  int64_t rank = ts::rankOf(x), a = n.dimension("dim0", rank),
          b = n.dimension("dim1", rank);
  if (n.failed())
    return failure();
  return n.out(rank ? swapped(n, x, a, b) : x);
}

LogicalResult importT(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  return n.out(ts::rankOf(x) < 2 ? x : swapped(n, x, 0, 1));
}

/// The parts of a dim, as large as torch says; `drops` takes the dim away.
template <bool drops> LogicalResult importParts(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  int64_t dim = n.dimension("dim", ts::rankOf(x));
  if (n.failed())
    return failure();
  Dim start = n.dim(0);
  for (size_t i = 0; i < n.resultCount(); ++i) {
    Dim count = drops ? n.dim(1) : n.dims(i)[dim];
    Value part = n.sliceDim(x, dim, start, count);
    if (failed(n.out(drops ? n.reshape(part, n.dims(i)) : part, i)))
      return failure();
    start = start + count;
  }
  return mlir::success();
}

/// Dims of size [0], which torch lets join anything, are left out.
SmallVector<Value> joined(AtenNode &n) {
  SmallVector<Value> parts;
  for (Value value : n.tensors("tensors")) {
    if (!value)
      return {};
    if (ts::rankOf(value) == 1 && n.dims().size() != 1 &&
        ts::dimOf(value, 0).isConstant(0))
      continue;
    parts.push_back(n.convert(value, n.element()));
  }
  return parts;
}

LogicalResult importCat(AtenNode &n) {
  SmallVector<Value> parts = joined(n);
  auto rank = static_cast<int64_t>(n.dims().size());
  int64_t dim = n.dimension("dim", rank);
  if (n.failed())
    return failure();
  if (parts.empty())
    return n.out(n.broadcastTo(n.scalar(0, n.element()), n.dims()));
  for (Value &part : parts) {
    SmallVector<Dim> dims(n.dims());
    dims[dim] = ts::dimOf(part, dim);
    part = n.castDims(part, dims);
  }
  if (parts.size() == 1)
    return n.out(parts[0]);
  return n.out(n.make<ts::ConcatOp>(ValueRange(parts), dim));
}

LogicalResult importStack(AtenNode &n) {
  auto rank = static_cast<int64_t>(n.dims().size());
  int64_t dim = n.dimension("dim", rank);
  SmallVector<Value> parts;
  SmallVector<Dim> dims(n.dims());
  if (n.failed() || dims.empty())
    return failure();
  dims[dim] = n.dim(1);
  for (Value value : n.tensors("tensors"))
    parts.push_back(
        n.reshape(value ? n.convert(value, n.element()) : value, dims));
  if (parts.size() == 1)
    return n.out(parts[0]);
  return n.out(n.make<ts::ConcatOp>(ValueRange(parts), dim));
}

LogicalResult importRepeat(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  SmallVector<Dim> repeats = n.sizes("repeats"), dims = ts::dimsOf(x);
  if (repeats.size() < dims.size())
    return n.fail("has fewer repeats than dims");
  dims.insert(dims.begin(), repeats.size() - dims.size(), n.dim(1));
  x = n.reshape(x, dims);
  SmallVector<Dim> wide;
  SmallVector<int64_t> at;
  for (auto [dim, count] : llvm::zip(dims, repeats)) {
    if (!count.isConstant(1))
      wide.push_back(count);
    at.push_back(static_cast<int64_t>(wide.size()));
    wide.push_back(dim);
  }
  return n.out(n.reshape(n.broadcastAt(x, at, wide), n.dims()));
}

/// From the last element to the first.
Value reversed(AtenNode &n, Value x, ArrayRef<int64_t> dims) {
  if (!x)
    return {};
  SmallVector<Dim> starts(ts::rankOf(x), n.dim(0));
  SmallVector<int64_t> steps(starts.size(), 1);
  for (int64_t dim : dims) {
    if (ts::dimOf(x, dim).isConstant(0))
      return x;
    starts[dim] = ts::dimOf(x, dim) - 1;
    steps[dim] = -1;
  }
  return n.makeAs<ts::SliceOp>(cast<RankedTensorType>(x.getType()), x,
                               ts::dimArray(n.shared.context, starts), steps);
}

LogicalResult importFlip(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  SmallVector<int64_t> given = n.integers("dims");
  if (given.empty() || ts::rankOf(x) == 0)
    return n.out(x);
  return n.out(reversed(n, x, n.normalAxes(given, ts::rankOf(x))));
}

LogicalResult importRoll(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  SmallVector<Dim> shifts = n.sizes("shifts");
  SmallVector<int64_t> dims = n.integers("dims");
  SmallVector<Dim> own = ts::dimsOf(x);
  bool flat = dims.empty();
  if (flat) {
    x = n.reshape(x, {ts::elementCount(x.getType())});
    dims.push_back(0);
  }
  for (auto [shift, given] : llvm::zip(shifts, dims)) {
    if (!x)
      return failure();
    if (ts::rankOf(x) == 0)
      continue;
    int64_t dim = n.normalAxis(given, ts::rankOf(x));
    if (n.failed())
      return failure();
    Dim size = ts::dimOf(x, dim);
    if (size.isConstant(0))
      continue;
    // The last `moved` elements come first.
    Dim moved = shift.mod(size);
    if (moved.isConstant(0))
      continue;
    Value tail = n.sliceDim(x, dim, size - moved, moved),
          head = n.sliceDim(x, dim, n.dim(0), size - moved);
    SmallVector<Dim> dims = ts::dimsOf(x);
    x = n.castDims(n.make<ts::ConcatOp>(ValueRange{tail, head}, dim), dims);
  }
  return n.out(flat ? n.reshape(x, own) : x);
}

/// Pads by an entry pair a dim, the last dim first; negative ones cut.
Value padded(AtenNode &n, Value x, ts::PadMode mode, Value value) {
  if (!x)
    return {};
  SmallVector<Dim> pads = n.sizes(n.has("pad") ? "pad" : "padding");
  int64_t rank = ts::rankOf(x);
  SmallVector<Dim> low(rank, n.dim(0)), high = low, begin = low, end = low;
  for (size_t i = 0; i + 1 < pads.size(); i += 2) {
    int64_t dim = rank - 1 - static_cast<int64_t>(i / 2);
    if (dim < 0) {
      (void)n.fail("has more pads than dims");
      return {};
    }
    auto least = [&](Dim pad) { return pad.asConstant().value_or(0); };
    Dim cutLow = n.dim(std::max<int64_t>(-least(pads[i]), 0)),
        cutHigh = n.dim(std::max<int64_t>(-least(pads[i + 1]), 0));
    low[dim] = pads[i] + cutLow;
    high[dim] = pads[i + 1] + cutHigh;
    begin[dim] = cutLow, end[dim] = cutHigh;
  }
  // What is cut on one side may be what the other side repeats.
  MLIRContext *context = n.shared.context;
  x = n.make<ts::PadOp>(x, Optional{value}, ts::dimArray(context, low),
                        ts::dimArray(context, high), mode);
  for (int64_t dim = 0; x && dim < rank; ++dim)
    if (!begin[dim].isConstant(0) || !end[dim].isConstant(0))
      x = n.sliceDim(x, dim, begin[dim],
                     ts::dimOf(x, dim) - begin[dim] - end[dim]);
  return x;
}

LogicalResult importConstantPad(AtenNode &n) {
  return n.out(
      padded(n, n.tensor("self"), ts::PadMode::constant, n.operand("value")));
}
template <ts::PadMode mode> LogicalResult importPad(AtenNode &n) {
  return n.out(padded(n, n.tensor("self"), mode, {}));
}

/// A size of an as_strided or a diagonal as an i64 tensor along a dim.
Value along(AtenNode &n, ArrayRef<Dim> dims, int64_t dim, Dim stride) {
  Type i64 = n.b.getI64Type();
  return n.mul(n.makeAs<ts::IotaOp>(n.type(dims, i64), uint64_t(dim)),
               n.sizeScalar(stride, i64));
}

/// Elements of the memory that `self` lies in; it is dense, which the caller
/// says with `storage`, the order of its dims.
Value memoryOf(AtenNode &n, Value x) {
  if (!x)
    return {};
  if (n.has("storage")) {
    SmallVector<int64_t> order = n.integers("storage");
    x = n.transpose(x, order);
  }
  return x ? n.reshape(x, {ts::elementCount(x.getType())}) : x;
}

Value placesIn(AtenNode &n) {
  Type i64 = n.b.getI64Type();
  SmallVector<Dim> size = n.sizes("size"), stride = n.sizes("stride");
  Value place = n.broadcastTo(
      n.sizeScalar(
          n.has("storage_offset") ? n.size("storage_offset") : n.dim(0), i64),
      size);
  for (auto [i, step] : llvm::enumerate(stride))
    if (!step.isConstant(0) && place)
      place = n.add(place, along(n, size, static_cast<int64_t>(i), step));
  return place;
}

LogicalResult importAsStrided(AtenNode &n) {
  if (!n.has("storage"))
    return n.unsupported("as_strided of memory that is not dense");
  Value memory = memoryOf(n, n.tensor("self")), place = placesIn(n);
  if (!memory || !place)
    return failure();
  Dim count = ts::elementCount(place.getType());
  Value flat =
      n.make<ts::GatherOp>(memory, n.reshape(place, {count}), uint64_t(0));
  return n.out(n.reshape(flat, n.dims()));
}

/// Memory with `src` in the places of the view.
LogicalResult importAsStridedScatter(AtenNode &n) {
  Value self = n.tensor("self"), src = n.operand("src");
  if (!n.has("storage"))
    return n.unsupported("as_strided_scatter of memory that is not dense");
  Value memory = memoryOf(n, self), place = placesIn(n);
  if (!memory || !place || !src)
    return failure();
  Dim count = ts::elementCount(place.getType());
  Value y = n.make<ts::ScatterElementsOp>(
      memory, n.reshape(place, {count}),
      n.reshape(n.broadcastTo(src, ts::dimsOf(place)), {count}), uint64_t(0),
      ts::ReduceKindAttr());
  SmallVector<int64_t> order = n.integers("storage"), back(order.size());
  SmallVector<Dim> inMemory;
  for (auto [i, dim] : llvm::enumerate(order)) {
    inMemory.push_back(ts::dimOf(self, dim));
    back[dim] = static_cast<int64_t>(i);
  }
  return n.out(n.transpose(n.reshape(y, inMemory), back));
}

LogicalResult importDiagonal(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  int64_t rank = ts::rankOf(x), a = n.dimension("dim1", rank),
          b = n.dimension("dim2", rank), offset = n.integer("offset");
  if (n.failed())
    return failure();
  SmallVector<int64_t> order;
  for (int64_t d = 0; d < rank; ++d)
    if (d != a && d != b)
      order.push_back(d);
  order.push_back(a);
  order.push_back(b);
  x = n.transpose(x, order);
  SmallVector<Dim> dims = ts::dimsOf(x);
  Dim width = dims[rank - 1], length = n.dims().back();
  Dim rows = dims[rank - 2];
  SmallVector<Dim> flat(dims.begin(), dims.end() - 2);
  flat.push_back(rows * width);
  Type i64 = n.b.getI64Type();
  Value place =
      n.add(along(n, {length}, 0, width + 1),
            n.sizeScalar(offset >= 0 ? n.dim(offset) : width * -offset, i64));
  return n.out(
      n.make<ts::GatherOp>(n.reshape(x, flat), place, uint64_t(rank - 2)));
}

/// Keeps what lies on one side of a diagonal.
template <ts::ComparePredicate keeps> LogicalResult triangle(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  SmallVector<Dim> dims = ts::dimsOf(x);
  Type i64 = n.b.getI64Type();
  SmallVector<Dim> plane{dims[dims.size() - 2], dims.back()};
  Value row = n.makeAs<ts::IotaOp>(n.type(plane, i64), uint64_t(0)),
        column = n.makeAs<ts::IotaOp>(n.type(plane, i64), uint64_t(1));
  Value kept = n.compare(
      keeps, n.sub(column, row),
      n.sizeScalar(n.has("diagonal") ? n.size("diagonal") : n.dim(0), i64));
  return n.out(n.select(n.broadcastTo(kept, dims), x, n.scalarFor(x, 0)));
}

LogicalResult importUnfold(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x)
    return failure();
  int64_t rank = ts::rankOf(x), dim = n.dimension("dimension", rank),
          step = n.integer("step", 1);
  if (n.failed())
    return failure();
  if (rank == 0)
    return n.out(n.broadcastTo(x, n.dims()));
  Dim windows = n.dims()[dim], size = n.dims().back();
  SmallVector<Dim> grid{windows, size};
  Value place =
      n.add(along(n, grid, 0, n.dim(step)), along(n, grid, 1, n.dim(1)));
  Value parts = n.make<ts::GatherOp>(x, place, uint64_t(dim));
  if (!parts)
    return failure();
  // [.., windows, size, ..] to [.., windows, .., size]
  SmallVector<int64_t> order;
  for (int64_t d = 0; d <= rank; ++d)
    if (d != dim + 1)
      order.push_back(d);
  order.push_back(dim + 1);
  return n.out(n.transpose(parts, order));
}

LogicalResult importPixelShuffle(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x || ts::rankOf(x) < 3)
    return failure();
  Dim s = n.dim(n.integer("upscale_factor", 1));
  SmallVector<Dim> d = ts::dimsOf(x), split(d.begin(), d.end() - 3);
  auto batch = static_cast<int64_t>(split.size());
  Dim channels = n.dims()[batch];
  split.append({channels, s, s, d[batch + 1], d[batch + 2]});
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, batch + 1));
  order.append({batch + 3, batch + 1, batch + 4, batch + 2});
  return n.out(n.reshape(n.transpose(n.reshape(x, split), order), n.dims()));
}

constexpr AtenRow rows[] = {
    {"aten._conj.default", importCopy},
    {"aten._to_copy.default", importCopy},
    {"aten._unsafe_view.default", importReshape},
    {"aten.alias.default", importCopy},
    {"aten.alias_copy.default", importCopy},
    {"aten.as_strided.default", importAsStrided},
    {"aten.as_strided_copy.default", importAsStrided},
    {"aten.as_strided_scatter.default", importAsStridedScatter},
    {"aten.cat.default", importCat},
    {"aten.clone.default", importCopy},
    {"aten.constant_pad_nd.default", importConstantPad},
    {"aten.copy.default", importCopyFrom},
    {"aten.detach.default", importCopy},
    {"aten.detach_copy.default", importCopy},
    {"aten.diagonal.default", importDiagonal},
    {"aten.diagonal_copy.default", importDiagonal},
    {"aten.expand.default", importExpand},
    {"aten.expand_copy.default", importExpand},
    {"aten.flip.default", importFlip},
    {"aten.lift_fresh_copy.default", importCopy},
    {"aten.permute.default", importPermute},
    {"aten.permute_copy.default", importPermute},
    {"aten.pixel_shuffle.default", importPixelShuffle},
    {"aten.reflection_pad1d.default", importPad<ts::PadMode::reflect>},
    {"aten.reflection_pad2d.default", importPad<ts::PadMode::reflect>},
    {"aten.reflection_pad3d.default", importPad<ts::PadMode::reflect>},
    {"aten.repeat.default", importRepeat},
    {"aten.replication_pad1d.default", importPad<ts::PadMode::edge>},
    {"aten.replication_pad2d.default", importPad<ts::PadMode::edge>},
    {"aten.replication_pad3d.default", importPad<ts::PadMode::edge>},
    {"aten.reshape.default", importReshape},
    {"aten.roll.default", importRoll},
    {"aten.split.Tensor", importParts<false>},
    {"aten.split_copy.Tensor", importParts<false>},
    {"aten.split_with_sizes.default", importParts<false>},
    {"aten.split_with_sizes_copy.default", importParts<false>},
    {"aten.squeeze.default", importReshape},
    {"aten.squeeze.dim", importReshape},
    {"aten.squeeze.dims", importReshape},
    {"aten.squeeze_copy.default", importReshape},
    {"aten.squeeze_copy.dim", importReshape},
    {"aten.squeeze_copy.dims", importReshape},
    {"aten.stack.default", importStack},
    {"aten.t.default", importT},
    {"aten.t_copy.default", importT},
    {"aten.transpose.int", importTranspose},
    {"aten.transpose_copy.int", importTranspose},
    {"aten.tril.default", triangle<ts::ComparePredicate::le>},
    {"aten.triu.default", triangle<ts::ComparePredicate::ge>},
    {"aten.unbind.int", importParts<true>},
    {"aten.unbind_copy.int", importParts<true>},
    {"aten.unfold.default", importUnfold},
    {"aten.unfold_copy.default", importUnfold},
    {"aten.unsqueeze.default", importReshape},
    {"aten.unsqueeze_copy.default", importReshape},
    {"aten.view.default", importReshape},
    {"aten.view_copy.default", importReshape},
    {"prims.convert_element_type.default", importConvert},
    {"prims.copy_strided.default", importConvert},
};

} // namespace

ArrayRef<AtenRow> atenShapeRows() { return rows; }

} // namespace knapper
