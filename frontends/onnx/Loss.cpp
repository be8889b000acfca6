// Losses.
#include "frontends/onnx/Node.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using P = ts::ComparePredicate;

/// -weight[t] * logProbability[n, t, ...] for targets t, reduced. `log` is
/// [N, C, d...], the targets are [N, d...].
Value negativeLogLikelihood(Node &n, Value log, Value target, Value weight) {
  if (!log)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(log), expected = dims;
  if (dims.size() < 2 ||
      ts::rankOf(target) != static_cast<int64_t>(dims.size()) - 1) {
    (void)n.fail("scores " + ts::shapeText(log.getType()) + " and targets " +
                     ts::shapeText(target.getType()) + " do not fit",
                 "scores are [N, C, ...], targets [N, ...]");
    return {};
  }
  expected.erase(expected.begin() + 1);
  Type i64 = n.b.getI64Type(), element = ts::elementTypeOf(log);
  target = n.castDims(n.convert(target, i64), expected);
  std::optional<int64_t> ignored;
  if (n.hasAttr("ignore_index"))
    ignored = n.integer("ignore_index", 0);
  Value kept;
  if (ignored) {
    kept = n.compare(P::ne, target, n.integerScalar(*ignored, i64));
    target = n.select(kept, target, n.integerScalar(0, i64));
  }
  SmallVector<Dim> column = dims;
  column[1] = n.dim(1);
  Value chosen = n.reshape(
      n.make<ts::GatherElementsOp>(log, n.reshape(target, column), uint64_t(1)),
      expected);
  Value factor = weight ? n.make<ts::GatherOp>(weight, target, uint64_t(0))
                        : n.broadcastTo(n.scalar(1, element), expected);
  if (kept)
    factor = n.select(kept, factor, n.scalar(0, element));
  Value loss = n.make<ts::NegOp>(n.mul(chosen, factor));
  std::string reduction = n.text("reduction", "mean");
  if (reduction == "none" || !loss)
    return loss;
  auto all = llvm::to_vector(llvm::seq<int64_t>(0, expected.size()));
  Value sum = n.reduce(ts::ReduceKind::add, loss, all, false);
  if (reduction == "sum")
    return sum;
  if (reduction == "mean")
    return n.div(sum, n.reduce(ts::ReduceKind::add, factor, all, false));
  (void)n.fail("reduction is '" + reduction + "'", "use none, sum or mean");
  return {};
}

LogicalResult importNll(Node &n) {
  return n.out(negativeLogLikelihood(n, n[0], n[1], n[2]));
}

LogicalResult importCrossEntropy(Node &n) {
  if (ts::rankOf(n[0]) < 2)
    return n.fail("the scores are " + ts::shapeText(n[0].getType()),
                  "scores are [N, C, ...]");
  Value log = n.make<ts::SoftmaxOp>(n[0], uint64_t(1), true);
  if (n.wants(1) && failed(n.out(log, 1)))
    return failure();
  return n.out(negativeLogLikelihood(n, log, n[1], n[2]));
}

constexpr OpRow rows[] = {
    {"", "NegativeLogLikelihoodLoss", 12, 2, 3, importNll},
    {"", "SoftmaxCrossEntropyLoss", 12, 2, 3, importCrossEntropy},
};

} // namespace

ArrayRef<OpRow> lossRows() { return rows; }

} // namespace knapper
