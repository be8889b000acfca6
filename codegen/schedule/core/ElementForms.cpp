// Functions of an element that a target computes by fewer instructions than
// their definition has. What is only kept in 16 bits needs fewer still.

#include "codegen/math/Math.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "graph/simplify/Match.h"
#include "ir/tile/GridOps.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace knapper {

bool isBelowItsMaximum(Value tensor) {
  auto difference = tensor.getDefiningOp<ts::SubOp>();
  auto broadcast = difference
                       ? difference.getRhs().getDefiningOp<ts::BroadcastOp>()
                       : ts::BroadcastOp();
  auto max = broadcast ? broadcast.getInput().getDefiningOp<ts::ReduceOp>()
                       : ts::ReduceOp();
  if (!max || max.getKind() != ts::ReduceKind::max ||
      max.getInput() != difference.getLhs())
    return false;
  // Each maximum goes back to the elements that it was taken of.
  SmallVector<int64_t> kept;
  for (int64_t d = 0; d < ts::rankOf(max.getInput()); ++d)
    if (!llvm::is_contained(max.getDims(), d))
      kept.push_back(d);
  return ArrayRef<int64_t>(broadcast.getDims()) == ArrayRef<int64_t>(kept);
}

bool ElementEmitter::expTakesPositive(Type type) const {
  constexpr int64_t wholeRegister = 16;
  auto vector = dyn_cast<VectorType>(type);
  return target.wordTable && target.powerScale && vector &&
         vector.getElementType().isF32() &&
         vector.getShape().back() % wholeRegister == 0;
}

/// exp(x) = 2^t with t = x log2(e) for x <= 0 or NaN. The rounding of t, whose
/// size grows with x, is made up for unless the result is rounded far more.
static Value expBySpecialUnit(ElementEmitter &e, Value x, bool half) {
  OpBuilder &b = e.builder;
  Location loc = e.location;
  auto type = dyn_cast<VectorType>(x.getType());
  auto number = [&](double value) {
    return e.splat(b.getF32Type(), type ? type.getDimSize(0) : 0, value);
  };
  constexpr double log2e = 1.4426950408889634, ln2 = 0.6931471805599453;
  const double upper = static_cast<float>(log2e);
  if (half)
    return tile::Exp2Op::create(
        b, loc, x.getType(), arith::MulFOp::create(b, loc, x, number(upper)));
  // Far below the least number, where products stay finite.
  Value least = number(-200);
  Value isLess =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, least);
  x = arith::SelectOp::create(b, loc, isLess, least, x);
  Value t = arith::MulFOp::create(b, loc, x, number(upper));
  Value minus = arith::NegFOp::create(b, loc, t);
  Value rest = math::FmaOp::create(b, loc, x, number(upper), minus);
  rest = math::FmaOp::create(b, loc, x, number(log2e - upper), rest);
  rest = arith::MulFOp::create(b, loc, rest, number(ln2));
  Value power = tile::Exp2Op::create(b, loc, x.getType(), t);
  return math::FmaOp::create(b, loc, power, rest, power);
}

Value ElementEmitter::expNonPositive(Value x, bool half) {
  if (target.simt && getElementTypeOrSelf(x.getType()).isF32())
    return expBySpecialUnit(*this, x, half);
  auto lookup = [&](Value index, ArrayRef<int32_t> table) -> Value {
    return tile::LookupOp::create(builder, location, index.getType(), index,
                                  table);
  };
  auto scaleByPower = [&](Value value, Value power) -> Value {
    return tile::ScaleByPowerOp::create(builder, location, value.getType(),
                                        value, power);
  };
  if (expTakesPositive(x.getType()))
    return buildExpBelowOverflow(builder, location, x, lookup, scaleByPower);
  return buildExpNonPositive(builder, location, x);
}

Value ElementEmitter::larger(Value a, Value v) {
  // One instruction there, which takes `a` for a NaN too.
  if (target.simt && getElementTypeOrSelf(v.getType()).isF32())
    return arith::MaxNumFOp::create(builder, location, v, a);
  Value above =
      arith::CmpFOp::create(builder, location, arith::CmpFPredicate::OGT, v, a);
  return arith::SelectOp::create(builder, location, above, v, a);
}

/// Whether elements are rounded to 16 bits, or only what up to `most` products,
/// selections and conversions one behind the other make of them.
static bool isRoundedToHalf(Value tensor, unsigned most = 3) {
  Type element = ts::elementTypeOf(tensor);
  if (element.isF16() || element.isBF16())
    return true;
  return most > 0 && element.isF32() && !tensor.use_empty() &&
         llvm::all_of(tensor.getUsers(), [&](Operation *user) {
           return isa<ts::MulOp, ts::SelectOp, ts::ConvertOp>(user) &&
                  isa<FloatType>(ts::elementTypeOf(user->getResult(0))) &&
                  isRoundedToHalf(user->getResult(0), most - 1);
         });
}

/// Whether a quotient is read by functions alone that a rounding more does not
/// move to another value of 16 bits: a score over its cap. The cap is a number
/// whose reciprocal is neither infinite nor flushed: 0 over a denormal stays 0.
static bool feedsSaturation(ts::DivOp divide) {
  constexpr double least = 0x1p-126;
  double by = std::abs(splatOf(divide->getOperand(1)).value_or(0));
  return by >= least && by <= 1 / least &&
         llvm::all_of(divide->getUsers(), [](Operation *user) {
           return isa<ts::TanhOp, ts::SigmoidOp>(user) &&
                  isRoundedToHalf(user->getResult(0));
         });
}

/// Mish: x tanh(softplus(x)), whose logarithm and tangent cancel.
static ts::SoftplusOp softplusUnderTanh(Operation *op) {
  auto tanh = dyn_cast<ts::TanhOp>(op);
  return tanh ? tanh.getInput().getDefiningOp<ts::SoftplusOp>()
              : ts::SoftplusOp();
}

/// A sine, cosine or root whose result is rounded to 16 bits, as `expandMath`
/// and the GPU's lowering take it.
static Value buildFor16Bits(OpBuilder &b, Operation *op, Value x) {
  auto flags = arith::FastMathFlags::afn;
  if (ts::elementTypeOf(op->getOperand(0)).isF16())
    flags = flags | arith::FastMathFlags::ninf;
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](ts::SinOp) {
        return math::SinOp::create(b, op->getLoc(), x, flags);
      })
      .Case([&](ts::CosOp) {
        return math::CosOp::create(b, op->getLoc(), x, flags);
      })
      .Case([&](ts::SqrtOp) {
        return math::SqrtOp::create(b, op->getLoc(), x,
                                    arith::FastMathFlags::afn);
      })
      .Default([&](Operation *) {
        return math::RsqrtOp::create(b, op->getLoc(), x,
                                     arith::FastMathFlags::afn);
      });
}

SmallVector<Value> ElementEmitter::operandsOfForm(Operation *op) {
  if (ts::SoftplusOp softplus = softplusUnderTanh(op))
    return {softplus.getInput()};
  return op->getOperands();
}

Value ElementEmitter::shorterForm(Operation *op, ArrayRef<Value> operands) {
  Value tensor = op->getResult(0), x = operands.front();
  bool gpu = target.simt, rounded = isRoundedToHalf(tensor);
  bool half = gpu && rounded;
  auto built = [&](auto function) { return function(builder, location, x); };
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](ts::GeluOp gelu) {
        if (gelu.getTanh())
          return built(half ? buildGeluTanhByExp2 : buildGeluTanh);
        return gpu ? buildGeluErfByExp2(builder, location, x, half)
                   : built(buildGeluErf);
      })
      .Case([&](ts::SigmoidOp) {
        return half ? built(buildSigmoidByExp2) : Value();
      })
      .Case([&](ts::SoftplusOp) {
        return built(half ? buildSoftplusByExp2 : buildSoftplus);
      })
      .Case([&](ts::TanhOp) {
        if (softplusUnderTanh(op))
          return built(half ? buildTanhOfSoftplusByExp2 : buildTanhOfSoftplus);
        return half ? built(buildTanhByExp2) : Value();
      })
      .Case(
          [&](ts::Expm1Op) { return half ? built(buildExpm1ByExp2) : Value(); })
      .Case([&](ts::ExpOp) {
        if (half && getElementTypeOrSelf(x.getType()).isF32())
          return expBySpecialUnit(*this, x, half);
        return isBelowItsMaximum(op->getOperand(0)) ? expNonPositive(x)
                                                    : Value();
      })
      .Case<ts::SinOp, ts::CosOp>([&](Operation *) {
        return rounded ? buildFor16Bits(builder, op, x) : Value();
      })
      .Case<ts::SqrtOp, ts::RsqrtOp>([&](Operation *) {
        return half ? buildFor16Bits(builder, op, x) : Value();
      })
      .Case([&](ts::PowOp power) -> Value {
        if (!rounded || !isa<FloatType>(ts::elementTypeOf(power.getRhs())))
          return {};
        return math::PowFOp::create(builder, location, x, operands[1],
                                    arith::FastMathFlags::afn);
      })
      .Case([&](ts::DivOp divide) -> Value {
        if (!gpu || !feedsSaturation(divide))
          return {};
        return arith::DivFOp::create(builder, location, x, operands[1],
                                     arith::FastMathFlags::arcp);
      })
      .Default([](Operation *) { return Value(); });
}

} // namespace knapper
