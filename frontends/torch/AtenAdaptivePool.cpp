// The largest elements of windows whose sizes differ by one.
#include "frontends/torch/AtenNode.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using K = ts::ReduceKind;

/// Windows along one dim: i goes from floor(i * size / out) to
/// ceil((i + 1) * size / out).
struct AdaptiveWindow {
  int64_t start, end;
};
SmallVector<AdaptiveWindow> windowsOf(int64_t size, int64_t out) {
  SmallVector<AdaptiveWindow> windows;
  for (int64_t i = 0; i < out; ++i)
    windows.push_back(
        {i * size / out, (int64_t)llvm::divideCeil((i + 1) * size, out)});
  return windows;
}

/// The elements of every window as places in the plane, row-major: as many for
/// each, the first again where a window has fewer.
template <int spatial>
SmallVector<int64_t>
placesOf(const SmallVector<SmallVector<AdaptiveWindow>> &windows,
         ArrayRef<int64_t> sizes, int64_t &taps) {
  auto each = [](ArrayRef<int64_t> counts, auto visit) {
    SmallVector<int64_t> at(counts.size(), 0);
    for (;;) {
      for (int64_t count : counts)
        if (count == 0)
          return;
      visit(ArrayRef<int64_t>(at));
      size_t d = at.size();
      while (d > 0 && ++at[d - 1] == counts[d - 1])
        at[--d] = 0;
      if (d == 0)
        return;
    }
  };
  SmallVector<int64_t> outs, widest;
  taps = 1;
  for (const SmallVector<AdaptiveWindow> &along : windows) {
    outs.push_back(static_cast<int64_t>(along.size()));
    int64_t most = 1;
    for (AdaptiveWindow w : along)
      most = std::max(most, w.end - w.start);
    taps *= most;
  }
  SmallVector<int64_t> places;
  each(outs, [&](ArrayRef<int64_t> out) {
    SmallVector<int64_t> counts, found;
    for (int d = 0; d < spatial; ++d)
      counts.push_back(windows[d][out[d]].end - windows[d][out[d]].start);
    each(counts, [&](ArrayRef<int64_t> tap) {
      int64_t place = 0;
      for (int d = 0; d < spatial; ++d)
        place = place * sizes[d] + windows[d][out[d]].start + tap[d];
      found.push_back(place);
    });
    found.resize(taps, found[0]);
    llvm::append_range(places, found);
  });
  return places;
}

template <int spatial> LogicalResult importAdaptiveMax(AtenNode &n) {
  Value x = n.tensor("self");
  if (!x || ts::rankOf(x) <= spatial)
    return failure();
  SmallVector<Dim> dims = ts::dimsOf(x),
                   front(dims.begin(), dims.end() - spatial);
  SmallVector<SmallVector<AdaptiveWindow>> windows;
  SmallVector<int64_t> sizes;
  int64_t area = 1, count = 1, taps = 1;
  for (size_t d = front.size(); d < dims.size(); ++d) {
    std::optional<int64_t> size = dims[d].asConstant(),
                           out = n.dims()[d].asConstant();
    if (!size || !out)
      return n.unsupported("windows over symbolic sizes");
    windows.push_back(windowsOf(*size, *out));
    sizes.push_back(*size);
    area *= *size;
    count *= *out;
  }
  Type element = ts::elementTypeOf(x), i64 = n.b.getI64Type();
  if (count == 0) {
    if (failed(n.out(n.broadcastTo(n.scalar(0, element), n.dims()))))
      return failure();
    return n.out(n.broadcastTo(n.integerScalar(0, i64), n.dims(1)), 1);
  }
  SmallVector<int64_t> places = placesOf<spatial>(windows, sizes, taps);
  if (places.size() > 8192)
    return n.unsupported("windows of more than 8192 elements together");
  auto rank = static_cast<int64_t>(front.size());
  SmallVector<Dim> plane = front, grid = front;
  plane.push_back(n.dim(area));
  grid.append({n.dim(count), n.dim(taps)});
  Value list = n.constant(DenseElementsAttr::get(
      RankedTensorType::get({count, taps}, i64), ArrayRef<int64_t>(places)));
  Value parts = n.make<ts::GatherOp>(n.reshape(x, plane), list, uint64_t(rank));
  if (!parts)
    return failure();
  if (failed(n.out(
          n.reshape(n.reduce(K::max, parts, {rank + 1}, false), n.dims()))))
    return failure();
  if (!n.wants(1))
    return mlir::success();
  // A NaN is the largest.
  Value first =
      n.make<ts::ArgReduceOp>(K::max, parts, uint64_t(rank + 1), bool(false));
  if (isa<FloatType>(element)) {
    Value nan = n.make<ts::IsNanOp>(parts);
    Value firstNan =
        n.make<ts::ArgReduceOp>(K::max, n.convert(nan, n.b.getIntegerType(8)),
                                uint64_t(rank + 1), bool(true));
    first = n.select(n.reduce(K::logical_or, nan, {rank + 1}, false), firstNan,
                     first);
  }
  if (!first)
    return failure();
  SmallVector<Dim> column = ts::dimsOf(first);
  column.push_back(n.dim(1));
  Value all = n.broadcastAt(list, {rank, rank + 1}, grid);
  Value at = n.make<ts::GatherElementsOp>(all, n.reshape(first, column),
                                          uint64_t(rank + 1));
  return n.out(at ? n.reshape(at, n.dims(1)) : at, 1);
}

constexpr AtenRow rows[] = {
    {"aten.adaptive_max_pool2d.default", importAdaptiveMax<2>},
    {"aten.adaptive_max_pool3d.default", importAdaptiveMax<3>},
};

} // namespace

ArrayRef<AtenRow> atenAdaptivePoolRows() { return rows; }

} // namespace knapper
