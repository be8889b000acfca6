// Batch norms, by the formulas of the specification.
#include "frontends/stablehlo/HloNode.h"

using namespace mlir;

namespace knapper {
namespace {

/// What the three ops share: the feature's dim, and sums over the others.
struct BatchNorm {
  explicit BatchNorm(HloNode &n)
      : n(n), feature(n.dimension("feature_index", ts::rankOf(n[0]))) {
    auto number = n.op->getAttrOfType<FloatAttr>("epsilon");
    if (!number)
      (void)n.damaged("attribute 'epsilon' is no float");
    epsilon = number ? number.getValueAsDouble() : 0;
    for (int64_t dim = 0; dim < ts::rankOf(n[0]); ++dim)
      if (dim != feature)
        others.push_back(dim);
    for (int64_t dim : others)
      count *= static_cast<double>(n.shape(n[0])[dim]);
  }

  /// One number a feature, for all of the operand.
  Value spread(Value value) {
    return value ? n.broadcastAt(value, {feature}, ts::dimsOf(n[0])) : value;
  }
  Value sum(Value value) {
    return others.empty() ? value
                          : n.reduce(ts::ReduceKind::add, value, others, false);
  }
  /// 1 / sqrt(variance + epsilon)
  Value inverse(Value variance) {
    return n.make<ts::RsqrtOp>(n.add(variance, epsilon));
  }
  /// Operands from `first` on are numbers a feature.
  bool fits(size_t first, size_t last) {
    SmallVector<int64_t> own = n.shape(n[0]);
    for (size_t i = first; i <= last && !n.failed(); ++i)
      if (!n[i] || n.shape(n[i]) != SmallVector<int64_t>{own[feature]})
        (void)n.damaged("operand " + Twine(i) + " has no number a feature");
    return !n.failed();
  }

  HloNode &n;
  int64_t feature;
  double epsilon = 0, count = 1;
  SmallVector<int64_t> others;
};

/// (x - mean) / sqrt(variance + epsilon) * scale + offset
LogicalResult importInference(HloNode &n) {
  BatchNorm of(n);
  if (!of.fits(1, 4))
    return failure();
  Value factor = n.mul(of.inverse(n[4]), n[1]);
  Value centred = n.sub(n[0], of.spread(n[3]));
  return n.out(n.add(n.mul(centred, of.spread(factor)), of.spread(n[2])));
}

LogicalResult importTraining(HloNode &n) {
  BatchNorm of(n);
  if (!of.fits(1, 2))
    return failure();
  Value mean = n.mul(of.sum(n[0]), 1.0 / of.count);
  Value centred = n.sub(n[0], of.spread(mean));
  Value variance = n.mul(of.sum(n.mul(centred, centred)), 1.0 / of.count);
  Value factor = n.mul(of.inverse(variance), n[1]);
  if (failed(
          n.out(n.add(n.mul(centred, of.spread(factor)), of.spread(n[2])))) ||
      failed(n.out(mean, 1)))
    return failure();
  return n.out(variance, 2);
}

LogicalResult importGradient(HloNode &n) {
  BatchNorm of(n);
  if (!of.fits(1, 3))
    return failure();
  if (n[4].getType() != n[0].getType())
    return n.damaged("the gradient is of another type");
  Value centred = n.sub(n[0], of.spread(n[2])), inverse = of.inverse(n[3]);
  Value offset = of.sum(n[4]), moment = of.sum(n.mul(n[4], centred));
  Value share = n.mul(n.mul(moment, n.mul(inverse, inverse)), 1.0 / of.count);
  Value rest = n.sub(n[4], of.spread(n.mul(offset, 1.0 / of.count)));
  rest = n.sub(rest, n.mul(centred, of.spread(share)));
  if (failed(n.out(n.mul(rest, of.spread(n.mul(n[1], inverse))))) ||
      failed(n.out(n.mul(moment, inverse), 1)))
    return failure();
  return n.out(offset, 2);
}

constexpr HloRow rows[] = {
    {"batch_norm_grad", 5, importGradient},
    {"batch_norm_inference", 5, importInference},
    {"batch_norm_training", 3, importTraining},
};

} // namespace

llvm::ArrayRef<HloRow> hloNormRows() { return rows; }

} // namespace knapper
