// What models of training contain: optimisers, derivatives.
#include "frontends/onnx/Gradient.h"

using namespace mlir;

namespace knapper {
namespace {

using P = ts::ComparePredicate;

/// Inputs R, T, then `groups` lists of equal length; results are lists of the
/// same length. `update` gets a member of each list and gives one of each
/// result.
LogicalResult
optimise(Node &n, size_t groups, size_t resultGroups,
         llvm::function_ref<SmallVector<Value>(ArrayRef<Value>)> update) {
  size_t count = (n.size() - 2) / groups;
  if (n.size() < 2 + groups || (n.size() - 2) % groups ||
      n.resultCount() != count * resultGroups)
    return n.fail("has " + Twine(n.size()) + " inputs and " +
                      Twine(n.resultCount()) + " results",
                  "give R, T and lists of equal length");
  for (size_t i = 0; i < count; ++i) {
    SmallVector<Value> members;
    for (size_t g = 0; g < groups; ++g)
      members.push_back(n.castDims(n[2 + g * count + i], ts::dimsOf(n[2 + i])));
    if (llvm::is_contained(members, Value()))
      return failure();
    for (auto [g, value] : llvm::enumerate(update(members)))
      if (failed(n.out(value, g * count + i)))
        return failure();
  }
  return mlir::success();
}

/// The scalar input `index` in the element type of `like`.
Value scalarInput(Node &n, size_t index, Value like) {
  return n.convert(n.reshape(n[index], {}), ts::elementTypeOf(like));
}

/// g + norm_coefficient * x
Value regularised(Node &n, Value x, Value g) {
  return n.add(n.mul(x, n.real("norm_coefficient", 0)), g);
}

LogicalResult importAdagrad(Node &n) {
  return optimise(n, 3, 2, [&](ArrayRef<Value> v) {
    Value x = v[0], g = regularised(n, x, v[1]), h = v[2];
    Value slower =
        n.add(n.mul(scalarInput(n, 1, x), n.real("decay_factor", 0)), 1);
    Value rate = n.div(scalarInput(n, 0, x), slower);
    Value squares = n.add(h, n.mul(g, g));
    Value scale = n.add(n.make<ts::SqrtOp>(squares), n.real("epsilon", 1e-6));
    Value step = n.div(n.mul(g, rate), scale);
    return SmallVector<Value>{n.sub(x, step), squares};
  });
}

LogicalResult importAdam(Node &n) {
  double alpha = n.real("alpha", 0.9), beta = n.real("beta", 0.999);
  return optimise(n, 4, 3, [&](ArrayRef<Value> v) {
    Value x = v[0], g = regularised(n, x, v[1]);
    Value first = n.add(n.mul(v[2], alpha), n.mul(g, 1 - alpha));
    Value second = n.add(n.mul(v[3], beta), n.mul(n.mul(g, g), 1 - beta));
    Value scale = n.add(n.make<ts::SqrtOp>(second), n.real("epsilon", 1e-6));
    Value rate = scalarInput(n, 0, x), step = scalarInput(n, 1, x);
    // The averages begin at 0: what they lack after T steps.
    auto rest = [&](double factor) {
      Value power = n.binary<ts::PowOp>(n.scalarFor(x, factor), step);
      return n.sub(n.scalarFor(x, 1), power);
    };
    Value corrected =
        n.div(n.mul(rate, n.make<ts::SqrtOp>(rest(beta))), rest(alpha));
    rate = n.select(n.compare(P::gt, step, n.scalarFor(x, 0)), corrected, rate);
    Value moved = n.sub(x, n.mul(n.div(first, scale), rate));
    return SmallVector<Value>{
        n.mul(moved, 1 - n.real("norm_coefficient_post", 0)), first, second};
  });
}

LogicalResult importMomentum(Node &n) {
  std::string mode = n.text("mode", "");
  if (mode != "standard" && mode != "nesterov")
    return n.fail("mode is '" + mode + "'", "use standard or nesterov");
  double alpha = n.real("alpha", 0), beta = n.real("beta", 0);
  return optimise(n, 3, 2, [&](ArrayRef<Value> v) {
    Value x = v[0], g = regularised(n, x, v[1]);
    // The first gradient counts in full.
    Value later = n.compare(P::gt, scalarInput(n, 1, x), n.scalarFor(x, 0));
    Value weight = n.select(later, n.scalarFor(x, beta), n.scalarFor(x, 1));
    Value velocity = n.add(n.mul(v[2], alpha), n.mul(g, weight));
    Value step =
        mode == "standard" ? velocity : n.add(g, n.mul(velocity, alpha));
    return SmallVector<Value>{n.sub(x, n.mul(step, scalarInput(n, 0, x))),
                              velocity};
  });
}

constexpr OpRow rows[] = {
    {"ai.onnx.preview.training", "Adagrad", 1, 5, anyNumber, importAdagrad},
    {"ai.onnx.preview.training", "Adam", 1, 6, anyNumber, importAdam},
    {"ai.onnx.preview.training", "Gradient", 1, 1, anyNumber, importGradient},
    {"ai.onnx.preview.training", "Momentum", 1, 5, anyNumber, importMomentum},
};

} // namespace

ArrayRef<OpRow> trainingRows() { return rows; }

} // namespace knapper
