// Convolutions and pools, forward and backward.
#include "frontends/common/Windows.h"
#include "frontends/torch/AtenNode.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using K = ts::ReduceKind;

/// Numbers of a filter's or window's sizes; nothing where they are symbolic.
std::optional<SmallVector<int64_t>> windowOf(AtenNode &n, Value filter) {
  SmallVector<int64_t> window;
  SmallVector<Dim> dims = ts::dimsOf(filter);
  for (Dim dim : ArrayRef<Dim>(dims).drop_front(2)) {
    std::optional<int64_t> number = dim.asConstant();
    if (!number || *number < 1) {
      (void)n.unsupported("a filter of symbolic size or without elements");
      return std::nullopt;
    }
    window.push_back(*number);
  }
  return window;
}

struct Convolution {
  Windows w;
  SmallVector<int64_t> extra; ///< output_padding
  int64_t groups;
  bool transposed;
};

std::optional<Convolution> readConvolution(AtenNode &n, Value filter) {
  std::optional<SmallVector<int64_t>> window = windowOf(n, filter);
  if (!window)
    return std::nullopt;
  size_t spatial = window->size();
  Convolution c;
  c.w.window = *window;
  c.w.strides = n.spread("stride", spatial, 1);
  c.w.dilations = n.spread("dilation", spatial, 1);
  for (int64_t pad : n.spread("padding", spatial, 0)) {
    c.w.low.push_back(n.dim(pad));
    c.w.high.push_back(n.dim(pad));
  }
  c.extra = n.spread("output_padding", spatial, 0);
  c.groups = n.integer("groups", 1);
  c.transposed = n.flag("transposed");
  if (n.failed() || !spatial)
    return std::nullopt;
  return c;
}

/// Zeros as torch claims a result.
LogicalResult outZeros(AtenNode &n, size_t index = 0) {
  return n.out(n.broadcastTo(n.scalar(0, n.element(index)), n.dims(index)),
               index);
}

bool isEmpty(ArrayRef<Dim> dims) {
  return llvm::any_of(dims, [](Dim dim) { return dim.isConstant(0); });
}

LogicalResult importConvolution(AtenNode &n) {
  // Of an image without channels, torch's result has none, whatever the filter.
  if (isEmpty(n.dims()))
    return outZeros(n);
  Value x = n.operand("input"), filter = n.operand("weight");
  if (!x || !filter || ts::rankOf(x) != ts::rankOf(filter) || ts::rankOf(x) < 3)
    return failure();
  std::optional<Convolution> c = readConvolution(n, filter);
  if (!c)
    return failure();
  Value y = c->transposed
                ? convolveTransposed(n, x, filter, c->w, c->extra, c->groups)
                : convolve(n, x, filter, c->w, c->groups);
  return n.out(addBias(n, y, n.operand("bias")));
}

/// What each element of g adds to an image of these dims through a filter. Rows
/// that no window reached get zeros.
Value imageGradient(AtenNode &n, Value g, Value filter, const Windows &w,
                    ArrayRef<Dim> image, int64_t groups) {
  SmallVector<int64_t> extra;
  SmallVector<size_t> cut;
  for (size_t i = 0; i < w.window.size(); ++i) {
    Dim reached = (ts::dimOf(g, i + 2) - 1) * w.strides[i] + w.extent(i) -
                  w.low[i] - w.high[i];
    std::optional<int64_t> rest = (image[i + 2] - reached).asConstant();
    if (!rest)
      cut.push_back(i + 2);
    // Fewer than a stride, else another window had room.
    extra.push_back(rest.value_or(w.strides[i] - 1));
  }
  Value y = convolveTransposed(n, g, filter, w, extra, groups);
  for (size_t d : cut)
    if (y)
      y = n.sliceDim(y, static_cast<int64_t>(d), n.dim(0), image[d]);
  return y;
}

/// The same gradient of a filter as a matmul: of `small` with the elements of
/// `large` that each tap read.
Value filterGradientOfTaps(AtenNode &n, Value large, Value small,
                           const Convolution &c, Dim perGroup) {
  auto spatial = static_cast<int64_t>(c.w.window.size());
  SmallVector<Dim> g = ts::dimsOf(small);
  std::optional<Dim> filters = g[1].exactDiv(n.dim(c.groups));
  if (!filters)
    return {};
  Type i64 = n.b.getI64Type();
  // [N, G*C, image] to [N, G*C, tap, out, tap, out]
  for (int64_t i = spatial; i-- > 0;) {
    Dim size = ts::dimOf(large, i + 2);
    SmallVector<Dim> grid{n.dim(c.w.window[i]), g[i + 2]};
    Value tap = n.makeAs<ts::IotaOp>(n.type(grid, i64), uint64_t(0)),
          out = n.makeAs<ts::IotaOp>(n.type(grid, i64), uint64_t(1));
    Value at = n.sub(n.add(n.mul(out, n.integerScalar(c.w.strides[i], i64)),
                           n.mul(tap, n.integerScalar(c.w.dilations[i], i64))),
                     n.sizeScalar(c.w.low[i], i64));
    Value zero = n.integerScalar(0, i64);
    Value inside = n.binary<ts::AndOp>(
        n.compare(ts::ComparePredicate::ge, at, zero),
        n.compare(ts::ComparePredicate::lt, at, n.sizeScalar(size, i64)));
    large = n.make<ts::GatherOp>(large, n.select(inside, at, zero),
                                 uint64_t(i + 2));
    if (!large)
      return {};
    large = n.select(n.broadcastAt(inside, {i + 2, i + 3}, ts::dimsOf(large)),
                     large, n.scalarFor(large, 0));
  }
  SmallVector<Dim> split{g[0], n.dim(c.groups), perGroup},
      whole{g[0], n.dim(c.groups), *filters}, dims{g[1], perGroup};
  SmallVector<int64_t> ofLarge{0}, ofSmall{0};
  for (int64_t i = 0; i < spatial; ++i) {
    split.append({n.dim(c.w.window[i]), g[i + 2]});
    whole.push_back(g[i + 2]);
    dims.push_back(n.dim(c.w.window[i]));
    ofLarge.push_back(4 + 2 * i);
    ofSmall.push_back(3 + i);
  }
  large = n.reshape(large, split);
  small = n.reshape(small, whole);
  if (!large || !small)
    return {};
  Value y = n.make<ts::DotOp>(small, large, ArrayRef<int64_t>{1},
                              ArrayRef<int64_t>{1}, ArrayRef<int64_t>(ofSmall),
                              ArrayRef<int64_t>(ofLarge), TypeAttr());
  return y ? n.reshape(y, dims) : y;
}

/// d/d filter of `small` = convolution of `large`: the correlation of the two
/// over the batch. The result has the filter's layout [small's channels,
/// large's channels / groups, window].
Value filterGradient(AtenNode &n, Value large, Value small,
                     const Convolution &c) {
  size_t spatial = c.w.window.size();
  SmallVector<Dim> x = ts::dimsOf(large), g = ts::dimsOf(small);
  std::optional<Dim> perGroup = x[1].exactDiv(n.dim(c.groups));
  if (!perGroup)
    return {};
  // The gradient is a filter whose window is the image.
  Windows w;
  for (size_t i = 0; i < spatial; ++i) {
    std::optional<int64_t> image = g[i + 2].asConstant(),
                           size = x[i + 2].asConstant(),
                           low = c.w.low[i].asConstant();
    if (!image || !size || !low)
      return filterGradientOfTaps(n, large, small, c, *perGroup);
    w.window.push_back(*image);
    w.strides.push_back(c.w.dilations[i]);
    w.dilations.push_back(c.w.strides[i]);
    int64_t high = (c.w.window[i] - 1) * c.w.dilations[i] + 1 +
                   (*image - 1) * c.w.strides[i] - *size - *low;
    if (high < 0) { // rows that no window reached
      large = n.sliceDim(large, static_cast<int64_t>(i) + 2, n.dim(0),
                         n.dim(*size + high));
      high = 0;
    }
    w.low.push_back(c.w.low[i]);
    w.high.push_back(n.dim(high));
  }
  if (!large)
    return {};
  x = ts::dimsOf(large);
  // [N, G*C, image] to [C, G*N, image]
  SmallVector<Dim> split{x[0], n.dim(c.groups), *perGroup},
      merged{*perGroup, x[0] * c.groups};
  SmallVector<int64_t> order{2, 1, 0}, swap{1, 0};
  for (size_t i = 0; i < spatial; ++i) {
    split.push_back(x[i + 2]);
    merged.push_back(x[i + 2]);
    order.push_back(static_cast<int64_t>(i) + 3);
    swap.push_back(static_cast<int64_t>(i) + 2);
  }
  Value images = n.reshape(n.transpose(n.reshape(large, split), order), merged);
  Value filters = n.transpose(n.castDims(small,
                                         [&] {
                                           SmallVector<Dim> dims = g;
                                           dims[0] = x[0];
                                           return dims;
                                         }()),
                              swap);
  // [C, F, window]
  return n.transpose(convolve(n, images, filters, w, c.groups), swap);
}

LogicalResult importConvolutionBackward(AtenNode &n) {
  Type type = n.element(0)   ? n.element(0)
              : n.element(1) ? n.element(1)
                             : n.element(2);
  Value g = n.operand("grad_output", type), x = n.operand("input", type),
        filter = n.operand("weight", type);
  if (!g || !x || !filter)
    return failure();
  if (isEmpty(ts::dimsOf(g))) {
    for (size_t i = 0; i < n.resultCount(); ++i)
      if (n.wants(i) && failed(outZeros(n, i)))
        return failure();
    return mlir::success();
  }
  std::optional<Convolution> c = readConvolution(n, filter);
  if (!c)
    return failure();
  size_t spatial = c->w.window.size();
  if (n.wants(0)) {
    Value dx;
    if (c->transposed) {
      dx = convolve(n, g, filter, c->w, c->groups);
    } else {
      dx = imageGradient(n, g, filter, c->w, ts::dimsOf(x), c->groups);
    }
    if (failed(n.out(n.castDims(dx, ts::dimsOf(x)), 0)))
      return failure();
  }
  if (n.wants(1)) {
    Value dw = c->transposed ? filterGradient(n, g, x, *c)
                             : filterGradient(n, x, g, *c);
    if (failed(n.out(dw ? n.castDims(dw, ts::dimsOf(filter)) : dw, 1)))
      return failure();
  }
  if (n.wants(2)) {
    SmallVector<int64_t> dims{0};
    for (size_t i = 0; i < spatial; ++i)
      dims.push_back(static_cast<int64_t>(i) + 2);
    if (failed(n.out(n.reduce(K::add, g, dims, false), 2)))
      return failure();
  }
  return mlir::success();
}

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

/// x with a batch dim, and the windows that give as many results as torch says.
struct PoolWindow {
  Value x;
  Windows w;
  SmallVector<Dim> out; ///< with the batch dim
};

std::optional<PoolWindow> readPooling(AtenNode &n, Value x, size_t spatial,
                                      ArrayRef<Dim> claimed) {
  PoolWindow p;
  if (!x)
    return std::nullopt;
  p.x = x;
  p.out.assign(claimed.begin(), claimed.end());
  if (ts::rankOf(x) == static_cast<int64_t>(spatial) + 1) {
    SmallVector<Dim> dims = ts::dimsOf(x);
    dims.insert(dims.begin(), n.dim(1));
    p.x = n.reshape(x, dims);
    p.out.insert(p.out.begin(), n.dim(1));
  }
  if (!p.x || ts::rankOf(p.x) != static_cast<int64_t>(spatial) + 2)
    return std::nullopt;
  p.w.window = n.spread("kernel_size", spatial, 1);
  p.w.strides = n.integers("stride").empty() ? p.w.window
                                             : n.spread("stride", spatial, 1);
  p.w.dilations = n.spread("dilation", spatial, 1);
  SmallVector<int64_t> pads = n.spread("padding", spatial, 0);
  if (n.failed())
    return std::nullopt;
  for (size_t i = 0; i < spatial; ++i) {
    p.w.low.push_back(n.dim(pads[i]));
    Dim size = ts::dimOf(p.x, i + 2);
    Dim high =
        (p.out[i + 2] - 1) * p.w.strides[i] + p.w.extent(i) - size - pads[i];
    if (high.isSymbolic() && !n.flag("ceil_mode"))
      high = n.dim(pads[i]); // they are enough
    else if (high.asConstant() || p.w.extent(i) < p.w.strides[i])
      high = high.max(n.dim(0)); // rows between windows
    p.w.high.push_back(high);
  }
  return p;
}

template <int spatial> LogicalResult importMaxPool(AtenNode &n) {
  std::optional<PoolWindow> p =
      readPooling(n, n.tensor("self"), spatial, n.dims());
  if (!p)
    return failure();
  clampToImage(p->x, p->w);
  Value y = pool(n, ts::PoolKind::max, p->x, p->w, false);
  if (failed(n.out(y ? n.reshape(y, n.dims()) : y)))
    return failure();
  if (!n.wants(1))
    return mlir::success();
  Value at = poolIndices(n, p->x, p->w, p->out, PoolIndex::plane, true);
  return n.out(at ? n.reshape(at, n.dims(1)) : at, 1);
}

/// How many elements each window of an average divides by, for windows that
/// are cut by what lies behind the declared padding; null for one number.
Value divisors(AtenNode &n, const PoolWindow &p, size_t spatial,
               bool countPadding, Type element, double &number) {
  number = 1;
  for (int64_t size : p.w.window)
    number *= static_cast<double>(size);
  if (n.has("divisor_override")) {
    number = n.real("divisor_override");
    return {};
  }
  SmallVector<int64_t> pads = n.spread("padding", spatial, 0);
  Value all;
  Type i64 = n.b.getI64Type();
  for (size_t i = 0; i < spatial; ++i) {
    std::optional<int64_t> high = p.w.high[i].asConstant();
    bool whole =
        high && (countPadding ? *high <= pads[i] : *high == 0 && pads[i] == 0);
    if (whole)
      continue;
    // The window's part of [-pad, size + pad), or of [0, size).
    Dim size = ts::dimOf(p.x, i + 2);
    Value start = n.sub(
        n.mul(n.makeAs<ts::IotaOp>(n.type({p.out[i + 2]}, i64), uint64_t(0)),
              n.integerScalar(p.w.strides[i], i64)),
        n.integerScalar(pads[i], i64));
    Value end = n.binary<ts::MinOp>(
        n.add(start, n.integerScalar(p.w.window[i], i64)),
        n.sizeScalar(size + (countPadding ? pads[i] : 0), i64));
    if (!countPadding)
      start = n.binary<ts::MaxOp>(start, n.integerScalar(0, i64));
    Value count = n.convert(n.sub(end, start), element);
    number /= static_cast<double>(p.w.window[i]);
    SmallVector<Dim> dims(p.out.begin() + 2, p.out.end());
    Value wide = n.broadcastAt(count, {static_cast<int64_t>(i)}, dims);
    all = all ? n.mul(all, wide) : wide;
  }
  return all;
}

template <int spatial> LogicalResult importAveragePool(AtenNode &n) {
  Value x = n.operand("self", n.wide());
  std::optional<PoolWindow> p = readPooling(n, x, spatial, n.dims());
  if (!p)
    return failure();
  double number = 1;
  Value by = divisors(n, *p, spatial, n.flag("count_include_pad"),
                      ts::elementTypeOf(x), number);
  Value sum = pool(n, ts::PoolKind::sum, p->x, p->w, false);
  Value y = n.div(sum, n.scalarFor(sum, number));
  if (by && y)
    y = n.div(y, n.broadcastTo(by, ts::dimsOf(y)));
  return n.out(y ? n.reshape(y, n.dims()) : y);
}

/// Each element's gradient, divided as its window was, is added to all that the
/// window read: a transposed convolution with ones, channel by channel.
template <int spatial> LogicalResult importAveragePoolBackward(AtenNode &n) {
  Type type = n.wide();
  Value g = n.operand("grad_output", type), x = n.operand("self", type);
  if (!g || !x)
    return failure();
  std::optional<PoolWindow> p = readPooling(n, x, spatial, ts::dimsOf(g));
  if (!p)
    return failure();
  double number = 1;
  Value by =
      divisors(n, *p, spatial, n.flag("count_include_pad"), type, number);
  g = n.reshape(n.div(g, n.scalarFor(g, number)), p->out);
  if (by && g)
    g = n.div(g, n.broadcastTo(by, p->out));
  if (!g)
    return failure();
  SmallVector<Dim> dims = ts::dimsOf(p->x);
  if (dims[1].isSymbolic()) { // an image each
    SmallVector<Dim> images = ts::dimsOf(g);
    images[0] = images[0] * images[1];
    images[1] = n.dim(1);
    g = n.reshape(g, images);
  }
  int64_t channels = dims[1].asConstant().value_or(1);
  SmallVector<Dim> window{n.dim(channels), n.dim(1)};
  for (int64_t size : p->w.window)
    window.push_back(n.dim(size));
  Value ones = n.broadcastTo(n.scalar(1, type), window);
  Value y = imageGradient(n, g, ones, p->w, dims, channels);
  return n.out(y ? n.reshape(y, n.dims()) : y);
}

/// Adds each gradient to the element that was the largest of its window.
LogicalResult importMaxPoolBackward(AtenNode &n) {
  Type type = n.wide();
  Value g = n.operand("grad_output", type), at = n.tensor("indices");
  if (!g || !at || n.dims().size() < 3)
    return failure();
  SmallVector<Dim> out(n.dims()), grad = ts::dimsOf(g);
  size_t spatial = n.integers("kernel_size").size();
  spatial = std::max<size_t>(spatial, 2);
  Dim planes = n.dim(1), area = n.dim(1), count = n.dim(1);
  for (size_t i = 0; i < out.size(); ++i) {
    bool inPlane = i + spatial >= out.size();
    (inPlane ? area : planes) = (inPlane ? area : planes) * out[i];
    if (inPlane)
      count = count * grad[i];
  }
  Value zeros = n.broadcastTo(n.scalar(0, type), {planes, area});
  Value y = n.make<ts::ScatterElementsOp>(
      zeros, n.reshape(at, {planes, count}), n.reshape(g, {planes, count}),
      uint64_t(1), ts::ReduceKindAttr::get(n.shared.context, K::add));
  return n.out(n.reshape(y, out));
}

constexpr AtenRow rows[] = {
    {"aten.avg_pool1d.default", importAveragePool<1>},
    {"aten.avg_pool2d.default", importAveragePool<2>},
    {"aten.avg_pool2d_backward.default", importAveragePoolBackward<2>},
    {"aten.avg_pool3d.default", importAveragePool<3>},
    {"aten.avg_pool3d_backward.default", importAveragePoolBackward<3>},
    {"aten.convolution.default", importConvolution},
    {"aten.convolution_backward.default", importConvolutionBackward},
    {"aten.max_pool2d_with_indices.default", importMaxPool<2>},
    {"aten.max_pool2d_with_indices_backward.default", importMaxPoolBackward},
    {"aten.max_pool3d_with_indices.default", importMaxPool<3>},
};

} // namespace

ArrayRef<AtenRow> atenConvolutionRows() { return rows; }

} // namespace knapper
