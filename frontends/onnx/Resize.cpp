// Resampling, and grids of positions for it. Each resized dim is a weighted sum
// of a few gathers; positions and weights are constants where the sizes are.
#include "frontends/onnx/ResizePositions.h"
#include "frontends/onnx/RuntimeSizes.h"

#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// Positions of larger dims are computed at run time: as constants they would
/// be as large as a line of the result.
constexpr int64_t mostConstantPositions = 65536;

/// Where the elements of one output dim come from.
struct Taps {
  /// [tap][position]
  std::vector<std::vector<int64_t>> index;
  std::vector<std::vector<double>> weight;
  std::vector<bool> outside; ///< positions that get the extrapolation value
};

double cubicWeight(double x, double a) {
  x = std::abs(x);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// Weights of the elements around a position; `ratio` in (0, 1] is its distance
/// from the left one of the middle two.
std::vector<double> weightsOf(const ResizeSettings &s, double ratio,
                              double scale) {
  if (s.mode == "nearest") {
    bool right = ratio == 1                          ? true
                 : s.nearest == "round_prefer_floor" ? ratio > 0.5
                 : s.nearest == "round_prefer_ceil"  ? ratio >= 0.5
                 : s.ceilToShrink && scale < 1      ? true
                                                     : s.nearest == "ceil";
    return {right ? 0.0 : 1.0, right ? 1.0 : 0.0};
  }
  bool cubic = s.mode == "cubic";
  double shrink = s.antialias ? std::min(scale, 1.0) : 1.0;
  double reach = cubic ? 2 : 1;
  auto first = static_cast<int64_t>(std::floor(-reach / shrink)) + 1;
  int64_t count = 2 - 2 * first;
  std::vector<double> weights;
  double sum = 0;
  for (int64_t i = first; i < first + count; ++i) {
    double x = (static_cast<double>(i) - ratio) * shrink;
    weights.push_back(cubic ? cubicWeight(x, s.cubic)
                            : std::max(0.0, 1 - std::abs(x)));
    sum += weights.back();
  }
  if (s.antialias && sum != 0)
    for (double &weight : weights)
      weight /= sum;
  return weights;
}

Taps tapsOf(const ResizeSettings &s, int64_t in, int64_t out,
            Scale<double> ratio, bool scaleOfSizes, double roiStart,
            double roiEnd) {
  Taps taps;
  double length = static_cast<double>(in), scale = ratio.to / ratio.from;
  Positions<double> p = positionsOf(
      s.coordinates, length, static_cast<double>(out), ratio, scaleOfSizes,
      roiStart, roiEnd, [](double value) { return value; });
  for (int64_t o = 0; o < out; ++o) {
    double at =
        p.resized == 1 && p.alone
            ? *p.alone
            : (p.factor * static_cast<double>(o) + p.offset) / p.divisor;
    // Positions far outside are all the same; NaN counts as one.
    at = at >= -1e6 ? std::min(at, length + 1e6) : -1e6;
    taps.outside.push_back(s.coordinates == "tf_crop_and_resize" &&
                           (at < 0 || at > length - 1));
    double whole = std::floor(at);
    double ratio = at == whole ? 1 : at - whole;
    auto left = static_cast<int64_t>(whole) - (at == whole ? 1 : 0);
    std::vector<double> weights = weightsOf(s, ratio, scale);
    auto count = static_cast<int64_t>(weights.size());
    taps.index.resize(weights.size());
    taps.weight.resize(weights.size());
    double sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      int64_t index = left - (count / 2 - 1) + k;
      if (s.excludeOutside && (index < 0 || index >= in))
        weights[k] = 0;
      sum += weights[k];
      taps.index[k].push_back(std::clamp<int64_t>(index, 0, in - 1));
    }
    for (int64_t k = 0; k < count; ++k)
      taps.weight[k].push_back(s.excludeOutside ? weights[k] / sum
                                                : weights[k]);
  }
  return taps;
}

Value vectorOf(Node &n, ArrayRef<double> values, Type element) {
  SmallVector<float> data(values.begin(), values.end());
  return n.convert(
      n.constant(DenseElementsAttr::get(
          RankedTensorType::get({static_cast<int64_t>(data.size())},
                                n.b.getF32Type()),
          ArrayRef<float>(data))),
      element);
}

Value gatherAt(Node &n, Value x, int64_t axis, ArrayRef<int64_t> index) {
  Value positions = n.constant(DenseElementsAttr::get(
      RankedTensorType::get({static_cast<int64_t>(index.size())},
                            n.b.getI64Type()),
      index));
  return n.make<ts::GatherOp>(x, positions, uint64_t(axis));
}

/// Every element `times` times along a dim, of any size.
Value repeatDim(Node &n, Value x, int64_t axis, int64_t times) {
  SmallVector<Dim> dims = ts::dimsOf(x), wide = dims, merged = dims;
  SmallVector<int64_t> at;
  for (int64_t i = 0; i < static_cast<int64_t>(dims.size()); ++i)
    at.push_back(i <= axis ? i : i + 1);
  wide.insert(wide.begin() + axis + 1, n.dim(times));
  merged[axis] = dims[axis] * times;
  return n.reshape(n.broadcastAt(x, at, wide), merged);
}

/// How often every one of `size` elements comes after the other, if each comes
/// equally often; otherwise 0.
int64_t repetitions(ArrayRef<int64_t> index, int64_t size) {
  auto count = static_cast<int64_t>(index.size());
  int64_t times = size ? count / size : 0;
  if (!times || count % size)
    return 0;
  for (auto [o, i] : llvm::enumerate(index))
    if (i != static_cast<int64_t>(o) / times)
      return 0;
  return times;
}

Value resizeDim(Node &n, Value x, int64_t axis, const ResizeSettings &s,
                const Taps &taps) {
  if (s.mode == "nearest") { // one element each
    std::vector<int64_t> index;
    for (size_t o = 0; o < taps.outside.size(); ++o)
      index.push_back(taps.weight[0][o] == 1 ? taps.index[0][o]
                                             : taps.index[1][o]);
    if (int64_t times = repetitions(index, *ts::dimOf(x, axis).asConstant()))
      return repeatDim(n, x, axis, times);
    return gatherAt(n, x, axis, index);
  }
  Value sum;
  for (size_t k = 0; k < taps.index.size(); ++k) {
    if (llvm::all_of(taps.weight[k], [](double w) { return w == 0; }))
      continue;
    Value part = gatherAt(n, x, axis, taps.index[k]);
    if (!part)
      return {};
    part = n.mul(
        part, n.broadcastAt(vectorOf(n, taps.weight[k], ts::elementTypeOf(x)),
                            {axis}, ts::dimsOf(part)));
    sum = sum ? n.add(sum, part) : part;
  }
  return sum;
}

/// Whether every element of a dim comes `scale` times.
bool repeats(const ResizeSettings &s, double scale) {
  if (scale < 1 || scale != std::floor(scale) || s.mode != "nearest")
    return false;
  if (s.coordinates == "asymmetric")
    return s.nearest == "floor";
  return (s.coordinates == "half_pixel" ||
          s.coordinates == "pytorch_half_pixel") &&
         (s.nearest == "round_prefer_floor" ||
          s.nearest == "round_prefer_ceil");
}

/// floor(scale * in), exactly: a scale of 24 bits is an integer over a power of
/// two.
std::optional<Dim> scaled(Dim in, double scale) {
  int exponent = 0;
  double fraction = std::frexp(scale, &exponent);
  auto mantissa = static_cast<int64_t>(std::ldexp(fraction, 24));
  int shift = 24 - exponent;
  if (std::ldexp(static_cast<double>(mantissa), -shift) != scale || shift < 0 ||
      shift > 40)
    return std::nullopt;
  return (in * mantissa).floorDiv(in.like(int64_t(1) << shift));
}

/// By the inputs that Resize has since opset 11.
LogicalResult resizeAtRunTime(Node &n, const ResizeSettings &s,
                              ArrayRef<int64_t> axes) {
  auto filled = [&](size_t i) -> Value {
    bool given = n.has(i) && !ts::elementCount(n[i].getType()).isConstant(0);
    return given ? n[i] : Value();
  };
  Value scales = filled(2);
  return resizeAtRunTime(n, s, axes, scales, scales ? Value() : filled(3),
                         s.coordinates == "tf_crop_and_resize" ? filled(1)
                                                               : Value());
}

/// A dim's positions without a source, as a mask of the whole.
Value maskOf(Node &n, const std::vector<bool> &outside, int64_t axis,
             int64_t rank) {
  SmallVector<bool> flags(outside.begin(), outside.end());
  auto count = static_cast<int64_t>(flags.size());
  Value mask = n.constant(DenseElementsAttr::get(
      RankedTensorType::get({count}, n.b.getI1Type()), flags));
  SmallVector<Dim> dims(rank, n.dim(1));
  dims[axis] = n.dim(count);
  return n.reshape(mask, dims);
}

/// The scale of all dims where they keep their aspect ratio.
struct Common : std::optional<Scale<int64_t>> {
  bool isSymbolic = false; ///< it is known at run time only
};

Common commonScale(Node &n, ArrayRef<int64_t> axes, ArrayRef<Dim> sizes) {
  Common common;
  bool takesLeast =
      n.text("keep_aspect_ratio_policy", "stretch") == "not_larger";
  for (auto [axis, size] : llvm::zip(axes, sizes)) {
    std::optional<int64_t> in = ts::dimOf(n[0], axis).asConstant(),
                           to = size.asConstant();
    // Products of larger ones are no 64-bit numbers.
    constexpr int64_t most = 1 << 30;
    if (!in || !to || *in > most || *to < 0 || *to > most) {
      common.isSymbolic = true;
      return common;
    }
    if (*in < 1)
      continue;
    bool smaller = common && *to * common->from < common->to * *in;
    if (!common || smaller == takesLeast)
      common.emplace(Scale<int64_t>{*to, *in});
  }
  return common;
}

LogicalResult resize(Node &n, const ResizeSettings &s, ArrayRef<int64_t> axes,
                     ArrayRef<double> scales, ArrayRef<Dim> sizes,
                     ArrayRef<double> roi) {
  size_t count = axes.size();
  if ((scales.empty() ? sizes.size() : scales.size()) != count)
    return n.fail("has " +
                      Twine(scales.empty() ? sizes.size() : scales.size()) +
                      " scales or sizes for " + Twine(count) + " dims",
                  "give one a dim");
  Value x = n[0];
  Type element = ts::elementTypeOf(x);
  if (s.mode != "nearest" && !isa<FloatType>(element))
    x = n.convert(x, n.b.getF32Type());
  Value outside; // positions without a source
  Common common;
  if (!sizes.empty() &&
      n.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    common = commonScale(n, axes, sizes);
  if (common.isSymbolic)
    return resizeAtRunTime(n, s, axes);
  for (size_t i = 0; i < count; ++i) {
    if (!x)
      return failure();
    int64_t axis = axes[i];
    Dim size = ts::dimOf(x, axis);
    std::optional<int64_t> in = size.asConstant();
    double scale = scales.empty() ? 0 : scales[i];
    if (!scales.empty() && !(scale > 0 && scale < 1e6))
      return n.fail("has the scale " + std::to_string(scale),
                    "give a positive scale");
    bool whole = s.coordinates == "tf_crop_and_resize";
    if (scale == 1 && !whole)
      continue;
    Dim wanted = sizes.empty() ? Dim() : sizes[i];
    if (!in || (wanted && wanted.isSymbolic())) {
      if (wanted == size && !whole)
        continue;
      std::optional<Dim> factor = wanted ? wanted.exactDiv(size) : std::nullopt;
      double times = factor && factor->asConstant()
                         ? static_cast<double>(*factor->asConstant())
                         : scale;
      if (repeats(s, times)) {
        x = repeatDim(n, x, axis, static_cast<int64_t>(times));
        continue;
      }
      std::optional<Dim> out = wanted ? wanted : scaled(size, scale);
      if (!out || whole || s.antialias) {
        if (n.has(2) || n.has(3))
          return resizeAtRunTime(n, s, axes);
        return n.unsupported("resizing a symbolic dim by a scale of more than "
                             "24 bits");
      }
      x = resizeSymbolicDim(n, x, axis, s,
                            RuntimeResize::of(n, size, *out, scale), nullptr);
      continue;
    }
    if (*in < 1)
      return n.fail("resizes an empty dim", "give a larger input");
    int64_t out = 0;
    Scale<double> ratio{scale, 1};
    if (!scales.empty()) {
      out = static_cast<int64_t>(
          std::floor(std::min(scale * static_cast<double>(*in), 1e12)));
    } else {
      out = *wanted.asConstant();
      if (common) // halves up
        out = (2 * common->to * *in / common->from + 1) / 2;
      ratio = common ? Scale<double>{static_cast<double>(common->to),
                                     static_cast<double>(common->from)}
                     : Scale<double>{static_cast<double>(out),
                                     static_cast<double>(*in)};
      scale = ratio.to / ratio.from;
      if (out == *in && scale == 1 && !whole)
        continue;
    }
    if (out == 0) {
      x = n.sliceDim(x, axis, n.dim(0), n.dim(0));
      continue;
    }
    if (out < 0)
      return n.fail("has a size of " + Twine(out), "give a size");
    if (out > mostConstantPositions) {
      if (whole || s.antialias || common)
        return resizeAtRunTime(n, s, axes);
      x = repeats(s, scale) && out % *in == 0
              ? repeatDim(n, x, axis, out / *in)
              : resizeSymbolicDim(n, x, axis, s,
                                  RuntimeResize::of(n, size, n.dim(out),
                                                    scales.empty() ? 0 : scale),
                                  nullptr);
      continue;
    }
    double from = roi.empty() ? 0 : roi[i],
           to = roi.empty() ? 1 : roi[i + count];
    if (s.antialias && s.mode != "nearest" && scale < 1.0 / 16)
      return resizeAtRunTime(n, s, axes); // not a gather for each tap
    Taps taps = tapsOf(s, *in, out, ratio, scales.empty() && !common, from, to);
    x = resizeDim(n, x, axis, s, taps);
    if (x && llvm::is_contained(taps.outside, true)) {
      Value mask = maskOf(n, taps.outside, axis, ts::rankOf(x));
      outside = outside ? n.binary<ts::OrOp>(outside, mask) : mask;
    }
  }
  if (outside)
    x = n.select(outside, n.scalarFor(x, s.extrapolation), x);
  return n.out(n.convert(x, element));
}

LogicalResult importResize(Node &n) {
  ResizeSettings s;
  s.mode = n.text("mode", "nearest");
  s.coordinates = n.text("coordinate_transformation_mode", "half_pixel");
  s.nearest = n.text("nearest_mode", "round_prefer_floor");
  s.cubic = n.real("cubic_coeff_a", -0.75);
  s.extrapolation = n.real("extrapolation_value", 0);
  s.excludeOutside = n.flag("exclude_outside", false);
  s.antialias = n.flag("antialias", false);
  if (s.mode != "nearest" && s.mode != "linear" && s.mode != "cubic")
    return n.fail("mode is '" + s.mode + "'", "use nearest, linear or cubic");
  constexpr StringLiteral coordinates[] = {
      "half_pixel",         "half_pixel_symmetric", "pytorch_half_pixel",
      "align_corners",      "asymmetric",           "tf_half_pixel_for_nn",
      "tf_crop_and_resize",
  };
  if (!llvm::is_contained(coordinates, s.coordinates))
    return n.fail("coordinate_transformation_mode is '" + s.coordinates + "'",
                  "use half_pixel, pytorch_half_pixel, align_corners, "
                  "asymmetric, half_pixel_symmetric, tf_half_pixel_for_nn or "
                  "tf_crop_and_resize");
  constexpr StringLiteral roundings[] = {"round_prefer_floor",
                                         "round_prefer_ceil", "floor", "ceil"};
  if (!llvm::is_contained(roundings, s.nearest))
    return n.fail("nearest_mode is '" + s.nearest + "'",
                  "use round_prefer_floor, round_prefer_ceil, floor or ceil");
  int64_t rank = ts::rankOf(n[0]);
  SmallVector<int64_t> axes = n.axesOrAll(rank);
  SmallVector<double> scales, roi;
  SmallVector<Dim> sizes;
  auto filled = [&](size_t i) {
    return n.has(i) && !ts::elementCount(n[i].getType()).isConstant(0);
  };
  if (!filled(2) && !filled(3))
    return n.fail("has neither scales nor sizes", "give one of them");
  if (n.failed())
    return failure();
  bool cropped = filled(1) && s.coordinates == "tf_crop_and_resize";
  auto isConstant = [&](size_t i) {
    return n[i].getDefiningOp<ts::ConstantOp>() != nullptr;
  };
  if (filled(2) ? !isConstant(2) : !isKnown(n, n[3]))
    return resizeAtRunTime(n, s, axes);
  if (cropped && !isConstant(1))
    return resizeAtRunTime(n, s, axes);
  if (filled(2)) {
    std::optional<SmallVector<double>> given = n.realNumbers(n[2], "scales");
    if (!given)
      return failure();
    scales = *given;
  } else {
    std::optional<SmallVector<Dim>> given = n.sizes(n[3], "sizes");
    if (!given)
      return failure();
    sizes = *given;
  }
  if (cropped) {
    std::optional<SmallVector<double>> given = n.realNumbers(n[1], "roi");
    if (!given)
      return failure();
    roi = *given;
    if (roi.size() != 2 * axes.size())
      return n.fail("roi has " + Twine(roi.size()) + " entries",
                    "give a start and an end a dim");
  }
  if (n.failed())
    return failure();
  return resize(n, s, axes, scales, sizes, roi);
}

/// Resize of opset 10, and Upsample: coordinates scale. How nearest rounds is
/// not specified; ONNX's tests of that opset round down where a dim grows and up
/// where it shrinks.
LogicalResult importOldResize(Node &n) {
  ResizeSettings s;
  s.mode = n.text("mode", "nearest");
  if (s.mode == "bilinear" || s.mode == "trilinear")
    s.mode = "linear";
  if (s.mode != "nearest" && s.mode != "linear")
    return n.fail("mode is '" + s.mode + "'", "use nearest or linear");
  s.coordinates = "asymmetric";
  s.nearest = "floor";
  s.ceilToShrink = true;
  SmallVector<double> scales = n.reals("scales");
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, ts::rankOf(n[0])));
  if (n.has(1) && !n[1].getDefiningOp<ts::ConstantOp>())
    return resizeAtRunTime(n, s, axes, n[1], {}, {});
  if (n.has(1)) {
    std::optional<SmallVector<double>> given = n.realNumbers(n[1], "scales");
    if (!given)
      return failure();
    scales = *given;
  }
  if (n.failed())
    return failure();
  return resize(n, s, axes, scales, {}, {});
}

/// grid[n, y, x] = theta[n] * (x, y, 1) for coordinates from -1 to 1; with a
/// depth theta[n] * (x, y, z, 1).
LogicalResult importAffineGrid(Node &n) {
  std::optional<SmallVector<Dim>> size = sizesOrSymbols(n, n[1], "the size");
  if (!size)
    return failure();
  int64_t spatial = static_cast<int64_t>(size->size()) - 2;
  if (ts::rankOf(n[0]) != 3 || (spatial != 2 && spatial != 3))
    return n.fail("theta " + ts::shapeText(n[0].getType()) + " and " +
                      Twine(size->size()) + " sizes do not fit",
                  "theta is [N, 2, 3] for [N, C, H, W], [N, 3, 4] for "
                  "[N, C, D, H, W]");
  Type element = ts::elementTypeOf(n[0]);
  if (!isa<FloatType>(element))
    return n.fail("theta is " + ts::shapeText(n[0].getType()),
                  "convert it to a float type");
  // Coordinates of 16 bits would be off by elements of a large image.
  Type wide = element.getIntOrFloatBitWidth() < 32 ? n.b.getF32Type() : element;
  Value theta = n.convert(
      n.castDims(n[0], {size->front(), n.dim(spatial), n.dim(spatial + 1)}),
      wide);
  SmallVector<Dim> dims{size->front()};
  llvm::append_range(dims, ArrayRef<Dim>(*size).drop_front(2));
  dims.push_back(n.dim(spatial));
  auto column = [&](int64_t j) {
    Value values = n.sliceDim(theta, 2, n.dim(j), n.dim(1));
    return n.broadcastAt(n.reshape(values, {size->front(), n.dim(spatial)}),
                         {0, spatial + 1}, dims);
  };
  bool corners = n.flag("align_corners", false);
  Value sum = column(spatial);
  for (int64_t j = 0; j < spatial; ++j) {
    int64_t axis = spatial - j; // x is the last dim of the image
    Dim count = dims[axis];
    Value at =
        n.mul(n.makeAs<ts::IotaOp>(n.type({count}, wide), uint64_t(0)), 2.0);
    if (corners) // one element alone stands at -1
      at = n.div(at, n.sizeScalar((count - 1).max(n.dim(1)), wide));
    else
      at = n.div(n.add(at, 1.0), n.sizeScalar(count, wide));
    sum = n.add(sum,
                n.mul(column(j), n.broadcastAt(n.add(at, -1.0), {axis}, dims)));
  }
  return n.out(n.convert(sum, element));
}

constexpr OpRow rows[] = {
    {"", "AffineGrid", 20, 2, 2, importAffineGrid},
    {"", "Resize", 10, 2, 2, importOldResize, 10},
    {"", "Resize", 11, 1, 4, importResize},
    {"", "Upsample", 7, 1, 2, importOldResize, 9},
};

} // namespace

ArrayRef<OpRow> resizeRows() { return rows; }

} // namespace knapper
