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

Value pool(Node &n, ts::PoolKind kind, Value x, const Windows &w,
           bool countPadding) {
  MLIRContext *context = n.importer.context;
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

LogicalResult importMaxPool(Node &n) {
  if (n.wants(1))
    return n.unsupported("its result Indices");
  std::optional<Windows> w = poolWindows(n);
  if (!w)
    return failure();
  if (n.integer("ceil_mode", 0))
    extendForCeil(n, *w);
  return n.out(pool(n, ts::PoolKind::max, n[0], *w, false));
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
  bool count = n.integer("count_include_pad", 0);
  if (!n.integer("ceil_mode", 0))
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
  if (n.integer("ceil_mode", 0))
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
};

} // namespace

ArrayRef<OpRow> poolRows() { return rows; }

} // namespace knapper
