// Floating point wide enough for what an operator computes on the way.
#pragma once

#include "frontends/onnx/Node.h"

namespace knapper {

/// `body(x)` in a type in which sums of squares and the like neither overflow
/// nor lose digits that the result has: f32 for narrower floats, f64 for
/// integers. The result has the element type of `x`.
template <typename Fn>
mlir::Value inWideFloat(Node &n, mlir::Value x, Fn &&body) {
  mlir::Type element = ts::elementTypeOf(x);
  if (element.isF32() || element.isF64())
    return body(x);
  mlir::Type wide =
      mlir::isa<mlir::FloatType>(element) ? n.b.getF32Type() : n.b.getF64Type();
  return n.convert(body(n.convert(x, wide)), element);
}

} // namespace knapper
