#include "codegen/schedule/conv/Depthwise.h"

#include "ir/tensor/SymbolicValue.h"

using namespace mlir;
using namespace knapper;
using ts::Dim;

std::optional<Depthwise> knapper::depthwiseOf(ts::KernelOp kernel,
                                              bool channelsLast) {
  auto ops = kernel.getBody().getOps<ts::ConvOp>();
  if (!llvm::hasSingleElement(ops))
    return std::nullopt;
  ts::ConvOp op = *ops.begin();
  if (op.getChannelsLast() != channelsLast || op.getStrides().size() != 2)
    return std::nullopt;
  // [kh, kw, channels of a group, features], or features and channels first.
  SmallVector<Dim> input = ts::dimsOf(op.getInput()),
                   filter = ts::dimsOf(op.getFilter());
  unsigned taps = channelsLast ? 0 : 2, rows = channelsLast ? 1 : 2;
  Dim channels = filter[channelsLast ? 2 : 1],
      features = filter[channelsLast ? 3 : 0];
  auto atLeastOne = [](Dim dim) {
    auto least = ts::lowerBound(dim);
    return least && *least >= 1;
  };
  if (!isa<FloatType>(ts::elementTypeOf(op.getResult())) ||
      ts::elementTypeOf(op.getInput()) != ts::elementTypeOf(op.getFilter()) ||
      !filter[taps].asConstant() || !filter[taps + 1].asConstant() ||
      !channels.isConstant(1) || !features.isConstant(op.getGroups()) ||
      llvm::any_of(op.getInputDilations(), [](int64_t d) { return d != 1; }) ||
      !atLeastOne(input[rows]) || !atLeastOne(input[rows + 1]))
    return std::nullopt;
  Depthwise w{op,
              std::move(input),
              ts::dimsOf(op.getResult()),
              *filter[taps].asConstant(),
              *filter[taps + 1].asConstant(),
              op.getStrides()[0],
              op.getStrides()[1],
              op.getDilations()[0],
              op.getDilations()[1]};
  return w.kh > 0 && w.kw > 0 ? std::optional(std::move(w)) : std::nullopt;
}

std::pair<Value, Value> knapper::nearestInside(ElementEmitter &e,
                                               Value position, Dim size) {
  Value last = e.sub(e.size(size), e.constant(1));
  Value good = arith::CmpIOp::create(
      e.builder, e.location, arith::CmpIPredicate::ult, position, e.size(size));
  return {e.max(e.constant(0), e.min(position, last)), good};
}
