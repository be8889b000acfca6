// gelu, sigmoid and softplus.
#include "graph/simplify/FindComposites.h"
#include "graph/simplify/Match.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

/// A tree of products: a number times factors, sorted.
struct FactorTree {
  Type element;
  double number = 1;
  SmallVector<Value> factors;

  void sort() {
    llvm::sort(factors, [](Value a, Value b) {
      return a.getAsOpaquePointer() < b.getAsOpaquePointer();
    });
  }
  /// number * x^n
  static FactorTree power(FactorTree x, int n) {
    FactorTree result;
    result.element = x.element;
    for (int i = 0; i < n; ++i) {
      result.number *= x.number;
      llvm::append_range(result.factors, x.factors);
    }
    result.sort();
    return result;
  }
  FactorTree times(double k) const { return {element, number * k, factors}; }
  /// As near as a constant of the element type can be.
  bool hasNumber(double other) const {
    double ulps = element.isBF16() ? 0x1p-8 : element.isF16() ? 0x1p-11 : 0;
    return isAbout(number, other) ||
           std::abs(number - other) <= ulps * std::abs(other);
  }
  bool equals(const FactorTree &other) const {
    return hasNumber(other.number) && factors == other.factors;
  }
};

/// What was converted, where a product of narrow floats is computed in a wider
/// type and rounded once: neither conversion matters to a composite.
Value withoutDetour(Value value, Type narrow) {
  auto convert = value.getDefiningOp<ConvertOp>();
  if (!convert)
    return {};
  Type from = elementTypeOf(convert.getInput()), to = elementTypeOf(value);
  Type wide = from == narrow ? to : from;
  if ((from != narrow && to != narrow) || !isa<FloatType>(wide) ||
      !isa<FloatType>(narrow) ||
      wide.getIntOrFloatBitWidth() <= narrow.getIntOrFloatBitWidth())
    return {};
  return convert.getInput();
}

void collect(Value value, FactorTree &product, int depth) {
  if (std::optional<double> number = splatOf(value)) {
    product.number *= *number;
    return;
  }
  if (depth < 8) {
    if (Value inner = withoutDetour(value, product.element))
      return collect(inner, product, depth + 1);
    if (auto mul = value.getDefiningOp<MulOp>()) {
      collect(mul.getLhs(), product, depth + 1);
      return collect(mul.getRhs(), product, depth + 1);
    }
    if (auto neg = value.getDefiningOp<NegOp>()) {
      product.number *= -1;
      return collect(neg.getInput(), product, depth + 1);
    }
    auto div = value.getDefiningOp<DivOp>();
    if (std::optional<double> number =
            div ? splatOf(div.getRhs()) : std::nullopt;
        number && *number != 0) {
      product.number /= *number;
      return collect(div.getLhs(), product, depth + 1);
    }
  }
  product.factors.push_back(value);
}

FactorTree productOf(Value value) {
  FactorTree product;
  product.element = elementTypeOf(value);
  collect(value, product, 0);
  product.sort();
  return product;
}

/// The other operand when one is the number.
Value plusNumber(Value value, double number) {
  auto add = value.getDefiningOp<AddOp>();
  if (!add)
    return {};
  for (unsigned i : {0, 1})
    if (isAbout(splatOf(add->getOperand(i)), number))
      return add->getOperand(1 - i);
  return {};
}

/// x of u = k * (x + 0.044715 x^3), also written x * k * (1 + 0.044715 x^2).
Value tanhArgument(Value u) {
  constexpr double k = 0.7978845608028654, cubic = 0.044715;
  FactorTree product = productOf(u);
  for (Value factor : product.factors) {
    auto add = factor.getDefiningOp<AddOp>();
    if (!add)
      continue;
    for (unsigned i : {0, 1}) {
      Value a = add->getOperand(i), b = add->getOperand(1 - i);
      if (product.factors.size() == 1 && product.hasNumber(k) &&
          productOf(b).equals(FactorTree::power(productOf(a), 3).times(cubic)))
        return a;
      if (isAbout(splatOf(a), 1) && product.factors.size() == 2) {
        Value x = product.factors[0] == factor ? product.factors[1]
                                               : product.factors[0];
        if (product.hasNumber(k) &&
            productOf(b).equals(
                FactorTree::power(productOf(x), 2).times(cubic)))
          return x;
      }
    }
  }
  return {};
}

/// x of u = x / sqrt(2)
Value erfArgument(Value u) {
  constexpr double k = 0.7071067811865476;
  for (Value x : u.getDefiningOp()
                     ? SmallVector<Value>(u.getDefiningOp()->getOperands())
                     : SmallVector<Value>())
    if (!splatOf(x) && x.getType() == u.getType() &&
        productOf(u).equals(productOf(x).times(k)))
      return x;
  return {};
}

} // namespace

/// x * 0.5 * (1 + erf(x / sqrt 2)), and with tanh; factors in any order.
static LogicalResult findGelu(MulOp op, PatternRewriter &rewriter) {
  FactorTree product = productOf(op);
  for (auto [i, factor] : llvm::enumerate(product.factors)) {
    Value inner = plusNumber(factor, 1);
    if (!inner)
      continue;
    auto erf = inner.getDefiningOp<ErfOp>();
    auto tanh = inner.getDefiningOp<TanhOp>();
    Value x = erf    ? erfArgument(erf.getInput())
              : tanh ? tanhArgument(tanh.getInput())
                     : Value();
    if (!x || x.getType() != op.getType())
      continue;
    FactorTree rest = product;
    rest.factors.erase(rest.factors.begin() + i);
    if (!rest.equals(productOf(x).times(0.5)))
      continue;
    rewriter.replaceOpWithNewOp<GeluOp>(op, x, /*tanh=*/!erf);
    return success();
  }
  return failure();
}

/// 1 / (1 + exp(-x)); x / (1 + exp(-x)) is x times that.
static LogicalResult findSigmoid(DivOp op, PatternRewriter &rewriter) {
  Value inner = plusNumber(op.getRhs(), 1);
  auto exp = inner ? inner.getDefiningOp<ExpOp>() : ExpOp();
  auto neg = exp ? exp.getInput().getDefiningOp<NegOp>() : NegOp();
  if (!neg)
    return failure();
  Value x = neg.getInput();
  if (isSplat(op.getLhs(), 1)) {
    rewriter.replaceOpWithNewOp<SigmoidOp>(op, x);
    return success();
  }
  Value sigmoid = SigmoidOp::create(rewriter, op.getLoc(), x);
  rewriter.replaceOpWithNewOp<MulOp>(op, op.getLhs(), sigmoid);
  return success();
}

/// max(x, 0) + log(1 + e^-|x|), operands in any order.
static LogicalResult findSoftplus(AddOp op, PatternRewriter &rewriter) {
  for (unsigned i : {0, 1}) {
    auto log = op->getOperand(i).getDefiningOp<Log1pOp>();
    auto exp = log ? log.getInput().getDefiningOp<ExpOp>() : ExpOp();
    auto neg = exp ? exp.getInput().getDefiningOp<NegOp>() : NegOp();
    auto size = neg ? neg.getInput().getDefiningOp<AbsOp>() : AbsOp();
    auto max = op->getOperand(1 - i).getDefiningOp<MaxOp>();
    if (!size || !max)
      continue;
    Value x = size.getInput();
    for (unsigned j : {0, 1})
      if (max->getOperand(j) == x && isSplat(max->getOperand(1 - j), 0)) {
        rewriter.replaceOpWithNewOp<SoftplusOp>(op, x);
        return success();
      }
  }
  return failure();
}

/// x where x is a NaN, else softplus(x), as JAX writes it: a NaN either way.
static LogicalResult dropNanCase(SelectOp op, PatternRewriter &rewriter) {
  auto softplus = op.getOnFalse().getDefiningOp<SoftplusOp>();
  auto compare = op.getCondition().getDefiningOp<CompareOp>();
  if (!softplus || !compare || compare.getPredicate() != ComparePredicate::ne)
    return failure();
  Value x = softplus.getInput();
  if (op.getOnTrue() != x || compare.getLhs() != x || compare.getRhs() != x)
    return failure();
  rewriter.replaceOp(op, softplus);
  return success();
}

void knapper::populateActivationPatterns(RewritePatternSet &patterns) {
  patterns.add(findGelu);
  patterns.add(findSigmoid);
  patterns.add(findSoftplus);
  patterns.add(dropNanCase);
}
