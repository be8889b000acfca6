// Activation functions. Those with real attributes are computed in float32 at
// least: a slope of 1/6 in float16 is off by the same 0.02 % everywhere, which
// no mean evens out.
#include "frontends/onnx/Node.h"
#include "frontends/onnx/WideFloat.h"

using namespace mlir;

namespace knapper {
namespace {

using P = ts::ComparePredicate;

template <typename Op> LogicalResult unary(Node &n) {
  return n.out(n.make<Op>(n[0]));
}

LogicalResult importRelu(Node &n) {
  return n.out(n.make<ts::MaxOp>(n[0], n.splatLike(0, n[0])));
}

/// x where x >= 0 (or > 0), else `other`.
Value whereNegative(Node &n, Value x, Value other) {
  return n.select(n.compare(P::lt, x, n.scalarFor(x, 0)), other, x);
}

LogicalResult importLeakyRelu(Node &n) {
  return n.out(inWideFloat(n, n[0], [&](Value x) {
    return whereNegative(n, x, n.mul(x, n.real("alpha", 0.01)));
  }));
}

LogicalResult importPRelu(Node &n) {
  Value slope = n.broadcastTo(n[1], ts::dimsOf(n[0]));
  return n.out(whereNegative(n, n[0], n.mul(n[0], slope)));
}

LogicalResult importElu(Node &n) {
  return n.out(inWideFloat(n, n[0], [&](Value x) {
    return whereNegative(n, x,
                         n.mul(n.make<ts::Expm1Op>(x), n.real("alpha", 1)));
  }));
}

LogicalResult importSelu(Node &n) {
  double alpha = n.real("alpha", 1.67326319217681884765625);
  double gamma = n.real("gamma", 1.05070102214813232421875);
  return n.out(inWideFloat(n, n[0], [&](Value x) {
    Value negative = n.mul(n.make<ts::Expm1Op>(x), alpha);
    return n.mul(whereNegative(n, x, negative), gamma);
  }));
}

LogicalResult importCelu(Node &n) {
  double alpha = n.real("alpha", 1);
  if (alpha == 0)
    return n.fail("alpha is 0", "give another alpha");
  return n.out(inWideFloat(n, n[0], [&](Value x) {
    Value scaled = n.make<ts::Expm1Op>(n.mul(x, 1 / alpha));
    return whereNegative(n, x, n.mul(scaled, alpha));
  }));
}

/// max(0, min(1, alpha * x + beta)).
Value hardSigmoid(Node &n, Value x, double alpha, double beta) {
  Value line = n.add(n.mul(x, alpha), beta);
  return n.binary<ts::MaxOp>(n.binary<ts::MinOp>(line, n.scalarFor(x, 1)),
                             n.scalarFor(x, 0));
}

LogicalResult importHardSigmoid(Node &n) {
  double alpha = n.real("alpha", 0.2), beta = n.real("beta", 0.5);
  return n.out(inWideFloat(
      n, n[0], [&](Value x) { return hardSigmoid(n, x, alpha, beta); }));
}

LogicalResult importHardSwish(Node &n) {
  return n.out(inWideFloat(n, n[0], [&](Value x) {
    return n.mul(x, hardSigmoid(n, x, 1.0 / 6, 0.5));
  }));
}

/// log(1 + e^x) without overflow.
Value softplus(Node &n, Value x) {
  Value tail = n.make<ts::Log1pOp>(
      n.make<ts::ExpOp>(n.make<ts::NegOp>(n.make<ts::AbsOp>(x))));
  return n.add(n.make<ts::MaxOp>(x, n.splatLike(0, x)), tail);
}

LogicalResult importSoftplus(Node &n) { return n.out(softplus(n, n[0])); }

LogicalResult importMish(Node &n) {
  return n.out(n.mul(n[0], n.make<ts::TanhOp>(softplus(n, n[0]))));
}

LogicalResult importSoftsign(Node &n) {
  return n.out(n.div(n[0], n.add(n.make<ts::AbsOp>(n[0]), 1)));
}

LogicalResult importSwish(Node &n) {
  return n.out(inWideFloat(n, n[0], [&](Value x) {
    return n.mul(x, n.make<ts::SigmoidOp>(n.mul(x, n.real("alpha", 1))));
  }));
}

LogicalResult importSwiGlu(Node &n) {
  if (ts::rankOf(n[0]) != ts::rankOf(n[1]))
    return n.fail("A and B differ in shape", "give equal shapes");
  Value b = n.castDims(n[1], ts::dimsOf(n[0]));
  Value gate = n.make<ts::SigmoidOp>(n.mul(n[0], n.real("alpha", 1)));
  return n.out(n.mul(n.mul(n[0], gate), b));
}

LogicalResult importThresholdedRelu(Node &n) {
  Value above = n.compare(P::gt, n[0], n.scalarFor(n[0], n.real("alpha", 1)));
  return n.out(n.select(above, n[0], n.scalarFor(n[0], 0)));
}

LogicalResult importShrink(Node &n) {
  double lambda = n.real("lambd", 0.5), bias = n.real("bias", 0);
  Value zero = n.scalarFor(n[0], 0);
  Value below = n.compare(P::lt, n[0], n.scalarFor(n[0], -lambda));
  Value above = n.compare(P::gt, n[0], n.scalarFor(n[0], lambda));
  return n.out(n.select(below, n.add(n[0], bias),
                        n.select(above, n.add(n[0], -bias), zero)));
}

LogicalResult importGelu(Node &n) {
  std::string approximate = n.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return n.fail("approximate is '" + approximate + "'",
                  "set it to none or tanh");
  return n.out(n.make<ts::GeluOp>(n[0], bool(approximate == "tanh")));
}

constexpr OpRow rows[] = {
    {"", "Celu", 12, 1, 1, importCelu},
    {"", "Elu", 1, 1, 1, importElu},
    {"", "Gelu", 20, 1, 1, importGelu},
    {"", "HardSigmoid", 1, 1, 1, importHardSigmoid},
    {"", "HardSwish", 14, 1, 1, importHardSwish},
    {"", "LeakyRelu", 1, 1, 1, importLeakyRelu},
    {"", "Mish", 18, 1, 1, importMish},
    {"", "PRelu", 7, 2, 2, importPRelu},
    {"", "Relu", 1, 1, 1, importRelu},
    {"", "Selu", 1, 1, 1, importSelu},
    {"", "Shrink", 9, 1, 1, importShrink},
    {"", "Sigmoid", 1, 1, 1, unary<ts::SigmoidOp>},
    {"", "Softplus", 1, 1, 1, importSoftplus},
    {"", "Softsign", 1, 1, 1, importSoftsign},
    {"", "SwiGLU", 28, 2, 2, importSwiGlu},
    {"", "Swish", 24, 1, 1, importSwish},
    {"", "Tanh", 1, 1, 1, unary<ts::TanhOp>},
    {"", "ThresholdedRelu", 10, 1, 1, importThresholdedRelu},
};

} // namespace

ArrayRef<OpRow> activationRows() { return rows; }

} // namespace knapper
