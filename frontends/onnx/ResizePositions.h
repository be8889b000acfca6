//===- ResizePositions.h - Where the elements of a resized dim come from --===//
//
// The formulas of ONNX's Resize, once for numbers (Resize.cpp: positions and
// weights are constants) and once for scalars of the graph
// (ResizeAtRunTime.cpp: they are computed when the program runs).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/onnx/Node.h"

namespace knapper {

struct ResizeSettings {
  std::string mode, coordinates, nearest;
  double cubic = -0.75, extrapolation = 0;
  bool excludeOutside = false, antialias = false;
  bool ceilToShrink = false; ///< nearest rounds up where a dim becomes shorter
};

/// Output over input length, as two numbers that are integers where the sizes
/// decide it.
template <class Number> struct Scale {
  Number to, from;
};

/// Where output element o lies in the input: (factor * o + offset) / divisor.
/// With one division of numbers that are exact, the position is exact wherever
/// it is a whole number or ends in a half, which is what rounding asks for.
template <class Number> struct Positions {
  Number factor, offset, divisor;
  Number resized;              ///< length after scaling, not rounded
  std::optional<Number> alone; ///< the position if `resized` is 1
};

/// `Number` has the arithmetic of double; `number` makes one.
template <class Number, class Make>
Positions<Number> positionsOf(llvm::StringRef coordinates, Number in,
                              Number out, Scale<Number> scale,
                              bool scaleOfSizes, Number roiStart, Number roiEnd,
                              Make number) {
  Number one = number(1), two = number(2), zero = number(0);
  Number to = scale.to, from = scale.from;
  // The length after scaling, resized / whole.
  Number resized = scaleOfSizes ? out : to * in;
  Number whole = scaleOfSizes ? one : from;
  Number last = in - one, lastResized = resized - whole;
  Positions<Number> p{two * from, from - to, two * to, resized / whole, {}};
  if (coordinates == "align_corners") {
    p.factor = last * whole, p.offset = zero, p.divisor = lastResized;
    p.alone = zero;
  } else if (coordinates == "tf_half_pixel_for_nn") {
    p.offset = from;
  } else if (coordinates == "asymmetric") {
    p.factor = from, p.offset = zero, p.divisor = to;
  } else if (coordinates == "tf_crop_and_resize") {
    p.factor = (roiEnd - roiStart) * last * whole;
    p.offset = roiStart * last * lastResized, p.divisor = lastResized;
    p.alone = (roiStart + roiEnd) * last / two;
  } else if (coordinates == "half_pixel_symmetric") {
    p.offset = last * to + (one - out) * from;
  } else if (coordinates == "pytorch_half_pixel") {
    p.alone = number(-0.5);
  }
  return p;
}

/// A float64 scalar of the graph, with the operators of a number.
struct Scalar {
  Node *n = nullptr;
  mlir::Value value;

  Scalar operator+(Scalar y) const { return {n, n->add(value, y.value)}; }
  Scalar operator-(Scalar y) const { return {n, n->sub(value, y.value)}; }
  Scalar operator*(Scalar y) const { return {n, n->mul(value, y.value)}; }
  Scalar operator/(Scalar y) const { return {n, n->div(value, y.value)}; }
};

/// How one dim is resized, with numbers that are known at run time only.
struct RuntimeResize {
  ts::Dim out;
  Scale<Scalar> scale;
  bool scaleOfSizes = false; ///< `scale` is output by input length
  Scalar roiStart, roiEnd;   ///< of tf_crop_and_resize

  /// From `in` to `out` elements; `scale` 0: out / in.
  static RuntimeResize of(Node &n, ts::Dim in, ts::Dim out, double scale);
};

/// Resizes a dim of any size. `outside`: where to add the positions that have
/// no source, as the mode tf_crop_and_resize knows them; may be null.
mlir::Value resizeSymbolicDim(Node &n, mlir::Value x, int64_t axis,
                              const ResizeSettings &s, const RuntimeResize &how,
                              mlir::Value *outside);

/// The whole node, with scales, sizes and region from its inputs 2, 3 and 1.
mlir::LogicalResult resizeAtRunTime(Node &n, const ResizeSettings &s,
                                    llvm::ArrayRef<int64_t> axes,
                                    mlir::Value scales, mlir::Value sizes,
                                    mlir::Value roi);

} // namespace knapper
