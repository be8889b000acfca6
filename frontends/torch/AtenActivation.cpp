// Activations. Those of several steps are computed in a wide type.
#include "frontends/torch/AtenNode.h"

using namespace mlir;

namespace knapper {
namespace {

using P = ts::ComparePredicate;

template <Value (*formula)(AtenNode &, Value)>
LogicalResult activation(AtenNode &n) {
  Value x = n.operand("self", n.wide());
  return x ? n.out(formula(n, x)) : failure();
}

Value clampTo(AtenNode &n, Value x, Value low, Value high) {
  return n.binary<ts::MinOp>(n.binary<ts::MaxOp>(x, low), high);
}
Value clampTo(AtenNode &n, Value x, double low, double high) {
  return clampTo(n, x, n.scalarFor(x, low), n.scalarFor(x, high));
}
Value inverse(AtenNode &n, Value x, StringRef name) {
  std::optional<double> known = n.known(name);
  if (known || !n.has(name))
    return n.scalarFor(x, 1 / known.value_or(1));
  return n.div(n.scalarFor(x, 1), n.factorFor(x, name, 1));
}

/// `other` where x is not above 0.
Value whereNotPositive(AtenNode &n, Value x, Value other) {
  return n.select(n.compare(P::gt, x, n.scalarFor(x, 0)), x, other);
}

Value silu(AtenNode &n, Value x) { return n.mul(x, n.make<ts::SigmoidOp>(x)); }
Value hardSigmoid(AtenNode &n, Value x) {
  return n.mul(clampTo(n, n.add(x, 3), 0, 6), 1.0 / 6);
}
Value hardSwish(AtenNode &n, Value x) { return n.mul(x, hardSigmoid(n, x)); }
Value hardTanh(AtenNode &n, Value x) {
  return clampTo(n, x, n.factorFor(x, "min_val", -1),
                 n.factorFor(x, "max_val", 1));
}
Value relu6(AtenNode &n, Value x) { return clampTo(n, x, 0, 6); }
Value leakyRelu(AtenNode &n, Value x) {
  return whereNotPositive(n, x,
                          n.mul(x, n.factorFor(x, "negative_slope", 0.01)));
}
Value elu(AtenNode &n, Value x) {
  Value scale = n.factorFor(x, "scale", 1);
  Value negative =
      n.mul(n.make<ts::Expm1Op>(n.mul(x, n.factorFor(x, "input_scale", 1))),
            n.mul(n.factorFor(x, "alpha", 1), scale));
  return n.select(n.compare(P::gt, x, n.scalarFor(x, 0)), n.mul(x, scale),
                  negative);
}
/// log(1 + e^x) without overflow.
Value softplusOf(AtenNode &n, Value x) {
  Value tail = n.make<ts::Log1pOp>(
      n.make<ts::ExpOp>(n.make<ts::NegOp>(n.make<ts::AbsOp>(x))));
  return n.add(n.binary<ts::MaxOp>(x, n.scalarFor(x, 0)), tail);
}
Value softplus(AtenNode &n, Value x) {
  Value scaled = n.mul(x, n.factorFor(x, "beta", 1));
  Value line = n.compare(P::gt, scaled, n.factorFor(x, "threshold", 20));
  return n.select(line, x,
                  n.mul(softplusOf(n, scaled), inverse(n, x, "beta")));
}
Value mish(AtenNode &n, Value x) {
  return n.mul(x, n.make<ts::TanhOp>(softplusOf(n, x)));
}
Value celu(AtenNode &n, Value x) {
  return whereNotPositive(
      n, x,
      n.mul(n.make<ts::Expm1Op>(n.mul(x, inverse(n, x, "alpha"))),
            n.factorFor(x, "alpha", 1)));
}
Value logit(AtenNode &n, Value x) {
  if (n.has("eps"))
    x = clampTo(n, x, n.real("eps"), 1 - n.real("eps"));
  return n.make<ts::LogOp>(n.div(x, n.sub(n.scalarFor(x, 1), x)));
}

LogicalResult importRelu(AtenNode &n) {
  Value x = n.operand("self");
  return n.out(n.binary<ts::MaxOp>(x, n.scalarFor(x, 0)));
}

LogicalResult importGelu(AtenNode &n) {
  return n.out(n.make<ts::GeluOp>(n.operand("self"),
                                  bool(n.text("approximate") == "tanh")));
}

LogicalResult importPrelu(AtenNode &n) {
  Value x = n.operand("self"), weight = n.operand("weight");
  return n.out(whereNotPositive(n, x, n.mul(x, weight)));
}

LogicalResult importLogSigmoid(AtenNode &n) {
  Value x = n.operand("self", n.wide());
  if (!x)
    return failure();
  Value y = n.make<ts::NegOp>(softplusOf(n, n.make<ts::NegOp>(x)));
  if (failed(n.out(y)))
    return failure();
  if (!n.element(1))
    return mlir::success();
  if (n.dims(1).size() == 1 && n.dims(1)[0].isConstant(0)) // CUDA keeps none
    return n.out(n.broadcastTo(n.scalar(0, n.element(1)), n.dims(1)), 1);
  // exp(-|x|), which the backward reads.
  return n.out(n.make<ts::ExpOp>(n.make<ts::NegOp>(n.make<ts::AbsOp>(x))), 1);
}

LogicalResult importGlu(AtenNode &n) {
  Value x = n.operand("self", n.wide());
  if (!x)
    return failure();
  int64_t dim = n.dimension("dim", ts::rankOf(x));
  if (n.failed())
    return failure();
  ts::Dim half = n.dims()[dim];
  return n.out(n.mul(n.sliceDim(x, dim, n.dim(0), half),
                     n.make<ts::SigmoidOp>(n.sliceDim(x, dim, half, half))));
}

LogicalResult importSigmoid(AtenNode &n) {
  return n.out(n.make<ts::SigmoidOp>(n.operand("self")));
}

template <bool hard> LogicalResult shrink(AtenNode &n) {
  Value x = n.operand("self", n.wide());
  if (!x)
    return failure();
  Value lambda = n.factorFor(x, "lambd", 0.5);
  Value zero = n.mul(x, 0.0); // NaN stays NaN
  Value above = n.compare(P::gt, x, lambda),
        below = n.compare(P::lt, x, n.make<ts::NegOp>(lambda));
  return n.out(n.select(above, hard ? x : n.sub(x, lambda),
                        n.select(below, hard ? x : n.add(x, lambda), zero)));
}

LogicalResult importThreshold(AtenNode &n) {
  Value x = n.operand("self");
  if (!x)
    return failure();
  return n.out(n.select(n.compare(P::le, x, n.operand("threshold")),
                        n.operand("value"), x));
}

constexpr AtenRow rows[] = {
    {"aten._prelu_kernel.default", importPrelu},
    {"aten.celu.default", activation<celu>},
    {"aten.elu.default", activation<elu>},
    {"aten.gelu.default", importGelu},
    {"aten.glu.default", importGlu},
    {"aten.hardshrink.default", shrink<true>},
    {"aten.hardsigmoid.default", activation<hardSigmoid>},
    {"aten.hardswish.default", activation<hardSwish>},
    {"aten.hardtanh.default", activation<hardTanh>},
    {"aten.leaky_relu.default", activation<leakyRelu>},
    {"aten.log_sigmoid_forward.default", importLogSigmoid},
    {"aten.logit.default", activation<logit>},
    {"aten.mish.default", activation<mish>},
    {"aten.relu.default", importRelu},
    {"aten.relu6.default", activation<relu6>},
    {"aten.sigmoid.default", importSigmoid},
    {"aten.silu.default", activation<silu>},
    {"aten.softplus.default", activation<softplus>},
    {"aten.softshrink.default", shrink<false>},
    {"aten.threshold.default", importThreshold},
};

} // namespace

ArrayRef<AtenRow> atenActivationRows() { return rows; }

} // namespace knapper
