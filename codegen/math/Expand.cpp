// Which op becomes which expansion, and the entry points by name.

#include "codegen/math/Functions.h"
#include "codegen/math/Math.h"

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

using Unary = V (*)(V);
using Binary = V (*)(V, V);

/// The precision that `x` is computed in.
static Type precisionOf(V x) {
  return x.width() < 32 ? Type(x.builder->getF32Type()) : x.element();
}

static V applied(Unary f, V x) {
  return convert(f(convert(x, precisionOf(x))), x.element());
}

static V applied(Binary f, V x, V y) {
  Type wide = precisionOf(x);
  return convert(f(convert(x, wide), convert(y, wide)), x.element());
}

static std::pair<V, V> sincosOf(V x) {
  auto [sine, cosine] = vm::sincos(convert(x, precisionOf(x)));
  return {convert(sine, x.element()), convert(cosine, x.element())};
}

Value buildGeluErf(OpBuilder &b, Location loc, Value x) {
  return applied([](V x) { return vm::geluErf(x); }, {&b, loc, x}).value;
}
Value buildGeluErfByExp2(OpBuilder &b, Location loc, Value x, bool half) {
  Unary f = half ? Unary([](V x) { return vm::geluErf(x, true, true); })
                 : Unary([](V x) { return vm::geluErf(x, true); });
  return applied(f, {&b, loc, x}).value;
}
Value buildGeluTanhByExp2(OpBuilder &b, Location loc, Value x) {
  return applied(vm::geluTanhByExp2, {&b, loc, x}).value;
}
Value buildSigmoidByExp2(OpBuilder &b, Location loc, Value x) {
  return applied(vm::sigmoidByExp2, {&b, loc, x}).value;
}

Value buildTanhByExp2(OpBuilder &b, Location loc, Value x) {
  return applied(vm::tanhByExp2, {&b, loc, x}).value;
}

Value buildExpm1ByExp2(OpBuilder &b, Location loc, Value x) {
  return applied(vm::expm1ByExp2, {&b, loc, x}).value;
}

Value buildSoftplus(OpBuilder &b, Location loc, Value x) {
  return applied(vm::softplus, {&b, loc, x}).value;
}

Value buildSoftplusByExp2(OpBuilder &b, Location loc, Value x) {
  return applied(vm::softplusByExp2, {&b, loc, x}).value;
}

Value buildTanhOfSoftplus(OpBuilder &b, Location loc, Value x) {
  return applied(vm::tanhOfSoftplus, {&b, loc, x}).value;
}

Value buildTanhOfSoftplusByExp2(OpBuilder &b, Location loc, Value x) {
  return applied(vm::tanhOfSoftplusByExp2, {&b, loc, x}).value;
}

Value buildGeluTanh(OpBuilder &b, Location loc, Value x) {
  return applied(vm::geluTanh, {&b, loc, x}).value;
}

Value buildExpNonPositive(OpBuilder &b, Location loc, Value x) {
  return applied(vm::expNonPositive, {&b, loc, x}).value;
}

Value buildExpBelowOverflow(OpBuilder &b, Location loc, Value x, Lookup lookup,
                            ScaleByPower scaleByPower) {
  V v{&b, loc, x};
  return vm::expBelowOverflow(
             v,
             [&](V index, ArrayRef<int32_t> table) {
               return index.with(lookup(index.value, table));
             },
             [&](V value, V power) {
               return value.with(scaleByPower(value.value, power.value));
             })
      .value;
}

/// x^n for an integer n, through f64, where n is exact.
static V expandFPowI(V x, math::FPowIOp op) {
  OpBuilder &b = *x.builder;
  Type n = getElementTypeOrSelf(op.getRhs().getType());
  Type own = x.element(), f64 = b.getF64Type();
  V wide = convert(x, f64);
  V exponent = x.with(op.getRhs());
  if (n.isIndex())
    exponent = exponent.make<arith::IndexCastOp>(
        vm::withElement(exponent.type(), b.getI64Type()), exponent.value);
  return convert(vm::pow(wide, toFloat(exponent, wide)), own);
}

static V expandClamp(V v, math::ClampFOp op) {
  V lo = v.with(op.getMin()), hi = v.with(op.getMax());
  v = select(lo > v, lo, v);
  return select(hi < v, hi, v);
}

/// The class tests, by comparisons.
static V expandClass(V v, Operation *op) {
  if (isa<math::IsNaNOp>(op))
    return isNaN(v);
  V a = abs(v);
  if (isa<math::IsInfOp>(op))
    return a == vm::kInf;
  V finite = a < vm::kInf;
  if (isa<math::IsFiniteOp>(op))
    return finite;
  auto type = cast<FloatType>(v.element());
  APFloat smallest = APFloat::getSmallestNormalized(type.getFloatSemantics());
  bool inexact;
  smallest.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                   &inexact);
  return finite & (a >= smallest.convertToDouble());
}

/// Whether `op` is an `Op` whose flags have `flag`.
template <typename Op>
static bool has(Operation *op, arith::FastMathFlags flag) {
  auto function = dyn_cast<Op>(op);
  return function && bitEnumContainsAny(function.getFastmath(), flag);
}

/// A sine or cosine whose result is rounded to 16 bits.
static bool isSineFor16Bits(Operation *op) {
  return has<math::SinOp>(op, arith::FastMathFlags::afn) ||
         has<math::CosOp>(op, arith::FastMathFlags::afn);
}

/// What the target has as an instruction, and is asked for as such.
static bool isInstruction(Operation *op) {
  return has<math::Exp2Op>(op, arith::FastMathFlags::afn) ||
         has<math::RsqrtOp>(op, arith::FastMathFlags::afn);
}

static Unary unaryExpansion(Operation *op) {
  return TypeSwitch<Operation *, Unary>(op)
      .Case<math::ExpOp>([](auto) { return vm::exp; })
      .Case<math::Exp2Op>([](auto) { return vm::exp2; })
      .Case<math::ExpM1Op>([](auto) { return vm::expm1; })
      .Case<math::LogOp>([](auto) { return vm::log; })
      .Case<math::Log2Op>([](auto) { return vm::log2; })
      .Case<math::Log10Op>([](auto) { return vm::log10; })
      .Case<math::Log1pOp>([](auto) { return vm::log1p; })
      .Case<math::SinOp>([](auto) { return vm::sin; })
      .Case<math::CosOp>([](auto) { return vm::cos; })
      .Case<math::TanOp>([](auto) { return vm::tan; })
      .Case<math::AsinOp>([](auto) { return vm::asin; })
      .Case<math::AcosOp>([](auto) { return vm::acos; })
      .Case<math::AtanOp>([](auto) { return vm::atan; })
      .Case<math::SinhOp>([](auto) { return vm::sinh; })
      .Case<math::CoshOp>([](auto) { return vm::cosh; })
      .Case<math::TanhOp>([](auto) { return vm::tanh; })
      .Case<math::AsinhOp>([](auto) { return vm::asinh; })
      .Case<math::AcoshOp>([](auto) { return vm::acosh; })
      .Case<math::AtanhOp>([](auto) { return vm::atanh; })
      .Case<math::ErfOp>([](auto) { return vm::erf; })
      .Case<math::ErfcOp>([](auto) { return vm::erfc; })
      .Case<math::CbrtOp>([](auto) { return vm::cbrt; })
      .Case<math::RsqrtOp>([](auto) { return vm::rsqrt; })
      .Case<math::RoundOp>([](auto) { return vm::round; })
      .Default([](Operation *) -> Unary { return nullptr; });
}

static Binary binaryExpansion(Operation *op) {
  return TypeSwitch<Operation *, Binary>(op)
      .Case<math::Atan2Op>([](auto) { return vm::atan2; })
      .Case<math::PowFOp>([](math::PowFOp power) -> Binary {
        if (has<math::PowFOp>(power, arith::FastMathFlags::afn))
          return [](V x, V y) { return vm::pow(x, y, x.isF32()); };
        return [](V x, V y) { return vm::pow(x, y); };
      })
      .Case<arith::RemFOp>([](auto) { return vm::fmod; })
      .Default([](Operation *) -> Binary { return nullptr; });
}

/// What `op` is, of its first operand `x`; none for an op that stays.
static std::optional<V> expansion(V x, Operation *op) {
  if (x.isF32() && isSineFor16Bits(op)) {
    auto ninf = arith::FastMathFlags::ninf;
    return isa<math::SinOp>(op)
               ? vm::sinFor16Bits(x, has<math::SinOp>(op, ninf))
               : vm::cosFor16Bits(x, has<math::CosOp>(op, ninf));
  }
  if (Unary f = unaryExpansion(op))
    return applied(f, x);
  if (Binary f = binaryExpansion(op))
    return applied(f, x, x.with(op->getOperand(1)));
  if (auto power = dyn_cast<math::FPowIOp>(op))
    return expandFPowI(x, power);
  if (auto power = dyn_cast<math::IPowIOp>(op))
    return vm::powi(x, x.with(power.getRhs()));
  if (auto clamp = dyn_cast<math::ClampFOp>(op))
    return expandClamp(x, clamp);
  if (isa<math::IsNaNOp, math::IsInfOp, math::IsFiniteOp, math::IsNormalOp>(op))
    return expandClass(x, op);
  return std::nullopt;
}

/// The op of the other kind, if `op` is a sine or cosine whose argument's other
/// function is in the same block: both share one reduction.
static Operation *partnerOf(Operation *op) {
  if (!isa<math::SinOp, math::CosOp>(op) || isSineFor16Bits(op))
    return nullptr;
  for (Operation *user : op->getOperand(0).getUsers())
    if (user->getBlock() == op->getBlock() &&
        user->getName() != op->getName() && isa<math::SinOp, math::CosOp>(user))
      return user;
  return nullptr;
}

/// Replaces `op`; the ops that went with it are added to `erased`.
static void expandOne(Operation *op, bool spread,
                      SmallPtrSetImpl<Operation *> &erased) {
  if (isInstruction(op))
    return;
  OpBuilder b(op);
  V x{&b, op->getLoc(), op->getOperand(0), spread};
  if (isa<math::SincosOp>(op)) {
    auto [sine, cosine] = sincosOf(x);
    op->replaceAllUsesWith(ValueRange{sine.value, cosine.value});
  } else if (Operation *partner = partnerOf(op)) {
    if (partner->isBeforeInBlock(op))
      b.setInsertionPoint(partner);
    auto [sine, cosine] = sincosOf(x);
    if (isa<math::CosOp>(op))
      std::swap(sine, cosine);
    op->replaceAllUsesWith(ValueRange{sine.value});
    partner->replaceAllUsesWith(ValueRange{cosine.value});
    partner->erase();
    erased.insert(partner);
  } else if (std::optional<V> result = expansion(x, op)) {
    op->replaceAllUsesWith(ValueRange{result->value});
  } else {
    return;
  }
  op->erase();
}

void expandMath(Operation *root, bool spread) {
  SmallVector<Operation *> ops;
  root->walk([&](Operation *op) {
    if (isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
        isa<arith::RemFOp>(op))
      ops.push_back(op);
  });
  SmallPtrSet<Operation *, 8> erased;
  for (Operation *op : ops)
    if (!erased.contains(op))
      expandOne(op, spread, erased);
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
  void runOnOperation() final { expandMath(getOperation(), /*spread=*/false); }
};
} // namespace

std::unique_ptr<Pass> createExpandMathPass() {
  return std::make_unique<ExpandMath>();
}

void registerExpandMathPass() { PassRegistration<ExpandMath>(); }

} // namespace knapper
