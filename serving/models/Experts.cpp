// A mixture of experts in the place of an MLP: a router sends each token to a
// few experts, and the token's result is the sum of theirs by its shares.
//
// Rows, a token's one for each of its experts, are sorted by expert; all
// experts are two grouped matmuls over them (gate and up side by side, then
// down), which read from the device where an expert's rows end.
#include "ir/tensor/GroupedMatmul.h"
#include "ir/tensor/TensorType.h"
#include "serving/models/DecoderBuilder.h"

using namespace mlir;

namespace knapper::serving {

using ts::Dim;

/// The experts' matrices of these names below one another: [experts, rows,
/// columns], each name's `rows / names` rows.
Value DecoderBuilder::expertWeights(ArrayRef<std::string> names, int64_t rows,
                                    int64_t columns) {
  const std::string &prefix = config.names.expert;
  SmallVector<Value> all;
  for (int64_t i = 0; i < config.experts; ++i)
    for (const std::string &name : names) {
      std::string expert = prefix;
      expert.replace(expert.find("{}"), 2, std::to_string(i));
      all.push_back(
          weight(layerName(expert + name + ".weight"),
                 {rows / static_cast<int64_t>(names.size()), columns}));
      if (failed())
        return {};
    }
  return reshape(make<ts::ConcatOp>(ValueRange(all), uint64_t(0)),
                 {dim(config.experts), dim(rows), dim(columns)});
}

Value DecoderBuilder::experts(Value x) {
  int64_t many = config.experts, each = config.expertsPerToken,
          inner = config.expertInner, width = config.width;
  const TensorNames &names = config.names;
  Type index = b.getI64Type(), number = b.getI32Type();
  Value scores = matmul(
      x, weight(layerName(names.router) + ".weight", {many, width}), false);
  if (failed() || !scores)
    return {};
  Value chances = make<ts::SoftmaxOp>(scores, uint64_t(1), false);
  Operation *best =
      makeOp<ts::TopKOp>(2, chances, dim(each).attr(), uint64_t(1), true);
  if (!best)
    return {};
  Value shares = best->getResult(0);
  if (config.sharesSumToOne)
    shares = div(shares, reduce(ts::ReduceKind::add, shares, {1}, true));

  // Rows in the order of experts, and where each row went.
  Dim rows = count * each;
  auto sorted = [&](Value keys) -> Operation * {
    return makeOp<ts::TopKOp>(2, keys, rows.attr(), uint64_t(0), false);
  };
  Operation *byExpert = sorted(reshape(best->getResult(1), {rows}));
  Operation *byRow = byExpert ? sorted(byExpert->getResult(1)) : nullptr;
  if (!byRow)
    return {};
  Value expert = byExpert->getResult(0), row = byExpert->getResult(1),
        place = byRow->getResult(1);
  SmallVector<Dim> pairs{dim(many), rows};
  Value lines = makeAs<ts::IotaOp>(type(pairs, index), uint64_t(0));
  Value upTo =
      compare(ts::ComparePredicate::le, broadcastAt(expert, {1}, pairs), lines);
  Value ends = reduce(ts::ReduceKind::add, convert(upTo, number), {1}, false);

  Value own =
      make<ts::GatherOp>(x, div(row, integerScalar(each, index)), uint64_t(0));
  auto grouped = [&](Value values, Value matrices) {
    return make<ts::GroupedMatmulOp>(values, matrices, ends,
                                     /*transposed=*/true);
  };
  Value both = grouped(
      own, expertWeights({names.expertGate, names.expertUp}, 2 * inner, width));
  Value inside =
      mul(activate(columns(both, 0, inner)), columns(both, inner, inner));
  Value results =
      grouped(inside, expertWeights({names.expertDown}, width, inner));
  results = reshape(make<ts::GatherOp>(results, place, uint64_t(0)),
                    {count, dim(each), dim(width)});
  if (failed())
    return {};
  results = mul(results, broadcastAt(shares, {0, 1}, ts::dimsOf(results)));
  return reduce(ts::ReduceKind::add, results, {1}, false);
}

} // namespace knapper::serving
