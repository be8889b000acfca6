// Reading images at positions that are no integers: GridSample, RoiAlign,
// deformable convolution.
#include "frontends/onnx/WindowAttributes.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using P = ts::ComparePredicate;

Value clamp(Node &n, Value x, Value low, Value high) {
  return n.binary<ts::MaxOp>(n.binary<ts::MinOp>(x, high), low);
}

/// Images [A, C, S], S the product of `sizes`, row-major; each of the A has
/// positions of its own.
struct Images {
  Value data;
  SmallVector<Dim> sizes;
  Type index; ///< i32 where it reaches, else i64
};

Images imagesOf(Node &n, Value x, Dim count, Dim channels,
                ArrayRef<Dim> sizes) {
  Dim area = ts::product(n.importer.context, sizes);
  std::optional<int64_t> known = area.asConstant();
  return {n.reshape(x, {count, channels, area}), SmallVector<Dim>(sizes),
          known && *known < INT32_MAX ? Type(n.b.getI32Type())
                                      : Type(n.b.getI64Type())};
}

/// One element a dim that counts with a weight; `inside` null: always inside.
struct Tap {
  Value index, weight, inside;
};

/// The elements [A, C, positions...] at indices [A, positions...] a dim.
Value gatherAt(Node &n, const Images &images, ArrayRef<Value> indices) {
  Value flat;
  for (auto [index, size] : llvm::zip(indices, images.sizes)) {
    Value own = n.convert(index, images.index);
    flat =
        flat ? n.add(n.mul(flat, n.sizeScalar(size, images.index)), own) : own;
  }
  if (!flat || !images.data)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(flat);
  dims.insert(dims.begin() + 1, ts::dimOf(images.data, 1));
  return n.make<ts::GatherElementsOp>(
      images.data, n.broadcastAt(flat, {0, 2}, dims), uint64_t(2));
}

/// Sum over all combinations of a tap a dim; `type` is what sums are made in.
Value interpolate(Node &n, const Images &images,
                  ArrayRef<SmallVector<Tap>> taps, Type type) {
  Value sum;
  size_t total = 1;
  for (const SmallVector<Tap> &list : taps)
    total *= list.size();
  for (size_t code = 0; code < total; ++code) {
    SmallVector<Value> indices;
    Value weight, inside;
    size_t rest = code;
    for (const SmallVector<Tap> &list : taps) {
      const Tap &tap = list[rest % list.size()];
      rest /= list.size();
      indices.push_back(tap.index);
      if (tap.weight)
        weight = weight ? n.mul(weight, tap.weight) : tap.weight;
      if (tap.inside)
        inside = inside ? n.binary<ts::AndOp>(inside, tap.inside) : tap.inside;
    }
    Value x = n.convert(gatherAt(n, images, indices), type);
    if (!x)
      return {};
    SmallVector<Dim> dims = ts::dimsOf(x);
    if (weight)
      x = n.mul(x, n.broadcastAt(weight, {0, 2}, dims));
    // Not a weight of 0: what lies at the clamped place may be infinite.
    if (inside)
      x = n.select(n.broadcastAt(inside, {0, 2}, dims), x, n.scalarFor(x, 0));
    sum = sum ? n.add(sum, x) : x;
  }
  return sum;
}

//===----------------------------------------------------------------------===//
// GridSample
//===----------------------------------------------------------------------===//

enum class GridPadding { zeros, border, reflection };

/// One spatial dim of a grid sample.
struct GridDim {
  Dim size;
  bool corners;
  GridPadding padding;
};

/// Mirrored at the borders until inside.
Value reflect(Node &n, const GridDim &d, Value x) {
  Value size = n.sizeScalar(d.size, ts::elementTypeOf(x));
  double low = d.corners ? 0 : -0.5;
  Value range = d.corners ? n.add(size, -1.0) : size;
  // A single element with aligned corners has no range to mirror in.
  Value whole = n.binary<ts::MaxOp>(range, n.scalarFor(x, 1e-6));
  Value phase = n.binary<ts::ModOp>(n.add(x, -low), n.mul(whole, 2.0));
  Value folded = n.select(n.compare(P::gt, phase, range),
                          n.sub(n.mul(whole, 2.0), phase), phase);
  return n.add(n.binary<ts::MinOp>(folded, range), low);
}

/// An element of the image at a whole position (as a float) that may lie
/// outside.
Tap tapAt(Node &n, const GridDim &d, Value at, Value weight) {
  Value zero = n.scalarFor(at, 0),
        last = n.sizeScalar(d.size - 1, ts::elementTypeOf(at));
  Tap tap{at, weight, {}};
  if (d.padding == GridPadding::zeros)
    tap.inside = n.binary<ts::AndOp>(n.compare(P::ge, at, zero),
                                     n.compare(P::le, at, last));
  if (d.padding == GridPadding::reflection)
    tap.index = n.make<ts::TruncOp>(reflect(n, d, at));
  // NaN becomes 0 when it is converted.
  tap.index = clamp(n, tap.index, zero, last);
  return tap;
}

/// ((a x - 5 a) x + 8 a) x - 4 a for 1 < x < 2, Keys' cubic with a = -0.75.
Value cubicWeight(Node &n, Value x, bool far) {
  constexpr double a = -0.75;
  if (far)
    return n.add(n.mul(n.add(n.mul(n.add(n.mul(x, a), -5 * a), x), 8 * a), x),
                 -4 * a);
  return n.add(n.mul(n.mul(n.add(n.mul(x, a + 2), -(a + 3)), x), x), 1);
}

SmallVector<Tap> gridTaps(Node &n, const GridDim &d, Value x, StringRef mode) {
  if (mode == "nearest")
    x = n.make<ts::RoundEvenOp>(x);
  Type type = ts::elementTypeOf(x);
  if (d.padding == GridPadding::border) {
    // Between the border and the first element's middle it stays.
    Value first = n.scalarFor(x, 0), last = n.sizeScalar(d.size - 1, type);
    double reach = d.corners ? 0 : 0.5;
    Value near = n.binary<ts::AndOp>(n.compare(P::ge, x, n.add(first, -reach)),
                                     n.compare(P::le, x, n.add(last, reach)));
    x = n.select(near, x, clamp(n, x, first, last));
  }
  if (d.padding == GridPadding::reflection)
    x = reflect(n, d, x);
  if (mode == "nearest")
    return {tapAt(
        n, d, d.padding == GridPadding::reflection ? n.make<ts::TruncOp>(x) : x,
        {})};
  Value whole = n.make<ts::FloorOp>(x), part = n.sub(x, whole);
  Value rest = n.sub(n.scalarFor(x, 1), part), next = n.add(whole, 1.0);
  if (mode == "linear")
    return {tapAt(n, d, whole, rest), tapAt(n, d, next, part)};
  return {tapAt(n, d, n.add(whole, -1.0), cubicWeight(n, n.add(part, 1), true)),
          tapAt(n, d, whole, cubicWeight(n, part, false)),
          tapAt(n, d, next, cubicWeight(n, rest, false)),
          tapAt(n, d, n.add(whole, 2.0), cubicWeight(n, n.add(rest, 1), true))};
}

LogicalResult importGridSample(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]), grid = ts::dimsOf(n[1]);
  auto spatial = static_cast<int64_t>(dims.size()) - 2;
  if (spatial < 1 || grid.size() != dims.size() ||
      !grid.back().isConstant(spatial))
    return n.fail("input " + ts::shapeText(n[0].getType()) + " and grid " +
                      ts::shapeText(n[1].getType()) + " do not fit",
                  "give [N, C, sizes..] and [N, sizes.., number of spatial "
                  "dims]");
  std::string mode = n.text("mode", n.opset < 20 ? "bilinear" : "linear"),
              padding = n.text("padding_mode", "zeros");
  if (mode == "bilinear" || mode == "bicubic")
    mode = mode.substr(2);
  if (mode != "linear" && mode != "cubic" && mode != "nearest")
    return n.fail("mode is '" + mode + "'", "use linear, nearest or cubic");
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    return n.fail("padding_mode is '" + padding + "'",
                  "use zeros, border or reflection");
  if (spatial > (mode == "cubic" ? 3 : 6))
    return n.unsupported(mode + " sampling of " + std::to_string(spatial) +
                         " spatial dims");
  Type element = ts::elementTypeOf(n[0]);
  Type fine = ts::elementTypeOf(n[1]).isF64() || element.isF64()
                  ? Type(n.b.getF64Type())
                  : Type(n.b.getF32Type());
  Images images =
      imagesOf(n, n[0], dims[0], dims[1], ArrayRef<Dim>(dims).drop_front(2));
  ArrayRef<Dim> out = ArrayRef<Dim>(grid).drop_front().drop_back();
  Dim positions = ts::product(n.importer.context, out);
  SmallVector<Dim> gridDims = grid;
  gridDims[0] = dims[0];
  Value points = n.convert(n.reshape(n.castDims(n[1], gridDims),
                                     {dims[0], positions, n.dim(spatial)}),
                           fine);
  SmallVector<SmallVector<Tap>> taps;
  for (int64_t i = 0; i < spatial; ++i) {
    GridDim d{dims[i + 2], n.flag("align_corners", false),
              padding == "zeros"    ? GridPadding::zeros
              : padding == "border" ? GridPadding::border
                                    : GridPadding::reflection};
    // The last of a point's numbers belongs to the first spatial dim.
    Value x = n.reshape(n.sliceDim(points, 2, n.dim(spatial - 1 - i), n.dim(1)),
                        {dims[0], positions});
    if (!x)
      return failure();
    Value size = n.sizeScalar(d.size, fine);
    Value scaled = d.corners
                       ? n.mul(n.mul(n.add(x, 1), 0.5), n.add(size, -1.0))
                       : n.mul(n.add(n.mul(n.add(x, 1), size), -1.0), 0.5);
    taps.push_back(gridTaps(n, d, scaled, mode));
  }
  Value y = interpolate(n, images, taps, mode == "nearest" ? element : fine);
  SmallVector<Dim> result{dims[0], dims[1]};
  llvm::append_range(result, out);
  return n.out(n.reshape(n.convert(y, element), result));
}

//===----------------------------------------------------------------------===//
// DeformConv
//===----------------------------------------------------------------------===//

/// Windows whose elements lie where `offset` moves them, read linearly, times
/// `mask`; then a matmul with the filter.
LogicalResult importDeformConv(Node &n) {
  SmallVector<Dim> x = ts::dimsOf(n[0]), f = ts::dimsOf(n[1]);
  auto spatial = static_cast<int64_t>(x.size()) - 2;
  if (spatial < 1 || f.size() != x.size() ||
      ts::rankOf(n[2]) != static_cast<int64_t>(x.size()))
    return n.fail("input, filter and offset are " +
                      ts::shapeText(n[0].getType()) + ", " +
                      ts::shapeText(n[1].getType()) + ", " +
                      ts::shapeText(n[2].getType()),
                  "give equal ranks of 3 or more");
  SmallVector<int64_t> window;
  int64_t taps = 1;
  for (int64_t i = 0; i < spatial; ++i) {
    std::optional<int64_t> size = f[i + 2].asConstant();
    if (!size || *size > 1 << 10)
      return n.unsupported("a filter of symbolic or very large size");
    window.push_back(*size);
    taps *= *size;
  }
  std::optional<Windows> w = readWindows(n, window);
  if (!w)
    return failure();
  int64_t groups = n.integer("group", 1),
          shifted = n.integer("offset_group", 1);
  std::optional<Dim> perShift, features;
  if (groups > 0 && shifted > 0) {
    perShift = x[1].exactDiv(n.dim(shifted));
    features = f[0].exactDiv(n.dim(groups));
  }
  if (!perShift || !features || !(f[1] * groups == x[1]))
    return n.fail("channels do not divide into " + Twine(groups) + " and " +
                      Twine(shifted) + " groups",
                  "correct group, offset_group or the filter");
  SmallVector<Dim> out;
  for (int64_t i = 0; i < spatial; ++i)
    out.push_back((x[i + 2] + w->low[i] + w->high[i] -
                   ((window[i] - 1) * w->dilations[i] + 1))
                      .floorDiv(n.dim(w->strides[i])) +
                  1);
  Dim area = ts::product(n.importer.context, out), all = x[0] * shifted;
  Type element = ts::elementTypeOf(n[0]);
  Type fine = element.isF64() ? element : Type(n.b.getF32Type());
  auto perTap = [&](Value value, Dim numbers) {
    SmallVector<Dim> dims{x[0], n.dim(shifted * taps) * numbers};
    llvm::append_range(dims, out);
    return n.convert(n.castDims(value, dims), fine);
  };
  Value offset = n.reshape(perTap(n[2], n.dim(spatial)),
                           {all, n.dim(taps), n.dim(spatial), area});
  // Where the windows' elements lie without the offsets, [taps, out...].
  SmallVector<Dim> grid{n.dim(taps)};
  llvm::append_range(grid, out);
  RankedTensorType gridType = n.type(grid, n.b.getI64Type());
  SmallVector<SmallVector<Tap>> corners;
  int64_t inner = taps;
  for (int64_t i = 0; i < spatial; ++i) {
    inner /= window[i];
    Type i64 = n.b.getI64Type();
    Value tap = n.makeAs<ts::IotaOp>(gridType, uint64_t(0));
    Value place = n.makeAs<ts::IotaOp>(gridType, uint64_t(i + 1));
    Value k = n.binary<ts::ModOp>(n.div(tap, n.integerScalar(inner, i64)),
                                  n.integerScalar(window[i], i64));
    Value start = n.sub(n.mul(place, n.integerScalar(w->strides[i], i64)),
                        n.sizeScalar(w->low[i], i64));
    Value whole = n.convert(
        n.add(start, n.mul(k, n.integerScalar(w->dilations[i], i64))), fine);
    Value own = n.reshape(n.sliceDim(offset, 2, n.dim(i), n.dim(1)),
                          {all, n.dim(taps), area});
    if (!whole || !own)
      return failure();
    Value at =
        n.reshape(n.add(n.reshape(whole, {n.dim(1), n.dim(taps), area}), own),
                  {all, area * taps});
    corners.push_back(
        gridTaps(n, {x[i + 2], true, GridPadding::zeros}, at, "linear"));
  }
  Images images =
      imagesOf(n, n[0], all, *perShift, ArrayRef<Dim>(x).drop_front(2));
  Value columns = interpolate(n, images, corners, fine);
  if (n.has(4)) {
    Value mask =
        n.reshape(perTap(n[4], n.dim(1)), {all, n.dim(1), area * taps});
    if (!columns || !mask)
      return failure();
    columns = n.mul(columns, mask);
  }
  Value left = n.reshape(n.convert(columns, element),
                         {x[0], n.dim(groups), f[1] * taps, area});
  Value right = n.reshape(n[1], {n.dim(groups), *features, f[1] * taps});
  // [groups, F / groups, N, area]
  Value y =
      n.make<ts::DotOp>(right, left, ArrayRef<int64_t>{0}, ArrayRef<int64_t>{1},
                        ArrayRef<int64_t>{2}, ArrayRef<int64_t>{2}, TypeAttr());
  SmallVector<Dim> result{x[0], f[0]};
  llvm::append_range(result, out);
  y = n.reshape(n.transpose(y, {2, 0, 1, 3}), result);
  if (n.has(3) && y)
    y = n.add(y, n.broadcastAt(n[3], {1}, result));
  return n.out(y);
}

//===----------------------------------------------------------------------===//
// RoiAlign
//===----------------------------------------------------------------------===//

/// How one spatial dim of the regions is sampled.
struct RoiDim {
  Value at; ///< [R, bins, samples] positions
  /// [R, bins, 2 * samples] whether a region has that many; or null
  Value counted;
  Value count; ///< [R] samples a bin
  Dim samples;
};

/// Bins of the regions from `start` to `end` (both [R]), `ratio` samples each
/// or, for 0, as many as a bin has elements.
RoiDim roiDim(Node &n, Value start, Value end, int64_t bins, int64_t ratio,
              bool halfPixel, StringRef name) {
  Type fine = ts::elementTypeOf(start), i64 = n.b.getI64Type();
  Value length = n.sub(end, start);
  if (!halfPixel)
    length = n.binary<ts::MaxOp>(length, n.scalarFor(length, 1));
  Value bin = n.mul(length, 1.0 / static_cast<double>(bins));
  RoiDim d;
  Dim regions = ts::dimOf(start, 0);
  if (ratio > 0) {
    d.samples = n.dim(ratio);
    d.count = n.broadcastTo(n.integerScalar(ratio, i64), {regions});
  } else {
    d.count = n.binary<ts::MaxOp>(n.convert(n.make<ts::CeilOp>(bin), i64),
                                  n.integerScalar(0, i64));
    Value most =
        n.binary<ts::MaxOp>(n.reduce(ts::ReduceKind::max, d.count, {0}, false),
                            n.integerScalar(1, i64));
    d.samples = n.bindSize(most, name);
  }
  SmallVector<Dim> dims{regions, n.dim(bins), d.samples};
  RankedTensorType type = n.type(dims, i64);
  if (!type || !bin)
    return {};
  Value which = n.makeAs<ts::IotaOp>(type, uint64_t(1)),
        sample = n.makeAs<ts::IotaOp>(type, uint64_t(2));
  Value step = n.div(
      n.mul(n.add(n.convert(sample, fine), 0.5), n.broadcastAt(bin, {0}, dims)),
      n.broadcastAt(n.convert(d.count, fine), {0}, dims));
  d.at =
      n.add(n.add(n.broadcastAt(start, {0}, dims),
                  n.mul(n.convert(which, fine), n.broadcastAt(bin, {0}, dims))),
            step);
  if (ratio <= 0) {
    // Two elements are read for each.
    SmallVector<Dim> read{regions, n.dim(bins), d.samples * 2};
    Value one = n.div(n.makeAs<ts::IotaOp>(n.type(read, i64), uint64_t(2)),
                      n.integerScalar(2, i64));
    d.counted = n.compare(P::lt, one, n.broadcastAt(d.count, {0}, read));
  }
  return d;
}

/// Of one spatial dim, all [R, bins, 2 * samples]: the two elements around each
/// position, how much they count, and whether they do; a position below the
/// first or beyond the last by up to 1 counts as on it.
Tap roiTaps(Node &n, const RoiDim &d, Dim size) {
  Value at = d.at;
  Type fine = ts::elementTypeOf(at);
  Value zero = n.scalarFor(at, 0), last = n.sizeScalar(size - 1, fine);
  Value inside =
      n.binary<ts::AndOp>(n.compare(P::ge, at, n.scalarFor(at, -1)),
                          n.compare(P::le, at, n.sizeScalar(size, fine)));
  Value x = clamp(n, at, zero, last);
  Value low = n.make<ts::FloorOp>(x), part = n.sub(x, low);
  Value high = n.binary<ts::MinOp>(n.add(low, 1.0), last);
  SmallVector<Dim> dims = ts::dimsOf(at);
  auto both = [&](Value a, Value b) -> Value {
    SmallVector<Dim> column{dims[0], dims[1], dims[2], n.dim(1)};
    a = n.reshape(a, column);
    b = n.reshape(b, column);
    if (!a || !b)
      return {};
    return n.reshape(n.make<ts::ConcatOp>(ValueRange{a, b}, int64_t(3)),
                     {dims[0], dims[1], dims[2] * 2});
  };
  return {n.convert(both(low, high), n.b.getI64Type()),
          both(n.sub(n.scalarFor(at, 1), part), part), both(inside, inside)};
}

LogicalResult importRoiAlign(Node &n) {
  SmallVector<Dim> x = ts::dimsOf(n[0]);
  if (x.size() != 4 || ts::rankOf(n[1]) != 2 ||
      !ts::dimOf(n[1], 1).isConstant(4) || ts::rankOf(n[2]) != 1)
    return n.fail("input, rois and batch_indices are " +
                      ts::shapeText(n[0].getType()) + ", " +
                      ts::shapeText(n[1].getType()) + ", " +
                      ts::shapeText(n[2].getType()),
                  "give [N, C, H, W], [rois, 4] and [rois]");
  std::string mode = n.text("mode", "avg"),
              transform =
                  n.text("coordinate_transformation_mode",
                         n.opset < 16 ? "output_half_pixel" : "half_pixel");
  if (mode != "avg" && mode != "max")
    return n.fail("mode is '" + mode + "'", "use avg or max");
  if (transform != "half_pixel" && transform != "output_half_pixel")
    return n.fail("coordinate_transformation_mode is '" + transform + "'",
                  "use half_pixel or output_half_pixel");
  bool half = transform == "half_pixel";
  int64_t height = n.integer("output_height", 1),
          width = n.integer("output_width", 1),
          ratio = n.integer("sampling_ratio", 0);
  if (height < 1 || width < 1 || height > 1 << 20 || width > 1 << 20 ||
      ratio < 0 || ratio > 1 << 10)
    return n.fail("output_height, output_width or sampling_ratio is not a "
                  "sensible size",
                  "correct the attributes");
  Type element = ts::elementTypeOf(n[0]), i64 = n.b.getI64Type();
  Type fine = element.isF64() ? element : Type(n.b.getF32Type());
  Dim regions = ts::dimOf(n[1], 0), channels = x[1];
  Value corners =
      n.add(n.mul(n.convert(n[1], fine), n.real("spatial_scale", 1)),
            half ? -0.5 : 0.0);
  auto corner = [&](int64_t i) {
    return n.reshape(n.sliceDim(corners, 1, n.dim(i), n.dim(1)), {regions});
  };
  Value x1 = corner(0), y1 = corner(1), x2 = corner(2), y2 = corner(3);
  if (!x1 || !y1 || !x2 || !y2)
    return failure();
  RoiDim rows = roiDim(n, y1, y2, height, ratio, half, "roi_rows");
  RoiDim columns = roiDim(n, x1, x2, width, ratio, half, "roi_columns");
  if (!rows.at || !columns.at)
    return failure();
  // [R, height, rows read, width, columns read, C]: where to read and how much
  // it counts is found once for all channels, which lie side by side.
  Dim down = rows.samples * 2, across = columns.samples * 2;
  SmallVector<Dim> all{regions,      n.dim(height), down,
                       n.dim(width), across,        channels};
  ArrayRef<Dim> places = ArrayRef<Dim>(all).drop_back();
  auto onPlaces = [&](Value row, Value column) {
    return std::pair(n.broadcastAt(row, {0, 1, 2}, places),
                     n.broadcastAt(column, {0, 3, 4}, places));
  };
  auto forChannels = [&](Value value) {
    return n.broadcastAt(value, {0, 1, 2, 3, 4}, all);
  };
  Tap row = roiTaps(n, rows, x[2]), column = roiTaps(n, columns, x[3]);
  if (!row.index || !column.index)
    return failure();
  Value base = n.mul(n.convert(n.castDims(n[2], {regions}), i64),
                     n.sizeScalar(x[2] * x[3], i64));
  Value line = n.add(n.mul(row.index, n.sizeScalar(x[3], i64)),
                     n.broadcastAt(base, {0}, ts::dimsOf(row.index)));
  auto [lines, inLine] = onPlaces(line, column.index);
  auto [rowWeight, columnWeight] = onPlaces(row.weight, column.weight);
  auto [rowInside, columnInside] = onPlaces(row.inside, column.inside);
  Value pixels = n.reshape(n.transpose(n[0], {0, 2, 3, 1}),
                           {x[0] * x[2] * x[3], channels});
  Value sampled = n.convert(
      n.make<ts::GatherOp>(pixels, n.add(lines, inLine), uint64_t(0)), fine);
  sampled = n.mul(sampled, forChannels(n.mul(rowWeight, columnWeight)));
  // Not a weight of 0: what lies at the clamped place may be infinite.
  Value inside = n.binary<ts::AndOp>(rowInside, columnInside);
  sampled = n.select(forChannels(inside), sampled, n.scalar(0, fine));
  Value counted;
  if (rows.counted) {
    auto [rowCounted, columnCounted] = onPlaces(rows.counted, columns.counted);
    counted = forChannels(n.binary<ts::AndOp>(rowCounted, columnCounted));
  }
  Value count = n.binary<ts::MaxOp>(n.mul(rows.count, columns.count),
                                    n.integerScalar(0, i64));
  SmallVector<Dim> result{regions, n.dim(height), n.dim(width), channels};
  Value y;
  if (mode == "avg") {
    if (counted)
      sampled = n.select(counted, sampled, n.scalar(0, fine));
    Value divisor = n.binary<ts::MaxOp>(count, n.integerScalar(1, i64));
    y = n.reduce(ts::ReduceKind::add, sampled, {2, 4}, false);
    y = n.div(y, n.broadcastAt(n.convert(divisor, fine), {0}, result));
  } else {
    if (counted)
      sampled =
          n.select(counted, sampled,
                   n.scalar(-std::numeric_limits<double>::infinity(), fine));
    y = n.reduce(ts::ReduceKind::max, sampled, {2, 4}, false);
    // A region without a sample is 0.
    Value some = n.compare(P::gt, n.broadcastAt(count, {0}, result),
                           n.integerScalar(0, i64));
    y = n.select(some, y, n.scalar(0, fine));
  }
  y = n.transpose(n.convert(y, element), {0, 3, 1, 2});
  return n.out(y);
}

constexpr OpRow rows[] = {
    {"", "DeformConv", 19, 3, 5, importDeformConv},
    {"", "GridSample", 16, 2, 2, importGridSample},
    {"", "RoiAlign", 10, 3, 3, importRoiAlign},
};

} // namespace

ArrayRef<OpRow> samplingRows() { return rows; }

} // namespace knapper
