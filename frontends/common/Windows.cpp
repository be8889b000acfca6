#include "frontends/common/Windows.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

Value addBias(NodeBuilder &n, Value y, Value bias) {
  if (!y || !bias)
    return y;
  if (ts::rankOf(bias) != 1) {
    (void)n.fail("the bias is " + ts::shapeText(bias.getType()),
                 "give a value an output channel");
    return {};
  }
  return n.make<ts::AddOp>(y, n.broadcastAt(bias, {1}, ts::dimsOf(y)));
}

Value fitChannels(NodeBuilder &n, Value x, Dim channels) {
  if (!x)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(x);
  dims[1] = channels;
  return n.castDims(x, dims);
}

static Value convolve(NodeBuilder &n, Value x, Value filter, const Windows &w,
                      ArrayRef<int64_t> inputDilations, int64_t groups) {
  MLIRContext *context = n.shared.context;
  return n.make<ts::ConvOp>(
      x, filter, ArrayRef<int64_t>(w.strides), ArrayRef<int64_t>(w.dilations),
      ArrayRef<int64_t>(inputDilations), ts::dimArray(context, w.low),
      ts::dimArray(context, w.high), uint64_t(groups), bool(false));
}

Value convolve(NodeBuilder &n, Value x, Value filter, const Windows &w,
               int64_t groups) {
  if (!x || !filter)
    return {};
  return convolve(n, fitChannels(n, x, ts::dimOf(filter, 1) * groups), filter,
                  w, SmallVector<int64_t>(w.strides.size(), 1), groups);
}

Value convolveTransposed(NodeBuilder &n, Value x, Value weights,
                         const Windows &w, ArrayRef<int64_t> extra,
                         int64_t groups) {
  if (!x || !weights)
    return {};
  size_t spatial = w.strides.size();
  SmallVector<Dim> f = ts::dimsOf(weights);
  std::optional<Dim> perGroup = f[0].exactDiv(n.dim(groups));
  if (!perGroup) {
    (void)n.fail(f[0].str() + " channels do not divide into " + Twine(groups) +
                     " groups",
                 "correct the groups");
    return {};
  }
  // Pads of the result, then of the equivalent convolution.
  Windows plain = w;
  plain.strides.assign(spatial, 1);
  for (size_t i = 0; i < spatial; ++i) {
    int64_t extent = w.extent(i);
    plain.low[i] = n.dim(extent - 1) - w.low[i];
    plain.high[i] = n.dim(extent - 1) - w.high[i] + extra[i];
  }
  // [C, F/g, window] to [F, C/g, mirrored window]
  SmallVector<Dim> split{n.dim(groups), *perGroup, f[1]};
  SmallVector<int64_t> order{0, 2, 1};
  SmallVector<Dim> merged{f[1] * groups, *perGroup};
  SmallVector<Dim> starts{n.dim(0), n.dim(0)};
  SmallVector<int64_t> steps{1, 1};
  for (size_t i = 0; i < spatial; ++i) {
    split.push_back(f[i + 2]);
    merged.push_back(f[i + 2]);
    order.push_back(static_cast<int64_t>(i) + 3);
    starts.push_back(f[i + 2] - 1);
    steps.push_back(-1);
  }
  Value filter =
      n.reshape(n.transpose(n.reshape(weights, split), order), merged);
  filter =
      n.makeAs<ts::SliceOp>(n.type(merged, ts::elementTypeOf(weights)), filter,
                            ts::dimArray(n.shared.context, starts), steps);
  Value input = fitChannels(n, x, f[0]);
  // Negative pads crop; the op wants none.
  SmallVector<Dim> cropLow(spatial, n.dim(0)), cropHigh(spatial, n.dim(0));
  for (size_t i = 0; i < spatial; ++i) {
    auto crop = [&](Dim &pad, Dim &cut) {
      if (std::optional<int64_t> number = pad.asConstant();
          number && *number < 0) {
        cut = n.dim(-*number);
        pad = n.dim(0);
      }
    };
    crop(plain.low[i], cropLow[i]);
    crop(plain.high[i], cropHigh[i]);
  }
  Value y = convolve(n, input, filter, plain, w.strides, groups);
  for (size_t i = 0; i < spatial && y; ++i) {
    auto axis = static_cast<int64_t>(i) + 2;
    y = n.sliceDim(y, axis, cropLow[i],
                   ts::dimOf(y, axis) - cropLow[i] - cropHigh[i]);
  }
  return y;
}

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
static bool isWhole(Value x, const Windows &w) {
  SmallVector<Dim> dims = ts::dimsOf(x);
  for (size_t i = 0; i < w.window.size(); ++i)
    if (!dims[i + 2].isConstant(w.window[i]) || w.dilations[i] != 1 ||
        !w.low[i].isConstant(0) || !w.high[i].isConstant(0))
      return false;
  return true;
}

Value pool(NodeBuilder &n, ts::PoolKind kind, Value x, Windows w,
           bool countPadding) {
  MLIRContext *context = n.shared.context;
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
      kind, x, ArrayRef<int64_t>(w.window), ArrayRef<int64_t>(w.strides),
      ArrayRef<int64_t>(w.dilations), ts::dimArray(context, w.low),
      ts::dimArray(context, w.high), bool(countPadding), bool(false));
}

Value largestInside(NodeBuilder &n, Value x, Value inside, int64_t dim) {
  using P = ts::ComparePredicate;
  if (!x || !inside)
    return {};
  Type element = ts::elementTypeOf(x);
  unsigned width = element.getIntOrFloatBitWidth();
  Value key = x;
  if (isa<FloatType>(element)) {
    // Bits in the order of the numbers: one reduction whatever is NaN.
    width = width == 64 ? 64 : 32;
    Type real = width == 64 ? Type(n.b.getF64Type()) : n.b.getF32Type(),
         bits = n.b.getIntegerType(width);
    x = n.convert(x, real);
    key = n.makeAs<ts::BitcastOp>(ts::withElement(x.getType(), bits), x);
    key = n.select(
        n.compare(P::lt, key, n.integerScalar(0, bits)),
        n.binary<ts::XorOp>(key, n.integerScalar(llvm::maxIntN(width), bits)),
        key);
    key = n.select(n.compare(P::eq, x, n.scalarFor(x, 0)),
                   n.integerScalar(0, bits), key); // -0 is 0
    Value place =
        n.makeAs<ts::IotaOp>(ts::withElement(x.getType(), bits), uint64_t(dim));
    int64_t infinity = width == 64 ? 0x7ff0000000000000 : 0x7f800000;
    key = n.select(n.make<ts::IsNanOp>(x),
                   n.add(place, n.integerScalar(infinity + 1, bits)), key);
    element = bits;
  }
  int64_t least =
      element.isUnsignedInteger() || width == 1 ? 0 : llvm::minIntN(width);
  key = n.select(inside, key, n.integerScalar(least, element));
  return n.make<ts::ArgReduceOp>(ts::ReduceKind::max, key, uint64_t(dim),
                                 bool(false));
}

Value poolIndices(NodeBuilder &n, Value input, const Windows &w,
                  ArrayRef<Dim> out, PoolIndex kind, bool lastNan) {
  using P = ts::ComparePredicate;
  Type i64 = n.b.getI64Type();
  SmallVector<Dim> x = ts::dimsOf(input);
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
  Value flat = n.reshape(input, {planes, area});
  Value elements = n.make<ts::GatherOp>(flat, index, uint64_t(1));
  if (!elements)
    return {};
  // [planes, count]
  Value best;
  Value within = n.broadcastAt(inside, {1, 2}, ts::dimsOf(elements));
  if (lastNan) {
    best = largestInside(n, elements, within, 2);
  } else {
    Type element = ts::elementTypeOf(elements);
    Value least =
        isa<FloatType>(element)
            ? n.scalar(-std::numeric_limits<double>::infinity(), element)
            : n.integerScalar(
                  element.isUnsignedInteger()
                      ? 0
                      : llvm::minIntN(element.getIntOrFloatBitWidth()),
                  element);
    elements = n.select(within, elements, least);
    best = n.make<ts::ArgReduceOp>(ts::ReduceKind::max, elements, uint64_t(2),
                                   bool(false));
  }
  RankedTensorType type = n.type({planes, count}, i64);
  Value at = n.makeAs<ts::IotaOp>(type, uint64_t(1)),
        plane = n.makeAs<ts::IotaOp>(type, uint64_t(0));
  Value place = placeOf(at, best, kind == PoolIndex::columnMajor, nullptr);
  if (kind == PoolIndex::plane)
    return n.reshape(place, out);
  return n.reshape(n.add(n.mul(plane, n.sizeScalar(area, i64)), place), out);
}

} // namespace knapper
