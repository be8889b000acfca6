#include "graph/layout/SplitScatters.h"

#include "graph/layout/LayoutPasses.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/Decompose.h"
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_SPLITSCATTERS
#include "graph/layout/LayoutPasses.h.inc"
} // namespace knapper

/// Indices of the first dim of what is updated, one an update. Each has a row
/// of that many elements, or one (0: other indices).
static int64_t rowOf(ScatterNdOp op) {
  int64_t row = 1;
  if (!dimsOf(op.getIndices()).back().isConstant(1))
    return 0;
  SmallVector<Dim> dims = dimsOf(op.getInput());
  for (Dim dim : ArrayRef(dims).drop_front())
    row *= dim.asConstant().value_or(0);
  return row;
}
static int64_t rowOf(ScatterElementsOp op) {
  return rankOf(op.getInput()) == 1;
}

/// The largest divisor of `updates` up to what is wanted.
static int64_t partsOf(int64_t updates, int64_t places, int64_t row,
                       const ScatterModel &model) {
  if (updates * row < model.updates || places < 1)
    return 1;
  int64_t parts = std::min(model.parts, updates / (model.each * places));
  while (parts > 1 && updates % parts)
    --parts;
  return parts;
}

/// What changes nothing when it is combined.
static TypedAttr neutralOf(OpBuilder &b, ReduceKind kind, Type element) {
  bool largest = kind == ReduceKind::min;
  if (auto floating = dyn_cast<FloatType>(element)) {
    if (kind == ReduceKind::add)
      return b.getFloatAttr(element, -0.0);
    if (kind == ReduceKind::mul)
      return b.getFloatAttr(element, 1);
    return b.getFloatAttr(
        element, llvm::APFloat::getInf(floating.getFloatSemantics(), !largest));
  }
  if (kind == ReduceKind::add || kind == ReduceKind::mul)
    return b.getIntegerAttr(element, kind == ReduceKind::mul);
  unsigned width = element.getIntOrFloatBitWidth();
  bool plain = element.isUnsignedInteger();
  return b.getIntegerAttr(
      element, largest ? (plain ? llvm::APInt::getMaxValue(width)
                                : llvm::APInt::getSignedMaxValue(width))
                       : (plain ? llvm::APInt::getMinValue(width)
                                : llvm::APInt::getSignedMinValue(width)));
}

static Value combine(OpBuilder &b, Location loc, ReduceKind kind, Value x,
                     Value y) {
  switch (kind) {
  case ReduceKind::add:
    return AddOp::create(b, loc, x, y);
  case ReduceKind::mul:
    return MulOp::create(b, loc, x, y);
  case ReduceKind::max:
    return MaxOp::create(b, loc, x, y);
  case ReduceKind::min:
    return MinOp::create(b, loc, x, y);
  default:
    return {};
  }
}

/// The sum of `first` and the rows of `parts`. A reduction begins at +0, which
/// would be the sum of zeros that are all negative; adding keeps their sign.
static Value addAll(OpBuilder &b, Location loc, Value first, Value parts) {
  auto element = cast<FloatType>(elementTypeOf(first));
  bool isNarrow = element.getWidth() < 32;
  auto widened = [&](Value x) -> Value {
    return isNarrow ? ConvertOp::create(
                          b, loc, withElement(x.getType(), b.getF32Type()), x)
                    : x;
  };
  Value sum = widened(first);
  SmallVector<Dim> row = dimsOf(first);
  int64_t count = *dimsOf(parts)[0].asConstant();
  for (int64_t i = 0; i < count; ++i) {
    Value part = makeSlice(b, loc, parts, 0, Dim::constant(b.getContext(), i),
                           Dim::constant(b.getContext(), 1));
    sum = AddOp::create(b, loc, sum, widened(makeReshape(b, loc, part, row)));
  }
  return isNarrow ? ConvertOp::create(b, loc, first.getType(), sum) : sum;
}

template <typename Scatter>
static void split(Scatter op, const ScatterModel &model) {
  Type element = elementTypeOf(op.getResult());
  std::optional<ReduceKind> kind = op.getReduction();
  int64_t row = rowOf(op);
  if (!kind || element.isInteger(1) || row < 1 || row > model.row ||
      !isa<FloatType, IntegerType>(element) ||
      !llvm::is_contained(
          {ReduceKind::add, ReduceKind::mul, ReduceKind::max, ReduceKind::min},
          *kind))
    return;
  SmallVector<Dim> input = dimsOf(op.getInput());
  std::optional<int64_t> places = input[0].asConstant(),
                         total = elementCount(op.getUpdates().getType())
                                     .asConstant();
  if (!places || !total)
    return;
  int64_t updates = *total / row, parts = partsOf(updates, *places, row, model);
  if (parts <= 1)
    return;
  OpBuilder b(op);
  Location loc = op.getLoc();
  auto number = [&](int64_t n) { return Dim::constant(b.getContext(), n); };
  SmallVector<Dim> lines{number(parts), number(updates / parts)};
  SmallVector<Dim> given(lines), sums{number(parts)};
  llvm::append_range(given, ArrayRef(input).drop_front());
  llvm::append_range(sums, input);
  Value neutral = ConstantOp::create(
      b, loc,
      DenseElementsAttr::get(RankedTensorType::get({}, element),
                             Attribute(neutralOf(b, *kind, element))));
  Value begin =
      BroadcastOp::create(b, loc, tensorType(b.getContext(), sums, element),
                          neutral, ArrayRef<int64_t>());
  Value indices = makeReshape(b, loc, op.getIndices(), lines);
  if (given.size() > lines.size())
    indices = BroadcastOp::create(
        b, loc,
        tensorType(b.getContext(), given, elementTypeOf(op.getIndices())),
        indices, ArrayRef<int64_t>{0, 1});
  Value scattered = ScatterElementsOp::create(
      b, loc, begin, indices, makeReshape(b, loc, op.getUpdates(), given),
      uint64_t(1), op.getReductionAttr());
  Value made;
  if (*kind == ReduceKind::add && isa<FloatType>(element))
    made = addAll(b, loc, op.getInput(), scattered);
  else
    made = combine(b, loc, *kind, op.getInput(),
                   ReduceOp::create(b, loc, *kind, scattered,
                                    ArrayRef<int64_t>{0}, false));
  op.getResult().replaceAllUsesWith(made);
  op.erase();
}

void knapper::splitScatters(func::FuncOp function, const ScatterModel &model) {
  function.walk([&](ScatterNdOp op) { split(op, model); });
  SmallVector<ScatterElementsOp> found;
  function.walk([&](ScatterElementsOp op) { found.push_back(op); });
  for (ScatterElementsOp op : found)
    split(op, model);
}

namespace {
struct SplitScattersPass : knapper::impl::SplitScattersBase<SplitScattersPass> {
  void runOnOperation() override { splitScatters(getOperation()); }
};
} // namespace
