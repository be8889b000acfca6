// Resize where a size, a scale or the region is known at run time only.
#include "frontends/onnx/ResizePositions.h"
#include "frontends/onnx/RuntimeSizes.h"

using namespace mlir;

namespace knapper {

using ts::Dim;
using K = ts::ReduceKind;
using P = ts::ComparePredicate;

namespace {

/// The weight of an element at distance `d` of a position, |d| below 1 and 2.
struct Cubic {
  Node &n;
  double a;

  Value near(Value d) const {
    return n.add(n.mul(n.mul(n.add(n.mul(d, a + 2), -(a + 3)), d), d), 1.0);
  }
  Value far(Value d) const {
    Value inner = n.add(n.mul(n.add(n.mul(d, a), -5 * a), d), 8 * a);
    return n.add(n.mul(inner, d), -4 * a);
  }
};

Value number(Node &n, double value) {
  return n.scalar(value, n.b.getF64Type());
}

/// [out] f64: where the elements lie in the input.
Value positions(Node &n, const ResizeSettings &s, const RuntimeResize &how,
                Value length) {
  Type f64 = n.b.getF64Type();
  auto make = [&](double value) { return Scalar{&n, number(n, value)}; };
  Positions<Scalar> p = positionsOf(
      s.coordinates, Scalar{&n, length}, Scalar{&n, n.sizeScalar(how.out, f64)},
      how.scale, how.scaleOfSizes, how.roiStart, how.roiEnd, make);
  Value to = n.makeAs<ts::IotaOp>(n.type({how.out}, f64), uint64_t(0));
  Value at =
      n.div(n.add(n.mul(to, p.factor.value), p.offset.value), p.divisor.value);
  if (p.alone)
    at = n.select(n.compare(P::eq, p.resized.value, number(n, 1)),
                  n.broadcastTo(p.alone->value, {how.out}), at);
  at = n.binary<ts::MaxOp>(at, number(n, -1e6));
  return n.binary<ts::MinOp>(at, n.add(length, 1e6));
}

/// Antialiasing reaches as far as the scale asks for: each output is a sum of
/// as many weighted elements, [out, taps]. A line goes on at both ends with its
/// last element.
Value antialiased(Node &n, Value x, int64_t axis, const ResizeSettings &s,
                  const RuntimeResize &how, Value at, Value length) {
  Type f64 = n.b.getF64Type(), i64 = n.b.getI64Type();
  bool cubic = s.mode == "cubic";
  Value scale = n.div(how.scale.to.value, how.scale.from.value),
        shrink = n.binary<ts::MinOp>(scale, number(n, 1));
  Value reach = n.make<ts::CeilOp>(n.div(number(n, cubic ? 2 : 1), shrink));
  Dim beyond = n.bindSize(n.convert(n.add(reach, 1.0), i64), "reach"),
      taps = beyond * 2;
  SmallVector<Dim> both{how.out, taps};
  Value tap = n.sub(n.makeAs<ts::IotaOp>(n.type({taps}, f64), uint64_t(0)),
                    n.sizeScalar(beyond - 1, f64));
  at = n.broadcastAt(at, {0}, both);
  Value place = n.add(n.make<ts::FloorOp>(at), n.broadcastAt(tap, {1}, both));
  Value d = n.make<ts::AbsOp>(n.mul(n.sub(place, at), shrink));
  Value zero = number(n, 0), weight;
  if (cubic) {
    Cubic c{n, s.cubic};
    weight =
        n.select(n.compare(P::le, d, number(n, 1)), c.near(d),
                 n.select(n.compare(P::lt, d, number(n, 2)), c.far(d), zero));
  } else {
    weight = n.binary<ts::MaxOp>(n.sub(number(n, 1), d), zero);
  }
  Value last = n.add(length, -1.0);
  if (s.excludeOutside) {
    Value inside = n.binary<ts::AndOp>(n.compare(P::ge, place, zero),
                                       n.compare(P::le, place, last));
    weight = n.select(inside, weight, zero);
  }
  weight = n.div(weight, n.reduce(K::add, weight, {1}, true));
  weight = n.convert(weight, ts::elementTypeOf(x));
  Value nearest = n.binary<ts::MaxOp>(n.binary<ts::MinOp>(place, last), zero);
  Value lines =
      n.make<ts::GatherOp>(x, n.convert(nearest, i64), uint64_t(axis));
  if (!lines || !weight)
    return {};
  weight = n.broadcastAt(weight, {axis, axis + 1}, ts::dimsOf(lines));
  return n.reduce(K::add, n.mul(lines, weight), {axis + 1}, false);
}

} // namespace

RuntimeResize RuntimeResize::of(Node &n, Dim in, Dim out, double scale) {
  Type f64 = n.b.getF64Type();
  auto make = [&](Value value) { return Scalar{&n, value}; };
  bool given = scale != 0;
  return {out,
          {make(given ? number(n, scale) : n.sizeScalar(out, f64)),
           make(given ? number(n, 1) : n.sizeScalar(in, f64))},
          !given,
          make(number(n, 0)),
          make(number(n, 1))};
}

Value resizeSymbolicDim(Node &n, Value x, int64_t axis, const ResizeSettings &s,
                        const RuntimeResize &how, Value *outside) {
  Type f64 = n.b.getF64Type(), i64 = n.b.getI64Type();
  Value length = n.sizeScalar(ts::dimOf(x, axis), f64);
  Value at = positions(n, s, how, length);
  Value last = n.add(length, -1.0), zero = number(n, 0);
  if (outside && s.coordinates == "tf_crop_and_resize") {
    Value mask = n.binary<ts::OrOp>(n.compare(P::lt, at, zero),
                                    n.compare(P::gt, at, last));
    SmallVector<Dim> dims(ts::rankOf(x), n.dim(1));
    dims[axis] = how.out;
    mask = n.reshape(mask, dims);
    *outside = *outside ? n.binary<ts::OrOp>(*outside, mask) : mask;
  }
  if (s.antialias && s.mode != "nearest")
    return antialiased(n, x, axis, s, how, at, length);
  auto element = [&](Value position) {
    Value inside =
        n.binary<ts::MaxOp>(n.binary<ts::MinOp>(position, last), zero);
    return n.make<ts::GatherOp>(x, n.convert(inside, i64), uint64_t(axis));
  };
  if (s.mode == "nearest") {
    if (s.ceilToShrink)
      return element(n.select(
          n.compare(P::lt, how.scale.to.value, how.scale.from.value),
          n.make<ts::CeilOp>(at), n.make<ts::FloorOp>(at)));
    if (s.nearest == "floor")
      return element(n.make<ts::FloorOp>(at));
    if (s.nearest == "ceil")
      return element(n.make<ts::CeilOp>(at));
    return element(s.nearest == "round_prefer_floor"
                       ? n.make<ts::CeilOp>(n.add(at, -0.5))
                       : n.make<ts::FloorOp>(n.add(at, 0.5)));
  }
  Value left = n.make<ts::FloorOp>(at), ratio = n.sub(at, left);
  Cubic cubic{n, s.cubic};
  Value rest = n.sub(number(n, 1), ratio);
  struct Tap {
    double offset;
    Value weight;
  };
  SmallVector<Tap> taps;
  if (s.mode == "linear")
    taps = {{0, rest}, {1, ratio}};
  else
    taps = {{-1, cubic.far(n.add(ratio, 1.0))},
            {0, cubic.near(ratio)},
            {1, cubic.near(rest)},
            {2, cubic.far(n.add(rest, 1.0))}};
  if (s.excludeOutside) {
    Value total;
    for (Tap &tap : taps) {
      Value position = n.add(left, tap.offset);
      Value inside = n.binary<ts::AndOp>(
          n.compare(ts::ComparePredicate::ge, position, zero),
          n.compare(ts::ComparePredicate::le, position, last));
      tap.weight = n.select(inside, tap.weight, n.splatLike(0, at));
      total = total ? n.add(total, tap.weight) : tap.weight;
    }
    for (Tap &tap : taps)
      tap.weight = n.div(tap.weight, total);
  }
  Value sum;
  for (const Tap &tap : taps) {
    Value part = element(n.add(left, tap.offset));
    Value weight = n.convert(tap.weight, ts::elementTypeOf(x));
    if (!part || !weight)
      return {};
    part = n.mul(part, n.broadcastAt(weight, {axis}, ts::dimsOf(part)));
    sum = sum ? n.add(sum, part) : part;
  }
  return sum;
}

/// The scale of all dims where they keep their aspect ratio, as `policy` says:
/// the least or the largest of the wanted ones. Dims without an element have
/// none.
static Scale<Scalar> commonScale(Node &n, StringRef policy, ArrayRef<Dim> from,
                                 ArrayRef<Dim> wanted) {
  Type f64 = n.b.getF64Type();
  bool takesLeast = policy == "not_larger";
  constexpr double noScale = 1e300;
  Value to = number(n, takesLeast ? noScale : 0), by = number(n, 1);
  for (auto [in, out] : llvm::zip(from, wanted)) {
    Value mine = n.sizeScalar(out, f64), length = n.sizeScalar(in, f64);
    Value better = n.compare(takesLeast ? P::lt : P::gt, n.mul(mine, by),
                             n.mul(to, length));
    better =
        n.binary<ts::AndOp>(better, n.compare(P::gt, length, number(n, 0)));
    to = n.select(better, mine, to);
    by = n.select(better, length, by);
  }
  return {{&n, to}, {&n, by}};
}

/// How each dim is resized, without the region; nothing on failure.
static std::optional<SmallVector<RuntimeResize>>
factors(Node &n, ArrayRef<Dim> from, Value scales, Value sizes) {
  Type f64 = n.b.getF64Type(), i64 = n.b.getI64Type();
  auto length = [&](Dim dim) { return n.sizeScalar(dim, f64); };
  SmallVector<RuntimeResize> result(from.size());
  std::string policy = n.text("keep_aspect_ratio_policy", "stretch");
  SmallVector<Dim> wanted;
  std::optional<Scale<Scalar>> common;
  if (sizes) {
    wanted = symbolsOf(n, asList(n, sizes), static_cast<int64_t>(from.size()),
                       "resized");
    if (policy != "stretch")
      common = commonScale(n, policy, from, wanted);
  }
  for (auto [i, in] : llvm::enumerate(from)) {
    RuntimeResize &how = result[i];
    Value out;
    if (scales) {
      Value scale =
          n.convert(elementOf(n, scales, static_cast<int64_t>(i)), f64);
      require(n,
              n.binary<ts::AndOp>(n.compare(P::gt, scale, number(n, 0)),
                                  n.compare(P::lt, scale, number(n, 1e6))),
              "a scale is not above 0 and below 10^6");
      how.scale = {{&n, scale}, {&n, number(n, 1)}};
      out = n.make<ts::FloorOp>(n.mul(scale, length(in)));
    } else if (common) { // halves up
      how.scale = *common;
      out = n.make<ts::FloorOp>(n.add(
          n.div(n.mul(common->to.value, length(in)), common->from.value), 0.5));
    } else {
      how.out = wanted[i];
      how.scale = {{&n, length(how.out)}, {&n, length(in)}};
      how.scaleOfSizes = true;
    }
    if (out)
      how.out = n.bindSize(n.convert(out, i64), "resized");
    if (!n.failed())
      require(n, how.out.min(n.dim(1)), P::le, in,
              "resizes a dim that has no element");
  }
  if (n.failed())
    return std::nullopt;
  return result;
}

LogicalResult resizeAtRunTime(Node &n, const ResizeSettings &s,
                              ArrayRef<int64_t> axes, Value scales, Value sizes,
                              Value roi) {
  auto count = static_cast<int64_t>(axes.size());
  if (lengthOf(scales ? scales : sizes) != count)
    return n.unsupported("scales or sizes depend on data and are not one for "
                         "each dim");
  if (roi && lengthOf(roi) != 2 * count)
    return n.unsupported("roi depends on data and is no start and end for each "
                         "dim");
  Value x = n[0];
  Type element = ts::elementTypeOf(x);
  if (s.mode != "nearest" && !isa<FloatType>(element))
    x = n.convert(x, n.b.getF32Type());
  SmallVector<Dim> from;
  for (int64_t axis : axes)
    from.push_back(ts::dimOf(n[0], axis));
  std::optional<SmallVector<RuntimeResize>> all =
      factors(n, from, scales, sizes);
  if (!all)
    return failure();
  auto bound = [&](int64_t i, double otherwise) -> Scalar {
    Type f64 = n.b.getF64Type();
    return {&n,
            roi ? n.convert(elementOf(n, roi, i), f64) : number(n, otherwise)};
  };
  Value outside;
  for (int64_t i = 0; i < count; ++i) {
    RuntimeResize &how = (*all)[static_cast<size_t>(i)];
    if (how.scaleOfSizes && how.out == from[static_cast<size_t>(i)] &&
        s.coordinates != "tf_crop_and_resize")
      continue;
    how.roiStart = bound(i, 0);
    how.roiEnd = bound(i + count, 1);
    x = resizeSymbolicDim(n, x, axes[i], s, how, &outside);
    if (!x)
      return failure();
  }
  if (outside)
    x = n.select(outside, n.scalarFor(x, s.extrapolation), x);
  return n.out(n.convert(x, element));
}

} // namespace knapper
