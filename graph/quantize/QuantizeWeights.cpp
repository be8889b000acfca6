#include "graph/quantize/QuantizeWeights.h"

#include "graph/quantize/QuantizePasses.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/ScaledDot.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_QUANTIZEWEIGHTS
#include "graph/quantize/QuantizePasses.h.inc"
} // namespace knapper

namespace {

/// Makes the constants of one matrix.
struct QuantizedWeightBuilder {
  OpBuilder b;
  Location loc;
  const WeightFormat &format;
  int64_t depth, columns, groups;

  Type f32() { return b.getF32Type(); }
  RankedTensorType type(ArrayRef<int64_t> dims, Type element) {
    return RankedTensorType::get(dims, element);
  }
  Value splat(Value like, double number) {
    return makeSplat(b, loc, cast<RankedTensorType>(like.getType()), number);
  }
  template <typename Op> Value binary(Value x, Value y) {
    return Op::create(b, loc, x, y);
  }
  template <typename Op> Value binary(Value x, double y) {
    return binary<Op>(x, splat(x, y));
  }
  Value round(Value x) { return RoundEvenOp::create(b, loc, x); }
  Value select(ComparePredicate predicate, Value x, Value y, Value yes,
               Value no) {
    Value condition = CompareOp::create(b, loc, predicate, x, y);
    return SelectOp::create(b, loc, condition, yes, no);
  }

  /// [K, N] as [groups, rows of a group, N], zeros past K.
  Value grouped(Value w) {
    if (groups * format.group != depth) {
      Value none = splat(w, 0);
      MLIRContext *context = b.getContext();
      auto sizes = [&](int64_t rows) {
        return dimArray(
            context, {Dim::constant(context, rows), Dim::constant(context, 0)});
      };
      none = scalarOf(b, none);
      w = PadOp::create(b, loc, w, none, sizes(0),
                        sizes(groups * format.group - depth));
    }
    return ReshapeOp::create(b, loc,
                             type({groups, format.group, columns}, f32()), w);
  }
  Value reduce(ReduceKind kind, Value w) {
    return ReduceOp::create(b, loc, kind, w, ArrayRef<int64_t>{1});
  }
  /// A number a group and column, over the group's rows.
  Value spread(Value parameter, Value w) {
    return BroadcastOp::create(b, loc, cast<RankedTensorType>(w.getType()),
                               parameter, ArrayRef<int64_t>{0, 2});
  }

  ScaledDotOp make(Value x, Value weight);
};

} // namespace

ScaledDotOp QuantizedWeightBuilder::make(Value x, Value weight) {
  double steps = static_cast<double>(int64_t(1) << format.bits);
  double lowest = -steps / 2, highest = steps / 2 - 1;
  Value w = grouped(weight), scale, zero;
  if (format.asymmetric) {
    Value high = reduce(ReduceKind::max, w), low = reduce(ReduceKind::min, w);
    high = binary<MaxOp>(high, 0.0);
    low = binary<MinOp>(low, 0.0);
    scale = binary<DivOp>(binary<SubOp>(high, low), steps - 1);
    Value none = splat(scale, 0), one = splat(scale, 1);
    scale = select(ComparePredicate::eq, scale, none, one, scale);
    zero = binary<SubOp>(splat(low, lowest), round(binary<DivOp>(low, scale)));
  } else if (format.bits == 4) {
    // Of the range -8..7 the end that is one longer goes to the larger side.
    Value high = reduce(ReduceKind::max, w), low = reduce(ReduceKind::min, w);
    Value opposite = NegOp::create(b, loc, low);
    Value extreme = select(ComparePredicate::gt, high, opposite, high, low);
    scale = binary<DivOp>(extreme, lowest);
  } else {
    Value magnitude = AbsOp::create(b, loc, w);
    scale = binary<DivOp>(reduce(ReduceKind::max, magnitude), highest);
  }
  if (!format.asymmetric) {
    Value none = splat(scale, 0), one = splat(scale, 1);
    scale = select(ComparePredicate::eq, scale, none, one, scale);
  }
  Value q = round(binary<DivOp>(w, spread(scale, w)));
  if (zero)
    q = binary<AddOp>(q, spread(zero, w));
  q = binary<MinOp>(binary<MaxOp>(q, lowest), highest);
  Type integer = b.getIntegerType(static_cast<unsigned>(format.bits));
  q = ConvertOp::create(b, loc, withElement(q.getType(), integer), q);
  q = ReshapeOp::create(b, loc, type({groups * format.group, columns}, integer),
                        q);
  if (groups * format.group != depth) {
    Dim none = Dim::constant(b.getContext(), 0);
    q = makeSlice(b, loc, q, 0, none, none.like(depth));
  }
  return ScaledDotOp::create(b, loc, x, q, scale, zero,
                             static_cast<uint64_t>(format.group));
}

static bool quantize(DotOp op, const WeightFormat &format) {
  Value x = op.getLhs(), w = op.getRhs();
  auto matrix = cast<RankedTensorType>(w.getType());
  if (!elementTypeOf(x).isF32() || !elementTypeOf(op.getResult()).isF32() ||
      !matrix.getElementType().isF32() || matrix.getRank() != 2 ||
      !matrix.hasStaticShape() || op.getLhsContract().size() != 1 ||
      op.getLhsContract()[0] != rankOf(x) - 1 || !op.getLhsBatch().empty() ||
      matrix.getNumElements() < std::max<int64_t>(1, format.leastElements) ||
      !isPackedConstant(w) || isPackedConstant(x))
    return false;
  QuantizedWeightBuilder make{OpBuilder(op), op.getLoc(), format, 0, 0, 0};
  if (op.getRhsContract()[0] == 1) {
    w = makeTranspose(make.b, op.getLoc(), w, {1, 0});
    matrix = cast<RankedTensorType>(w.getType());
  }
  make.depth = matrix.getDimSize(0);
  make.columns = matrix.getDimSize(1);
  make.groups = (make.depth + format.group - 1) / format.group;
  ScaledDotOp matmul = make.make(x, w);
  op.replaceAllUsesWith(matmul.getResult());
  op.erase();
  return true;
}

int64_t knapper::quantizeWeights(func::FuncOp function,
                                 const WeightFormat &format) {
  int64_t count = 0;
  function.walk([&](DotOp op) { count += quantize(op, format); });
  return count;
}

namespace {
struct QuantizeWeightsPass
    : knapper::impl::QuantizeWeightsBase<QuantizeWeightsPass> {
  using QuantizeWeightsBase::QuantizeWeightsBase;
  void runOnOperation() override {
    if ((bits != 8 && bits != 4) || group < 1 || (bits == 4 && group % 2)) {
      getOperation().emitError("quantize-weights: bits are 8 or 4, a group is "
                               "positive and, of 4 bits, even");
      return signalPassFailure();
    }
    quantizeWeights(getOperation(), {bits, group, asymmetric, least});
  }
};
} // namespace
