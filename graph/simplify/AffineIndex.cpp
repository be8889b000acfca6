#include "graph/simplify/AffineIndex.h"
#include "graph/simplify/Match.h"
#include "graph/simplify/Simplify.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

bool AffineIndex::isUniform() const {
  return llvm::all_of(coefficients, [](Dim c) { return c.isConstant(0); });
}

static AffineIndex uniform(int64_t rank, Dim offset) {
  return {SmallVector<Dim>(rank, offset.like(0)), offset};
}

/// A table that counts up by one number along one dim.
static std::optional<AffineIndex> ofConstant(ConstantOp op) {
  auto data = dyn_cast<DenseIntElementsAttr>(op.getValue());
  if (!data || data.empty() || !data.getElementType().isSignlessInteger() ||
      data.getElementType().isInteger(1))
    return std::nullopt;
  MLIRContext *context = op.getContext();
  auto type = cast<RankedTensorType>(op.getType());
  auto values = data.value_begin<APInt>();
  Dim first = Dim::constant(context, (*values).getSExtValue());
  if (data.isSplat())
    return uniform(type.getRank(), first);
  int64_t along = -1;
  for (auto [d, size] : llvm::enumerate(type.getShape()))
    if (size != 1) {
      if (along >= 0)
        return std::nullopt;
      along = d;
    }
  int64_t step = (*std::next(values)).getSExtValue() - *first.asConstant();
  int64_t expected = *first.asConstant();
  for (const APInt &value : data.getValues<APInt>()) {
    if (value.getSExtValue() != expected)
      return std::nullopt;
    expected += step;
  }
  AffineIndex result = uniform(type.getRank(), first);
  result.coefficients[along] = first.like(step);
  return result;
}

static std::optional<AffineIndex> ofReshape(ReshapeOp op,
                                            const AffineIndex &input) {
  SmallVector<Dim> in = dimsOf(op.getInput()), out = dimsOf(op.getResult());
  auto groups = reshapeGroups(in, out);
  if (!groups)
    return std::nullopt;
  AffineIndex result = uniform(out.size(), input.offset);
  for (const DimGroup &group : *groups) {
    if (group.inSize() == 0 || group.outSize() == 0)
      continue;
    // The group must count evenly in row-major order.
    Dim step = input.coefficients[group.inEnd - 1],
        extent = in[group.inEnd - 1];
    for (unsigned i = group.inEnd - 1; i-- > group.inBegin;) {
      if (in[i].isConstant(1))
        continue;
      if (!(input.coefficients[i] == step * extent))
        return std::nullopt;
      extent = extent * in[i];
    }
    extent = step.like(1);
    for (unsigned o = group.outEnd; o-- > group.outBegin;) {
      if (!out[o].isConstant(1))
        result.coefficients[o] = step * extent;
      extent = extent * out[o];
    }
  }
  return result;
}

static std::optional<AffineIndex> affine(Value value, int depth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > 16 || op->getNumResults() != 1 ||
      // Others wrap: what an index is by form is not what it is.
      !(elementTypeOf(value).isSignlessInteger(32) ||
        elementTypeOf(value).isSignlessInteger(64)))
    return std::nullopt;
  MLIRContext *context = op->getContext();
  int64_t rank = rankOf(value);
  auto number = [&](int64_t v) { return Dim::constant(context, v); };
  auto operand = [&](unsigned i) {
    return affine(op->getOperand(i), depth + 1);
  };

  return TypeSwitch<Operation *, std::optional<AffineIndex>>(op)
      .Case([&](ConstantOp constant) { return ofConstant(constant); })
      .Case([&](SizeOp size) { return uniform(rank, Dim(size.getSize())); })
      .Case([&](IotaOp iota) {
        AffineIndex result = uniform(rank, number(0));
        if (!dimOf(value, iota.getDim()).isConstant(1))
          result.coefficients[iota.getDim()] = number(1);
        return result;
      })
      .Case([&](ConvertOp convert) -> std::optional<AffineIndex> {
        // Sizes and positions fit into 32 bits.
        if (elementTypeOf(value).getIntOrFloatBitWidth() < 32)
          return std::nullopt;
        return operand(0);
      })
      .Case([&](BroadcastOp broadcast) -> std::optional<AffineIndex> {
        auto input = operand(0);
        if (!input)
          return std::nullopt;
        AffineIndex result = uniform(rank, input->offset);
        for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
          result.coefficients[dim] = input->coefficients[i];
        return result;
      })
      .Case([&](ReshapeOp reshape) -> std::optional<AffineIndex> {
        auto input = operand(0);
        return input ? ofReshape(reshape, *input) : std::nullopt;
      })
      .Case([&](TransposeOp transpose) -> std::optional<AffineIndex> {
        auto input = operand(0);
        if (!input)
          return std::nullopt;
        return AffineIndex{
            permuted(input->coefficients, transpose.getPermutation()),
            input->offset};
      })
      .Case([&](SliceOp slice) -> std::optional<AffineIndex> {
        auto input = operand(0);
        if (!input)
          return std::nullopt;
        for (auto [d, start] : llvm::enumerate(dimsOf(slice.getStarts()))) {
          input->offset = input->offset + input->coefficients[d] * start;
          input->coefficients[d] =
              dimOf(value, d).isConstant(1)
                  ? number(0)
                  : input->coefficients[d] * slice.getSteps()[d];
        }
        return input;
      })
      .Case<AddOp, SubOp>([&](Operation *) -> std::optional<AffineIndex> {
        auto lhs = operand(0), rhs = operand(1);
        if (!lhs || !rhs)
          return std::nullopt;
        bool add = isa<AddOp>(op);
        lhs->offset =
            add ? lhs->offset + rhs->offset : lhs->offset - rhs->offset;
        for (auto [a, b] : llvm::zip(lhs->coefficients, rhs->coefficients))
          a = add ? a + b : a - b;
        return lhs;
      })
      .Case([&](MulOp) -> std::optional<AffineIndex> {
        auto lhs = operand(0), rhs = operand(1);
        if (!lhs || !rhs)
          return std::nullopt;
        if (!rhs->isUniform())
          std::swap(lhs, rhs);
        if (!rhs->isUniform())
          return std::nullopt;
        for (Dim &coefficient : lhs->coefficients)
          coefficient = coefficient * rhs->offset;
        lhs->offset = lhs->offset * rhs->offset;
        return lhs;
      })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<AffineIndex> knapper::affineIndex(Value value) {
  return affine(value, 0);
}

std::optional<AffineIndex> knapper::affineDifference(Value lhs, Value rhs) {
  auto a = affineIndex(lhs), b = affineIndex(rhs);
  if (!a || !b)
    return std::nullopt;
  a->offset = a->offset - b->offset;
  for (auto [x, y] : llvm::zip(a->coefficients, b->coefficients))
    x = x - y;
  return a;
}
