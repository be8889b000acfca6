// Pooling.
#include "frontends/onnx/Windows.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// With ceil_mode, pads at the end so that the last, partly filled window
/// counts, unless it would begin in the padding behind the input.
void extendForCeil(Node &n, Windows &w) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  for (size_t i = 0; i < w.window.size(); ++i) {
    Dim size = dims[i + 2], stride = n.dim(w.strides[i]);
    int64_t extent = (w.window[i] - 1) * w.dilations[i] + 1;
    Dim count =
        (size + w.low[i] + w.high[i] - extent).ceilDiv(stride) + 1;
    // The last window begins at (count - 1) * stride in the padded input.
    Dim last = (count - 1) * stride;
    Dim limit = size + w.low[i];
    if (std::optional<int64_t> past = (last - limit).asConstant()) {
      if (*past >= 0)
        last = last - stride;
    } else {
      last = last.min((limit - 1).floorDiv(stride) * stride);
    }
    Dim needed = last + extent - size - w.low[i];
    std::optional<int64_t> more = (needed - w.high[i]).asConstant();
    w.high[i] = more ? (*more > 0 ? needed : w.high[i])
                     : needed.max(w.high[i]);
  }
}

/// Drops what of the windows lies in the padding wherever they stand: exporters
/// write windows far larger than an image.
void clampToImage(Value x, Windows &w) {
  SmallVector<Dim> dims = ts::dimsOf(x);
  for (size_t i = 0; i < w.window.size(); ++i) {
    std::optional<int64_t> size = dims[i + 2].asConstant(),
                           low = w.low[i].asConstant(),
                           high = w.high[i].asConstant();
    int64_t stride = w.strides[i], step = w.dilations[i];
    auto extent = [&](int64_t taps) { return (taps - 1) * step + 1; };
    if (!size || *size < 1 || !low || *low < 0 || !high ||
        *size + *low + *high < extent(w.window[i]))
      continue;
    auto windows = [&](int64_t low, int64_t high, int64_t taps) {
      return (*size + low + high - extent(taps)) / stride + 1;
    };
    int64_t count = windows(*low, *high, w.window[i]);
    int64_t before = std::max<int64_t>(*low - (count - 1) * stride, 0);
    int64_t first = llvm::divideCeil(before, step);
    int64_t last = std::min(w.window[i] - 1, (*size - 1 + *low) / step);
    int64_t taps = last - first + 1, start = *low - first * step;
    int64_t end = std::max<int64_t>((count - 1) * stride +
                                        extent(std::max<int64_t>(taps, 1)) -
                                        *size - start,
                                    0);
    if (taps < 1 || taps == w.window[i] || start < 0 ||
        *size + start + end < extent(taps) ||
        windows(start, end, taps) != count)
      continue;
    w.window[i] = taps;
    w.low[i] = dims[i + 2].like(start);
    w.high[i] = dims[i + 2].like(end);
  }
}

/// Whether one window is all of the image.
bool isWhole(Value x, const Windows &w) {
  SmallVector<Dim> dims = ts::dimsOf(x);
  for (size_t i = 0; i < w.window.size(); ++i)
    if (!dims[i + 2].isConstant(w.window[i]) || w.dilations[i] != 1 ||
        !w.low[i].isConstant(0) || !w.high[i].isConstant(0))
      return false;
  return true;
}

Value pool(Node &n, ts::PoolKind kind, Value x, Windows w, bool countPadding) {
  MLIRContext *context = n.importer.context;
  if (!countPadding)
    clampToImage(x, w);
  if (isWhole(x, w)) {
    auto axes = llvm::to_vector(
        llvm::seq<int64_t>(2, 2 + static_cast<int64_t>(w.window.size())));
    if (kind == ts::PoolKind::average)
      return n.mean(x, axes, true);
    return n.reduce(kind == ts::PoolKind::max ? ts::ReduceKind::max
                                              : ts::ReduceKind::add,
                    x, axes, true);
  }
  return n.make<ts::PoolOp>(
      kind, x, ArrayRef<int64_t>(w.window),
      ArrayRef<int64_t>(w.strides),
      ArrayRef<int64_t>(w.dilations), ts::dimArray(context, w.low),
      ts::dimArray(context, w.high), bool(countPadding),
      bool(false));
}

std::optional<Windows> poolWindows(Node &n) {
  SmallVector<int64_t> window = n.integers("kernel_shape");
  if (window.empty()) {
    (void)n.fail("has no kernel_shape", "give the window's sizes");
    return std::nullopt;
  }
  return readWindows(n, window);
}

/// Where the largest element of each window lies: its place among all elements
/// of the input, row-major or (`columnMajor`) with the first spatial dim
/// fastest.
Value poolIndices(Node &n, const Windows &w, ArrayRef<Dim> out,
                  bool columnMajor) {
  using P = ts::ComparePredicate;
  Type i64 = n.b.getI64Type();
  SmallVector<Dim> x = ts::dimsOf(n[0]);
  size_t spatial = w.window.size();
  Dim planes = x[0] * x[1], area = n.dim(1), count = n.dim(1);
  int64_t taps = 1;
  for (size_t i = 0; i < spatial; ++i) {
    area = area * x[i + 2];
    count = count * out[i + 2];
    taps *= w.window[i];
  }
  // The place of element `tap` of window `at` (both tensors of indices) in its
  // plane; `inside` is whether there is one.
  auto placeOf = [&](Value at, Value tap, bool columns, Value *inside) {
    Value place;
    Dim step = n.dim(1);
    SmallVector<Value> position(spatial);
    for (size_t i = spatial; i-- > 0;) {
      Value size = n.sizeScalar(out[i + 2], i64),
            window = n.integerScalar(w.window[i], i64);
      Value start = n.sub(n.mul(n.binary<ts::ModOp>(at, size),
                                n.integerScalar(w.strides[i], i64)),
                          n.sizeScalar(w.low[i], i64));
      position[i] = n.add(start, n.mul(n.binary<ts::ModOp>(tap, window),
                                       n.integerScalar(w.dilations[i], i64)));
      at = n.div(at, size);
      tap = n.div(tap, window);
      if (!inside)
        continue;
      Value within = n.binary<ts::AndOp>(
          n.compare(P::ge, position[i], n.integerScalar(0, i64)),
          n.compare(P::lt, position[i], n.sizeScalar(x[i + 2], i64)));
      *inside = *inside ? n.binary<ts::AndOp>(*inside, within) : within;
    }
    for (size_t j = 0; j < spatial; ++j) {
      size_t i = columns ? j : spatial - 1 - j;
      Value term = n.mul(position[i], n.sizeScalar(step, i64));
      place = place ? n.add(place, term) : term;
      step = step * x[i + 2];
    }
    return place;
  };
  RankedTensorType grid = n.type({count, n.dim(taps)}, i64);
  Value inside;
  Value window = n.makeAs<ts::IotaOp>(grid, uint64_t(0)),
        tap = n.makeAs<ts::IotaOp>(grid, uint64_t(1));
  Value from = placeOf(window, tap, false, &inside);
  Value index = n.select(inside, from, n.integerScalar(0, i64));
  Value flat = n.reshape(n[0], {planes, area});
  Value elements = n.make<ts::GatherOp>(flat, index, uint64_t(1));
  if (!elements)
    return {};
  Type element = ts::elementTypeOf(elements);
  Value least =
      isa<FloatType>(element)
          ? n.scalar(-std::numeric_limits<double>::infinity(), element)
          : n.integerScalar(
                element.isUnsignedInteger()
                    ? 0
                    : llvm::minIntN(element.getIntOrFloatBitWidth()),
                element);
  elements = n.select(n.broadcastAt(inside, {1, 2}, ts::dimsOf(elements)),
                      elements, least);
  // [planes, count]
  Value best = n.make<ts::ArgReduceOp>(ts::ReduceKind::max, elements,
                                       uint64_t(2), bool(false));
  RankedTensorType type = n.type({planes, count}, i64);
  Value at = n.makeAs<ts::IotaOp>(type, uint64_t(1)),
        plane = n.makeAs<ts::IotaOp>(type, uint64_t(0));
  Value place = placeOf(at, best, columnMajor, nullptr);
  return n.reshape(n.add(n.mul(plane, n.sizeScalar(area, i64)), place), out);
}

LogicalResult importMaxPool(Node &n) {
  std::optional<Windows> w = poolWindows(n);
  if (!w)
    return failure();
  if (n.flag("ceil_mode", false))
    extendForCeil(n, *w);
  clampToImage(n[0], *w);
  Value y = pool(n, ts::PoolKind::max, n[0], *w, false);
  if (failed(n.out(y)))
    return failure();
  return n.wants(1) ? n.out(poolIndices(n, *w, ts::dimsOf(y),
                                        n.flag("storage_order", false)),
                            1)
                    : mlir::success();
}

/// The elements at the places that MaxPool gave, zeros elsewhere.
LogicalResult importMaxUnpool(Node &n) {
  SmallVector<int64_t> window = n.integers("kernel_shape");
  std::optional<Windows> w = readWindows(n, window);
  if (!w)
    return failure();
  if (ts::rankOf(n[1]) != ts::rankOf(n[0]))
    return n.fail("values and indices differ in rank", "give an index a value");
  SmallVector<Dim> x = ts::dimsOf(n[0]), whole{x[0], x[1]};
  for (size_t i = 0; i < window.size(); ++i)
    whole.push_back((x[i + 2] - 1) * w->strides[i] + window[i] - w->low[i] -
                    w->high[i]);
  Dim count = ts::elementCount(n[0].getType());
  Value at =
      n.convert(n.reshape(n.castDims(n[1], x), {count}), n.b.getI64Type());
  Value zeros = n.broadcastTo(n.scalarFor(n[0], 0),
                              {ts::product(n.importer.context, whole)});
  Value y = n.reshape(
      n.make<ts::ScatterElementsOp>(zeros, at, n.reshape(n[0], {count}),
                                    uint64_t(0), ts::ReduceKindAttr()),
      whole);
  if (!n.has(2))
    return n.out(y);
  std::optional<SmallVector<Dim>> wanted = n.sizes(n[2], "output_shape");
  if (!wanted || !y)
    return failure();
  if (wanted->size() != whole.size())
    return n.fail("output_shape has " + Twine(wanted->size()) + " sizes",
                  "give a size a dim");
  // More room than the windows need is zeros at the end.
  SmallVector<Dim> low(whole.size(), n.dim(0)), high;
  for (auto [size, want] : llvm::zip(whole, *wanted)) {
    high.push_back(want - size);
    std::optional<int64_t> more = high.back().asConstant();
    if (more ? *more < 0 : !n.importer.assumeAtLeast(high.back(), 0))
      return n.fail("output_shape holds " + want.str() + " for " + size.str(),
                    "give at least what the windows cover");
  }
  MLIRContext *context = n.importer.context;
  return n.out(n.make<ts::PadOp>(
      y, Optional{n.scalarFor(y, 0)}, ts::dimArray(context, low),
      ts::dimArray(context, high), ts::PadMode::constant));
}

/// Pads with zeros, which then count like the input's own elements.
Value padSpatial(Node &n, Value x, Windows &w) {
  SmallVector<Dim> low(2, n.dim(0)), high(2, n.dim(0));
  llvm::append_range(low, w.low);
  llvm::append_range(high, w.high);
  MLIRContext *context = n.importer.context;
  Value padded = n.make<ts::PadOp>(
      x, Optional{n.scalarFor(x, 0)}, ts::dimArray(context, low),
      ts::dimArray(context, high), ts::PadMode::constant);
  w.low.assign(w.low.size(), n.dim(0));
  w.high.assign(w.high.size(), n.dim(0));
  return padded;
}

LogicalResult importAveragePool(Node &n) {
  std::optional<Windows> w = poolWindows(n);
  if (!w)
    return failure();
  bool count = n.flag("count_include_pad", false);
  if (!n.flag("ceil_mode", false))
    return n.out(pool(n, ts::PoolKind::average, n[0], *w, count));
  Windows extended = *w;
  extendForCeil(n, extended);
  if (!count)
    return n.out(pool(n, ts::PoolKind::average, n[0], extended, false));
  // The declared padding counts, what ceil_mode adds does not.
  for (size_t i = 0; i < w->window.size(); ++i) {
    extended.high[i] = extended.high[i] - w->high[i];
    extended.low[i] = n.dim(0);
  }
  Value padded = padSpatial(n, n[0], *w);
  return n.out(pool(n, ts::PoolKind::average, padded, extended, false));
}

/// A float in the first opset.
double exponentOf(Node &n) {
  return n.opset < 2 ? n.real("p", 2) : static_cast<double>(n.integer("p", 2));
}

/// (sum of |x|^p)^(1/p) over windows; padding adds nothing.
LogicalResult importLpPool(Node &n) {
  std::optional<Windows> w = poolWindows(n);
  if (!w)
    return failure();
  if (n.flag("ceil_mode", false))
    extendForCeil(n, *w);
  double p = exponentOf(n);
  if (p < 1)
    return n.fail("p is " + Twine(static_cast<int64_t>(p)), "give a positive number");
  Value powers = n.binary<ts::PowOp>(n.make<ts::AbsOp>(n[0]),
                                     n.scalarFor(n[0], p));
  Value sum = powers ? pool(n, ts::PoolKind::sum, powers, *w, false) : Value();
  return n.out(n.binary<ts::PowOp>(sum, n.scalarFor(n[0], 1 / p)));
}

/// Axes from the third on; nothing and an error when there are none.
std::optional<SmallVector<int64_t>> spatialAxes(Node &n) {
  int64_t rank = ts::rankOf(n[0]);
  if (rank < 3) {
    (void)n.fail("needs spatial dims, has " + ts::shapeText(n[0].getType()),
                 "give an input of rank 3 or more");
    return std::nullopt;
  }
  return llvm::to_vector(llvm::seq<int64_t>(2, rank));
}

LogicalResult importGlobalAveragePool(Node &n) {
  std::optional<SmallVector<int64_t>> axes = spatialAxes(n);
  if (!axes)
    return failure();
  return n.out(n.mean(n[0], *axes, true));
}

LogicalResult importGlobalMaxPool(Node &n) {
  std::optional<SmallVector<int64_t>> axes = spatialAxes(n);
  if (!axes)
    return failure();
  return n.out(n.reduce(ts::ReduceKind::max, n[0], *axes, true));
}

LogicalResult importGlobalLpPool(Node &n) {
  std::optional<SmallVector<int64_t>> axes = spatialAxes(n);
  double p = exponentOf(n);
  if (!axes || p < 1)
    return axes ? n.fail("p is " + Twine(static_cast<int64_t>(p)), "give a positive number")
                : failure();
  Value powers = n.binary<ts::PowOp>(n.make<ts::AbsOp>(n[0]),
                                     n.scalarFor(n[0], p));
  return n.out(n.binary<ts::PowOp>(
      n.reduce(ts::ReduceKind::add, powers, *axes, true),
      n.scalarFor(n[0], 1 / p)));
}

constexpr OpRow rows[] = {
    {"", "AveragePool", 1, 1, 1, importAveragePool},
    {"", "GlobalAveragePool", 1, 1, 1, importGlobalAveragePool},
    {"", "GlobalLpPool", 1, 1, 1, importGlobalLpPool},
    {"", "GlobalMaxPool", 1, 1, 1, importGlobalMaxPool},
    {"", "LpPool", 1, 1, 1, importLpPool},
    {"", "MaxPool", 1, 1, 1, importMaxPool},
    {"", "MaxUnpool", 9, 2, 3, importMaxUnpool},
};

} // namespace

ArrayRef<OpRow> poolRows() { return rows; }

} // namespace knapper
