#include "graph/quantize/QuantisedProducts.h"

#include "graph/quantize/Passes.h"
#include "graph/simplify/Match.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_QUANTISEDPRODUCTS
#include "graph/quantize/Passes.h.inc"
} // namespace knapper

namespace {

/// A scale or zero point, as it was before it was spread over a tensor.
struct Parameter {
  Value value;       ///< 0-d, or 1-d along `axis`; null: zero
  int64_t axis = -1; ///< of the tensor; -1: one number for all of it
};

/// A tensor that is (bytes - zero) * scale.
struct Dequantised {
  Value bytes;
  Parameter zero, scale;
};

} // namespace

static std::optional<Parameter> parameterOf(Value value) {
  if (auto convert = value.getDefiningOp<ConvertOp>())
    value = convert.getInput();
  auto spread = value.getDefiningOp<BroadcastOp>();
  if (!spread || rankOf(spread.getInput()) > 1)
    return std::nullopt;
  if (rankOf(spread.getInput()) == 0)
    return Parameter{spread.getInput()};
  return Parameter{spread.getInput(), spread.getDims()[0]};
}

static bool isByte(Value value) {
  return isa<IntegerType>(elementTypeOf(value)) &&
         elementTypeOf(value).isInteger(8);
}
/// Bytes converted to i32, as bytes; null for anything else.
static Value bytesOf(Value value) {
  auto convert = value.getDefiningOp<ConvertOp>();
  if (!convert || !elementTypeOf(value).isInteger(32) ||
      !isByte(convert.getInput()))
    return {};
  return convert.getInput();
}

static std::optional<Dequantised> dequantised(Value value) {
  auto product = value.getDefiningOp<MulOp>();
  auto steps = product ? product->getOperand(0).getDefiningOp<ConvertOp>()
                       : ConvertOp();
  if (!steps || !elementTypeOf(value).isF32() ||
      !elementTypeOf(steps.getInput()).isInteger(32))
    return std::nullopt;
  std::optional<Parameter> scale = parameterOf(product->getOperand(1));
  if (!scale || !elementTypeOf(scale->value).isF32())
    return std::nullopt;
  if (Value bytes = bytesOf(steps.getInput()))
    return Dequantised{bytes, {}, *scale};
  auto difference = steps.getInput().getDefiningOp<SubOp>();
  Value bytes = difference ? bytesOf(difference->getOperand(0)) : Value();
  if (!bytes)
    return std::nullopt;
  std::optional<Parameter> zero = parameterOf(difference->getOperand(1));
  if (!zero || !isByte(zero->value))
    return std::nullopt;
  if (isSplat(zero->value, 0))
    zero = Parameter{};
  return Dequantised{bytes, *zero, *scale};
}

namespace {

/// Makes the product at the place of the dot.
struct Maker {
  OpBuilder b;
  Location loc;

  Value as(Value x, Type element) {
    return elementTypeOf(x) == element
               ? x
               : ConvertOp::create(b, loc, withElement(x.getType(), element), x)
                     .getResult();
  }
  Value i32(Value x) { return as(x, b.getI32Type()); }
  Value like(Value x, int64_t number) {
    return makeSplat(b, loc, cast<RankedTensorType>(x.getType()),
                     static_cast<double>(number));
  }
  Value spread(Value x, Value over, ArrayRef<int64_t> at) {
    return makeBroadcast(b, loc, x, dimsOf(over), at);
  }
  template <typename Op> Value binary(Value x, Value y) {
    return Op::create(b, loc, x, y);
  }

  /// Bytes of the wanted sign, and the zero point (i32) that goes with them.
  void move(Dequantised &x, bool isUnsigned) {
    if (x.zero.value)
      x.zero.value = i32(x.zero.value);
    if (elementTypeOf(x.bytes).isUnsignedInteger() == isUnsigned)
      return;
    int64_t by = isUnsigned ? 128 : -128;
    Value wide = i32(x.bytes);
    x.bytes = as(binary<AddOp>(wide, like(wide, by)),
                 isUnsigned ? b.getIntegerType(8, /*isSigned=*/false)
                            : b.getIntegerType(8));
    if (x.zero.value) {
      x.zero.value = binary<AddOp>(x.zero.value, like(x.zero.value, by));
    } else {
      x.zero = {makeSplat(b, loc,
                          tensorType(b.getContext(), {}, b.getI32Type()),
                          static_cast<double>(by)),
                -1};
    }
  }
  Value sum(Value bytes, int64_t dim) {
    return ReduceOp::create(b, loc, ReduceKind::add, i32(bytes),
                            ArrayRef<int64_t>{dim});
  }
  /// A number, or one a column, over the result.
  Value over(const Parameter &p, Value result) {
    int64_t last = rankOf(result) - 1;
    return p.axis < 0 ? spread(p.value, result, {})
                      : spread(p.value, result, {last});
  }
};

} // namespace

static void multiply(DotOp op) {
  if (!elementTypeOf(op.getResult()).isF32() || !op.getLhsBatch().empty() ||
      op.getLhsContract().size() != 1 || rankOf(op.getRhs()) != 2)
    return;
  Value left = op.getLhs();
  auto resized = left.getDefiningOp<DimCastOp>();
  std::optional<Dequantised> x =
      dequantised(resized ? resized.getInput() : left);
  std::optional<Dequantised> w = dequantised(op.getRhs());
  int64_t along = op.getLhsContract()[0], down = op.getRhsContract()[0];
  std::optional<int64_t> depth = dimsOf(op.getRhs())[down].asConstant();
  constexpr int64_t longest = INT32_MAX / (255 * 255);
  if (!x || !w || x->zero.axis >= 0 || x->scale.axis >= 0 ||
      w->zero.axis == down || w->scale.axis == down || !depth ||
      *depth > longest || !isPackedConstant(w->bytes))
    return;
  Maker make{OpBuilder(op), op.getLoc()};
  if (resized)
    x->bytes = DimCastOp::create(
        make.b, op.getLoc(),
        withElement(left.getType(), elementTypeOf(x->bytes)), x->bytes);
  make.move(*x, /*isUnsigned=*/true);
  make.move(*w, /*isUnsigned=*/false);
  // sum (x - p)(w - q) = sum xw - p sum w - q (sum x - K p)
  Value sums = DotOp::create(
      make.b, op.getLoc(), x->bytes, w->bytes, op.getLhsBatch(),
      op.getRhsBatch(), op.getLhsContract(), op.getRhsContract(),
      TypeAttr::get(make.b.getI32Type()));
  int64_t last = rankOf(sums) - 1;
  if (Value p = x->zero.value) {
    Value columns = make.sum(w->bytes, down);
    columns = make.binary<MulOp>(columns, make.spread(p, columns, {}));
    sums = make.binary<SubOp>(sums, make.spread(columns, sums, {last}));
  }
  if (w->zero.value) {
    Value rows = make.sum(x->bytes, along);
    if (Value p = x->zero.value)
      rows = make.binary<SubOp>(
          rows, make.spread(make.binary<MulOp>(p, make.like(p, *depth)), rows,
                            {}));
    Value spread = make.spread(rows, sums,
                               llvm::to_vector(llvm::seq<int64_t>(0, last)));
    sums = make.binary<SubOp>(
        sums, make.binary<MulOp>(spread, make.over(w->zero, sums)));
  }
  Value result = make.as(sums, make.b.getF32Type());
  result = make.binary<MulOp>(result, make.over(x->scale, result));
  result = make.binary<MulOp>(result, make.over(w->scale, result));
  op.replaceAllUsesWith(result);
  op.erase();
}

void knapper::multiplyQuantised(func::FuncOp function) {
  function.walk([](DotOp op) { multiply(op); });
}

namespace {
struct QuantisedProductsPass
    : knapper::impl::QuantisedProductsBase<QuantisedProductsPass> {
  void runOnOperation() override { multiplyQuantised(getOperation()); }
};
} // namespace
