#include "graph/quantize/ScaledMatmuls.h"

#include "graph/quantize/QuantizePasses.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/ScaledDot.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_SCALEDMATMULS
#include "graph/quantize/QuantizePasses.h.inc"
} // namespace knapper

namespace {

/// A scale or zero point before it was spread over a matrix.
struct Grouped {
  Value value;       ///< 0-d; 1-d, a column each; 2-d, in the matrix' order
  int64_t group = 0; ///< rows that share one; 0: all
};

} // namespace

/// `down`: the dim of the matrix that is summed over.
static std::optional<Grouped> groupedOf(Value value, int64_t down) {
  if (auto convert = value.getDefiningOp<ConvertOp>())
    value = convert.getInput();
  if (auto cast = value.getDefiningOp<DimCastOp>())
    value = cast.getInput();
  if (auto slice = value.getDefiningOp<SliceOp>()) {
    // The last block may be shorter; columns are all there.
    if (!llvm::all_of(dimsOf(slice.getStarts()),
                      [](Dim d) { return d.isConstant(0); }) ||
        !llvm::all_of(slice.getSteps(), [](int64_t s) { return s == 1; }) ||
        !(dimOf(slice.getResult(), 1 - down) ==
          dimOf(slice.getInput(), 1 - down)))
      return std::nullopt;
    value = slice.getInput();
  }
  auto merged = value.getDefiningOp<ReshapeOp>();
  auto spread = merged ? merged.getInput().getDefiningOp<BroadcastOp>()
                       : value.getDefiningOp<BroadcastOp>();
  if (!spread)
    return std::nullopt;
  int64_t rank = rankOf(spread.getInput());
  if (!merged) {
    bool isColumns = rank == 1 && spread.getDims()[0] == 1 - down;
    if (rank == 0 || isColumns)
      return Grouped{spread.getInput(), 0};
    return std::nullopt;
  }
  // [.., groups, ..] spread to [.., groups, group, ..] and merged.
  int64_t repeated = down + 1;
  SmallVector<int64_t> kept;
  for (int64_t i = 0; i < 3; ++i)
    if (i != repeated)
      kept.push_back(i);
  if (rank != 2 || rankOf(spread) != 3 || rankOf(merged) != 2 ||
      spread.getDims() != ArrayRef<int64_t>(kept))
    return std::nullopt;
  std::optional<int64_t> group = dimOf(spread, repeated).asConstant();
  if (!group ||
      !(dimOf(merged, 1 - down) == dimOf(spread.getInput(), 1 - down)))
    return std::nullopt;
  return Grouped{spread.getInput(), *group};
}

namespace {

struct ScaledMatmulBuilder {
  OpBuilder b;
  Location loc;
  int64_t down, groups, columns;

  Value as(Value x, Type element) {
    return elementTypeOf(x) == element
               ? x
               : ConvertOp::create(b, loc, withElement(x.getType(), element), x)
                     .getResult();
  }
  Value minus(Value x, double number) {
    Value by = makeSplat(b, loc, cast<RankedTensorType>(x.getType()), number);
    return SubOp::create(b, loc, x, by);
  }
  /// [groups, columns], f32.
  Value parameter(const Grouped &p) {
    Value x = as(p.value, b.getF32Type());
    if (rankOf(x) == 2)
      return down == 0 ? x : makeTranspose(b, loc, x, {1, 0});
    auto type = RankedTensorType::get({groups, columns}, b.getF32Type());
    if (rankOf(x) == 0)
      return BroadcastOp::create(b, loc, type, x, ArrayRef<int64_t>{});
    return BroadcastOp::create(b, loc, type, x, ArrayRef<int64_t>{1});
  }
};

} // namespace

static void multiply(DotOp op) {
  Value x = op.getLhs(), w = op.getRhs();
  auto matrix = cast<RankedTensorType>(w.getType());
  if (!elementTypeOf(x).isF32() || !elementTypeOf(op.getResult()).isF32() ||
      !op.getLhsBatch().empty() || op.getLhsContract().size() != 1 ||
      op.getLhsContract()[0] != rankOf(x) - 1 || matrix.getRank() != 2 ||
      !matrix.hasStaticShape() || isPackedConstant(x))
    return;
  auto product = w.getDefiningOp<MulOp>();
  auto steps =
      product ? product.getLhs().getDefiningOp<ConvertOp>() : ConvertOp();
  if (!steps || !elementTypeOf(steps.getInput()).isInteger(32))
    return;
  auto difference = steps.getInput().getDefiningOp<SubOp>();
  auto wide = difference ? difference.getLhs().getDefiningOp<ConvertOp>()
                         : steps.getInput().getDefiningOp<ConvertOp>();
  Value q = wide ? wide.getInput() : Value();
  Type element = q ? elementTypeOf(q) : Type();
  if (!q || !(element.isInteger(8) || element.isInteger(4)) ||
      !isPackedConstant(q))
    return;
  int64_t down = op.getRhsContract()[0], depth = matrix.getDimSize(down);
  std::optional<Grouped> scale = groupedOf(product.getRhs(), down), zero;
  if (difference)
    zero = groupedOf(difference.getRhs(), down);
  if (!scale || (difference && !zero) || !elementTypeOf(scale->value).isF32() ||
      depth < 1)
    return;
  // Parameters of the whole depth fit groups of any length.
  int64_t group = std::max(scale->group, zero ? zero->group : 0);
  if ((scale->group && scale->group != group) ||
      (zero && zero->group && zero->group != group))
    return;
  if (group == 0) // even, as four bits want it
    group = depth + depth % 2;
  if (element.isInteger(4) && group % 2)
    return;
  int64_t groups = (depth + group - 1) / group;
  for (const Grouped *p : {&*scale, zero ? &*zero : nullptr})
    if (p && rankOf(p->value) == 2 && !dimOf(p->value, down).isConstant(groups))
      return;
  ScaledMatmulBuilder make{OpBuilder(op), op.getLoc(), down, groups,
                           matrix.getDimSize(1 - down)};
  Value scales = make.parameter(*scale);
  Value zeros =
      zero && !isSplat(zero->value, 0) ? make.parameter(*zero) : Value();
  if (element.isUnsignedInteger()) {
    double half = element.isInteger(8) ? 128 : 8;
    Type i32 = make.b.getI32Type();
    q = make.minus(make.as(q, i32), half);
    q = make.as(q, make.b.getIntegerType(element.getIntOrFloatBitWidth()));
    if (!zeros)
      zeros = makeSplat(make.b, op.getLoc(),
                        cast<RankedTensorType>(scales.getType()), 0);
    zeros = make.minus(zeros, half);
  }
  if (down == 1)
    q = makeTranspose(make.b, op.getLoc(), q, {1, 0});
  Value result = ScaledDotOp::create(make.b, op.getLoc(), x, q, scales, zeros,
                                     static_cast<uint64_t>(group));
  op.replaceAllUsesWith(result);
  op.erase();
}

void knapper::scaleMatmuls(func::FuncOp function) {
  function.walk([](DotOp op) { multiply(op); });
}

namespace {
struct ScaledMatmulsPass : knapper::impl::ScaledMatmulsBase<ScaledMatmulsPass> {
  void runOnOperation() override { scaleMatmuls(getOperation()); }
};
} // namespace
