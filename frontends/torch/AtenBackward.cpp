// Derivatives of activations and softmax.
#include "frontends/torch/AtenNode.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using P = ts::ComparePredicate;
using K = ts::ReduceKind;

/// grad times what the formula makes of the saved tensor.
template <Value (*formula)(AtenNode &, Value)>
LogicalResult derivative(AtenNode &n, StringRef saved) {
  Type type = n.wide();
  Value grad = n.operand("grad_output", type), x = n.operand(saved, type);
  return grad && x ? n.out(n.mul(grad, formula(n, x))) : failure();
}
template <Value (*formula)(AtenNode &, Value)>
LogicalResult ofSelf(AtenNode &n) {
  return derivative<formula>(n, n.has("self") ? "self" : "self_or_result");
}
template <Value (*formula)(AtenNode &, Value)>
LogicalResult ofOutput(AtenNode &n) {
  return derivative<formula>(n, "output");
}

Value one(AtenNode &n, Value like) { return n.scalarFor(like, 1); }

Value tanhOf(AtenNode &n, Value y) { return n.sub(one(n, y), n.mul(y, y)); }
Value sigmoidOf(AtenNode &n, Value y) { return n.mul(y, n.sub(one(n, y), y)); }
Value siluOf(AtenNode &n, Value x) {
  Value s = n.make<ts::SigmoidOp>(x);
  return n.mul(s, n.add(n.mul(x, n.sub(one(n, s), s)), 1.0));
}
Value geluOf(AtenNode &n, Value x) {
  if (n.text("approximate") == "tanh") {
    double beta = std::sqrt(2 / M_PI), kappa = 0.044715;
    Value square = n.mul(x, x);
    Value inner = n.mul(n.add(x, n.mul(n.mul(square, x), kappa)), beta);
    Value t = n.make<ts::TanhOp>(inner);
    Value left = n.mul(n.add(t, 1.0), 0.5);
    Value slope = n.mul(n.add(n.mul(square, 3 * kappa), 1.0), beta);
    Value right =
        n.mul(n.mul(x, 0.5), n.mul(n.sub(one(n, t), n.mul(t, t)), slope));
    return n.add(left, right);
  }
  Value cdf =
      n.mul(n.add(n.make<ts::ErfOp>(n.mul(x, std::sqrt(0.5))), 1.0), 0.5);
  Value pdf = n.mul(n.make<ts::ExpOp>(n.mul(n.mul(x, x), -0.5)),
                    1 / std::sqrt(2 * M_PI));
  return n.add(cdf, n.mul(x, pdf));
}
/// 1 in (low, high), 0 outside.
Value inside(AtenNode &n, Value x, Value low, Value high) {
  Value in = n.binary<ts::AndOp>(n.compare(P::gt, x, low),
                                 n.compare(P::lt, x, high));
  return in ? n.convert(in, ts::elementTypeOf(x)) : in;
}
Value hardTanhOf(AtenNode &n, Value x) {
  return inside(n, x, n.factorFor(x, "min_val", -1),
                n.factorFor(x, "max_val", 1));
}
Value hardSigmoidOf(AtenNode &n, Value x) {
  return n.mul(inside(n, x, n.scalarFor(x, -3), n.scalarFor(x, 3)), 1.0 / 6);
}
Value hardSwishOf(AtenNode &n, Value x) {
  Value middle = n.add(n.mul(x, 1.0 / 3), 0.5);
  return n.select(
      n.compare(P::le, x, n.scalarFor(x, -3)), n.scalarFor(x, 0),
      n.select(n.compare(P::lt, x, n.scalarFor(x, 3)), middle, one(n, x)));
}
Value leakyReluOf(AtenNode &n, Value x) {
  return n.select(n.compare(P::gt, x, n.scalarFor(x, 0)), one(n, x),
                  n.factorFor(x, "negative_slope", 0.01));
}
Value softplusOf(AtenNode &n, Value x) {
  Value scaled = n.mul(x, n.factorFor(x, "beta", 1));
  return n.select(n.compare(P::gt, scaled, n.factorFor(x, "threshold", 20)),
                  one(n, x), n.make<ts::SigmoidOp>(scaled));
}
Value mishOf(AtenNode &n, Value x) {
  Value tail = n.make<ts::Log1pOp>(
      n.make<ts::ExpOp>(n.make<ts::NegOp>(n.make<ts::AbsOp>(x))));
  Value t = n.make<ts::TanhOp>(
      n.add(n.binary<ts::MaxOp>(x, n.scalarFor(x, 0)), tail));
  return n.add(t, n.mul(n.mul(x, n.make<ts::SigmoidOp>(x)),
                        n.sub(one(n, t), n.mul(t, t))));
}

/// The gradient where x is above the threshold, 0 elsewhere.
LogicalResult importThresholdBackward(AtenNode &n) {
  Value grad = n.operand("grad_output"), x = n.operand("self");
  return n.out(n.select(n.compare(P::le, x, n.operand("threshold")),
                        n.scalarFor(grad, 0), grad));
}

LogicalResult importEluBackward(AtenNode &n) {
  Type type = n.wide();
  Value grad = n.operand("grad_output", type),
        x = n.operand("self_or_result", type);
  if (!x)
    return failure();
  Value scale = n.factor("scale", type, 1),
        input = n.factor("input_scale", type, 1),
        steep = n.mul(n.factor("alpha", type, 1), scale);
  Value slope = n.flag("is_result") ? n.mul(n.add(x, steep), input)
                                    : n.mul(n.make<ts::ExpOp>(n.mul(x, input)),
                                            n.mul(steep, input));
  return n.out(n.mul(
      grad, n.select(n.compare(P::le, x, n.scalarFor(x, 0)), slope, scale)));
}

LogicalResult importLogSigmoidBackward(AtenNode &n) {
  Type type = n.wide();
  Value grad = n.operand("grad_output", type), x = n.operand("self", type);
  return n.out(n.mul(grad, n.make<ts::SigmoidOp>(n.make<ts::NegOp>(x))));
}

/// y * (grad - sum(grad * y)); of log softmax grad - e^y * sum(grad).
template <bool log> LogicalResult softmaxBackward(AtenNode &n) {
  Type type = n.wide();
  Value grad = n.operand("grad_output", type), y = n.operand("output", type);
  if (!grad || !y)
    return failure();
  if (ts::rankOf(y) == 0)
    return n.out(n.scalar(0, n.element()));
  int64_t dim = n.dimension("dim", ts::rankOf(y));
  if (n.failed())
    return failure();
  Value sum = n.reduce(K::add, log ? grad : n.mul(grad, y), {dim}, true);
  return n.out(log ? n.sub(grad, n.mul(n.make<ts::ExpOp>(y), sum))
                   : n.mul(y, n.sub(grad, sum)));
}

constexpr AtenRow rows[] = {
    {"aten._log_softmax_backward_data.default", softmaxBackward<true>},
    {"aten._softmax_backward_data.default", softmaxBackward<false>},
    {"aten.elu_backward.default", importEluBackward},
    {"aten.gelu_backward.default", ofSelf<geluOf>},
    {"aten.hardsigmoid_backward.default", ofSelf<hardSigmoidOf>},
    {"aten.hardswish_backward.default", ofSelf<hardSwishOf>},
    {"aten.hardtanh_backward.default", ofSelf<hardTanhOf>},
    {"aten.leaky_relu_backward.default", ofSelf<leakyReluOf>},
    {"aten.log_sigmoid_backward.default", importLogSigmoidBackward},
    {"aten.mish_backward.default", ofSelf<mishOf>},
    {"aten.sigmoid_backward.default", ofOutput<sigmoidOf>},
    {"aten.silu_backward.default", ofSelf<siluOf>},
    {"aten.softplus_backward.default", ofSelf<softplusOf>},
    {"aten.tanh_backward.default", ofOutput<tanhOf>},
    {"aten.threshold_backward.default", importThresholdBackward},
};

} // namespace

ArrayRef<AtenRow> atenBackwardRows() { return rows; }

} // namespace knapper
