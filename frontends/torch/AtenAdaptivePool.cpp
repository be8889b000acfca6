// Averages and largest elements of windows whose sizes differ by one.
#include "frontends/common/Windows.h"
#include "frontends/torch/AtenNode.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using K = ts::ReduceKind;

/// Windows along a dim: window i goes from floor(i * size / out) to
/// ceil((i + 1) * size / out). Tensors of i64 and bool.
struct AdaptiveWindows {
  Dim longest;
  Value length; ///< [out]
  Value inside; ///< [out, longest]: whether the window has this element
  Value place;  ///< [out, longest]: where it lies; its first where it has not
};

AdaptiveWindows windowsOf(AtenNode &n, Dim size, Dim out) {
  Type i64 = n.b.getI64Type();
  AdaptiveWindows w;
  Value window = n.makeAs<ts::IotaOp>(n.type({out}, i64), uint64_t(0)),
        elements = n.sizeScalar(size, i64), windows = n.sizeScalar(out, i64);
  Value start = n.div(n.mul(window, elements), windows);
  Value next = n.mul(n.add(window, n.integerScalar(1, i64)), elements);
  Value end = n.div(n.add(next, n.sizeScalar(out - 1, i64)), windows);
  w.length = n.sub(end, start);
  w.longest = size.ceilDiv(out) + 1;
  if (size.asConstant() && out.asConstant()) {
    int64_t most = 0, all = *size.asConstant(), count = *out.asConstant();
    for (int64_t i = 0; i < count; ++i)
      most = std::max<int64_t>(most, llvm::divideCeil((i + 1) * all, count) -
                                         i * all / count);
    w.longest = n.dim(most);
  }
  SmallVector<Dim> grid{out, w.longest};
  Value tap = n.makeAs<ts::IotaOp>(n.type(grid, i64), uint64_t(1));
  w.inside = n.compare(ts::ComparePredicate::lt, tap,
                       n.broadcastAt(w.length, {0}, grid));
  w.place = n.add(n.broadcastAt(start, {0}, grid),
                  n.select(w.inside, tap, n.integerScalar(0, i64)));
  return w;
}

/// The average of windows along a dim.
Value adaptiveAverage(AtenNode &n, Value x, int64_t dim, Dim size, Dim out) {
  AdaptiveWindows w = windowsOf(n, size, out);
  Value parts = n.make<ts::GatherOp>(x, w.place, uint64_t(dim));
  if (!parts)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(parts);
  Value kept = n.select(n.broadcastAt(w.inside, {dim, dim + 1}, dims), parts,
                        n.scalarFor(parts, 0));
  Value sum = n.reduce(K::add, kept, {dim + 1}, false);
  if (!sum)
    return {};
  Value count = n.convert(w.length, ts::elementTypeOf(sum));
  return n.div(sum, n.broadcastAt(count, {dim}, ts::dimsOf(sum)));
}

template <int spatial> LogicalResult importAdaptiveAverage(AtenNode &n) {
  Value x = n.operand("self", n.wide());
  if (!x)
    return failure();
  int64_t rank = ts::rankOf(x);
  for (int64_t d = rank - spatial; d < rank; ++d) {
    Dim size = ts::dimOf(x, d), out = n.dims()[d];
    if (size == out)
      continue;
    if (std::optional<Dim> window = size.exactDiv(out)) {
      SmallVector<Dim> split = ts::dimsOf(x);
      split[d] = out;
      split.insert(split.begin() + d + 1, *window);
      x = n.mean(n.reshape(x, split), {d + 1}, false);
    } else {
      x = adaptiveAverage(n, x, d, size, out);
    }
    if (!x)
      return failure();
  }
  return n.out(x);
}

template <int spatial> LogicalResult importAdaptiveMax(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x || ts::rankOf(x) <= spatial)
    return failure();
  SmallVector<Dim> dims = ts::dimsOf(x), outs(n.dims());
  int64_t front = static_cast<int64_t>(dims.size()) - spatial;
  Type element = ts::elementTypeOf(x), i64 = n.b.getI64Type();
  if (llvm::any_of(ArrayRef(outs).drop_front(front),
                   [](Dim out) { return out.isConstant(0); })) {
    if (failed(n.out(n.broadcastTo(n.scalar(0, element), n.dims()))))
      return failure();
    return n.out(n.broadcastTo(n.integerScalar(0, i64), n.dims(1)), 1);
  }
  // [front, size, size] to [front, out, longest, out, longest]
  SmallVector<AdaptiveWindows> windows;
  SmallVector<int64_t> order, behind;
  Value parts = x;
  for (int64_t i = 0; i < spatial; ++i) {
    windows.push_back(windowsOf(n, dims[front + i], outs[front + i]));
    parts =
        n.make<ts::GatherOp>(parts, windows[i].place, uint64_t(front + 2 * i));
    if (!parts)
      return failure();
  }
  // to [front, out, out, longest * longest]
  for (int64_t d = 0; d < front + spatial; ++d)
    order.push_back(d < front ? d : front + 2 * (d - front));
  Dim taps = n.dim(1);
  for (int64_t i = 0; i < spatial; ++i) {
    order.push_back(front + 2 * i + 1);
    taps = taps * windows[i].longest;
  }
  SmallVector<Dim> flat = outs;
  flat.push_back(taps);
  parts = n.reshape(n.transpose(parts, order), flat);
  auto last = static_cast<int64_t>(outs.size());
  if (failed(n.out(n.reduce(K::max, parts, {last}, false))))
    return failure();
  if (!n.wants(1))
    return mlir::success();
  // What each element of a window is in its plane, [out, out, longest,
  // longest].
  SmallVector<Dim> grid(outs.begin() + front, outs.end()), rows = grid;
  for (const AdaptiveWindows &w : windows)
    grid.push_back(w.longest);
  Value place, inside;
  Dim step = n.dim(1);
  for (int64_t i = spatial; i-- > 0;) {
    Value own = n.mul(n.broadcastAt(windows[i].place, {i, spatial + i}, grid),
                      n.sizeScalar(step, i64));
    Value within = n.broadcastAt(windows[i].inside, {i, spatial + i}, grid);
    place = place ? n.add(place, own) : own;
    inside = inside ? n.binary<ts::AndOp>(inside, within) : within;
    step = step * dims[front + i];
  }
  rows.push_back(taps);
  place = n.broadcastTo(n.reshape(place, rows), flat);
  Value first = largestInside(
      n, parts, n.broadcastTo(n.reshape(inside, rows), flat), last);
  if (!first)
    return failure();
  SmallVector<Dim> column = outs;
  column.push_back(n.dim(1));
  Value at = n.make<ts::GatherElementsOp>(place, n.reshape(first, column),
                                          uint64_t(last));
  return n.out(at ? n.reshape(at, n.dims(1)) : at, 1);
}

constexpr AtenRow rows[] = {
    {"aten._adaptive_avg_pool2d.default", importAdaptiveAverage<2>},
    {"aten._adaptive_avg_pool3d.default", importAdaptiveAverage<3>},
    {"aten.adaptive_avg_pool1d.default", importAdaptiveAverage<1>},
    {"aten.adaptive_max_pool2d.default", importAdaptiveMax<2>},
    {"aten.adaptive_max_pool3d.default", importAdaptiveMax<3>},
};

} // namespace

ArrayRef<AtenRow> atenAdaptivePoolRows() { return rows; }

} // namespace knapper
