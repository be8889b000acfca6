// Which op becomes which expansion, and the entry points by name.

#include "codegen/lower/math/Functions.h"
#include "codegen/lower/math/Math.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace knapper {

namespace vm = vecmath;
using vecmath::V;

/// Calls `f` on the arguments; f16 and bf16 as f32.
template <typename Function, typename... Args>
static Value inPrecision(OpBuilder &b, Location loc, Function f, Value first,
                         Args... rest) {
  V x{&b, loc, first};
  Type own = x.element();
  Type wide = own.getIntOrFloatBitWidth() < 32 ? Type(b.getF32Type()) : own;
  return convert(f(convert(x, wide), convert(x.with(rest), wide)...), own)
      .value;
}

#define KNAPPER_UNARY(NAME, FUNCTION)                                          \
  Value build##NAME(OpBuilder &b, Location loc, Value x) {                     \
    return inPrecision(b, loc, static_cast<V (*)(V)>(FUNCTION), x);            \
  }
KNAPPER_UNARY(Exp, vm::exp)
KNAPPER_UNARY(Exp2, vm::exp2)
KNAPPER_UNARY(Expm1, vm::expm1)
KNAPPER_UNARY(Log, vm::log)
KNAPPER_UNARY(Log2, vm::log2)
KNAPPER_UNARY(Log10, vm::log10)
KNAPPER_UNARY(Log1p, vm::log1p)
KNAPPER_UNARY(Sin, vm::sin)
KNAPPER_UNARY(Cos, vm::cos)
KNAPPER_UNARY(Tan, vm::tan)
KNAPPER_UNARY(Asin, vm::asin)
KNAPPER_UNARY(Acos, vm::acos)
KNAPPER_UNARY(Atan, vm::atan)
KNAPPER_UNARY(Sinh, vm::sinh)
KNAPPER_UNARY(Cosh, vm::cosh)
KNAPPER_UNARY(Tanh, vm::tanh)
KNAPPER_UNARY(Asinh, vm::asinh)
KNAPPER_UNARY(Acosh, vm::acosh)
KNAPPER_UNARY(Atanh, vm::atanh)
KNAPPER_UNARY(Erf, vm::erf)
KNAPPER_UNARY(Erfc, vm::erfc)
KNAPPER_UNARY(Cbrt, vm::cbrt)
KNAPPER_UNARY(Round, vm::round)
KNAPPER_UNARY(Sigmoid, vm::sigmoid)
KNAPPER_UNARY(GeluErf, vm::geluErf)
KNAPPER_UNARY(GeluTanh, vm::geluTanh)
#undef KNAPPER_UNARY

Value buildRsqrt(OpBuilder &b, Location loc, Value x) {
  return inPrecision(b, loc, [](V v) { return 1.0 / sqrt(v); }, x);
}

#define KNAPPER_BINARY(NAME, FUNCTION)                                         \
  Value build##NAME(OpBuilder &b, Location loc, Value x, Value y) {            \
    return inPrecision(b, loc, static_cast<V (*)(V, V)>(FUNCTION), x, y);      \
  }
KNAPPER_BINARY(Atan2, vm::atan2)
KNAPPER_BINARY(Pow, vm::pow)
KNAPPER_BINARY(Fmod, vm::fmod)
#undef KNAPPER_BINARY

std::pair<Value, Value> buildSincos(OpBuilder &b, Location loc, Value x) {
  V v{&b, loc, x};
  Type own = v.element();
  Type wide = own.getIntOrFloatBitWidth() < 32 ? Type(b.getF32Type()) : own;
  auto [sine, cosine] = vm::sincos(convert(v, wide));
  return {convert(sine, own).value, convert(cosine, own).value};
}

/// x^n for an integer n, through f64, where n is exact.
static Value expandFPowI(OpBuilder &b, math::FPowIOp op) {
  Type n = getElementTypeOrSelf(op.getRhs().getType());
  V x{&b, op.getLoc(), op.getLhs()};
  Type own = x.element(), f64 = b.getF64Type();
  V wide = convert(x, f64);
  V exponent = x.with(op.getRhs());
  if (n.isIndex())
    exponent = exponent.make<arith::IndexCastOp>(
        vm::withElement(exponent.type(), b.getI64Type()), exponent.value);
  return convert(vm::pow(wide, toFloat(exponent, wide)), own).value;
}

static Value expandClamp(OpBuilder &b, math::ClampFOp op) {
  V v{&b, op.getLoc(), op.getValue()};
  V lo = v.with(op.getMin()), hi = v.with(op.getMax());
  v = select(lo > v, lo, v);
  return select(hi < v, hi, v).value;
}

/// The class tests, by comparisons.
static Value expandClass(OpBuilder &b, Operation *op) {
  V v{&b, op->getLoc(), op->getOperand(0)};
  if (isa<math::IsNaNOp>(op))
    return isNaN(v).value;
  V a = abs(v);
  if (isa<math::IsInfOp>(op))
    return (a == vm::kInf).value;
  V finite = a < vm::kInf;
  if (isa<math::IsFiniteOp>(op))
    return finite.value;
  auto type = cast<FloatType>(v.element());
  APFloat smallest = APFloat::getSmallestNormalized(type.getFloatSemantics());
  bool inexact;
  smallest.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                   &inexact);
  return (finite & (a >= smallest.convertToDouble())).value;
}

using Unary = Value (*)(OpBuilder &, Location, Value);
using Binary = Value (*)(OpBuilder &, Location, Value, Value);

static Unary unaryExpansion(Operation *op) {
  return TypeSwitch<Operation *, Unary>(op)
      .Case<math::ExpOp>([](auto) { return buildExp; })
      .Case<math::Exp2Op>([](auto) { return buildExp2; })
      .Case<math::ExpM1Op>([](auto) { return buildExpm1; })
      .Case<math::LogOp>([](auto) { return buildLog; })
      .Case<math::Log2Op>([](auto) { return buildLog2; })
      .Case<math::Log10Op>([](auto) { return buildLog10; })
      .Case<math::Log1pOp>([](auto) { return buildLog1p; })
      .Case<math::SinOp>([](auto) { return buildSin; })
      .Case<math::CosOp>([](auto) { return buildCos; })
      .Case<math::TanOp>([](auto) { return buildTan; })
      .Case<math::AsinOp>([](auto) { return buildAsin; })
      .Case<math::AcosOp>([](auto) { return buildAcos; })
      .Case<math::AtanOp>([](auto) { return buildAtan; })
      .Case<math::SinhOp>([](auto) { return buildSinh; })
      .Case<math::CoshOp>([](auto) { return buildCosh; })
      .Case<math::TanhOp>([](auto) { return buildTanh; })
      .Case<math::AsinhOp>([](auto) { return buildAsinh; })
      .Case<math::AcoshOp>([](auto) { return buildAcosh; })
      .Case<math::AtanhOp>([](auto) { return buildAtanh; })
      .Case<math::ErfOp>([](auto) { return buildErf; })
      .Case<math::ErfcOp>([](auto) { return buildErfc; })
      .Case<math::CbrtOp>([](auto) { return buildCbrt; })
      .Case<math::RsqrtOp>([](auto) { return buildRsqrt; })
      .Case<math::RoundOp>([](auto) { return buildRound; })
      .Default([](Operation *) -> Unary { return nullptr; });
}

static Binary binaryExpansion(Operation *op) {
  return TypeSwitch<Operation *, Binary>(op)
      .Case<math::Atan2Op>([](auto) { return buildAtan2; })
      .Case<math::PowFOp>([](auto) { return buildPow; })
      .Case<arith::RemFOp>([](auto) { return buildFmod; })
      .Default([](Operation *) -> Binary { return nullptr; });
}

static Value expandOther(OpBuilder &b, Operation *op) {
  if (auto power = dyn_cast<math::FPowIOp>(op))
    return expandFPowI(b, power);
  if (auto power = dyn_cast<math::IPowIOp>(op)) {
    V x{&b, op->getLoc(), power.getLhs()};
    return vm::powi(x, x.with(power.getRhs())).value;
  }
  if (auto clamp = dyn_cast<math::ClampFOp>(op))
    return expandClamp(b, clamp);
  if (isa<math::IsNaNOp, math::IsInfOp, math::IsFiniteOp, math::IsNormalOp>(op))
    return expandClass(b, op);
  return {};
}

/// The op of the other kind, if `op` is a sine or cosine whose argument's other
/// function is in the same block: both share one reduction.
static Operation *partnerOf(Operation *op) {
  if (!isa<math::SinOp, math::CosOp>(op))
    return nullptr;
  for (Operation *user : op->getOperand(0).getUsers())
    if (user->getBlock() == op->getBlock() &&
        user->getName() != op->getName() && isa<math::SinOp, math::CosOp>(user))
      return user;
  return nullptr;
}

/// Replaces `op`; the ops that went with it are added to `erased`.
static void expandOne(Operation *op, SmallPtrSetImpl<Operation *> &erased) {
  OpBuilder b(op);
  Location loc = op->getLoc();
  SmallVector<Value, 2> results;
  if (auto both = dyn_cast<math::SincosOp>(op)) {
    auto [sine, cosine] = buildSincos(b, loc, both.getOperand());
    results = {sine, cosine};
  } else if (Operation *partner = partnerOf(op)) {
    if (partner->isBeforeInBlock(op))
      b.setInsertionPoint(partner);
    auto [sine, cosine] = buildSincos(b, loc, op->getOperand(0));
    bool isSine = isa<math::SinOp>(op);
    results = {isSine ? sine : cosine};
    partner->replaceAllUsesWith(ValueRange{isSine ? cosine : sine});
    partner->erase();
    erased.insert(partner);
  } else if (Unary f = unaryExpansion(op)) {
    results = {f(b, loc, op->getOperand(0))};
  } else if (Binary f = binaryExpansion(op)) {
    results = {f(b, loc, op->getOperand(0), op->getOperand(1))};
  } else if (Value result = expandOther(b, op)) {
    results = {result};
  } else {
    return;
  }
  op->replaceAllUsesWith(results);
  op->erase();
}

void expandMath(Operation *root) {
  SmallVector<Operation *> ops;
  root->walk([&](Operation *op) {
    if (isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
        isa<arith::RemFOp>(op))
      ops.push_back(op);
  });
  SmallPtrSet<Operation *, 8> erased;
  for (Operation *op : ops)
    if (!erased.contains(op))
      expandOne(op, erased);
}

namespace {
class ExpandMath : public PassWrapper<ExpandMath, OperationPass<>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandMath)
  StringRef getArgument() const final { return "knapper-expand-math"; }
  StringRef getDescription() const final {
    return "Elementary functions as arithmetic, without libraries";
  }
  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                    vector::VectorDialect>();
  }
  void runOnOperation() final { expandMath(getOperation()); }
};
} // namespace

std::unique_ptr<Pass> createExpandMathPass() {
  return std::make_unique<ExpandMath>();
}

void registerExpandMathPass() { PassRegistration<ExpandMath>(); }

} // namespace knapper
