// Neutral elements, powers, known comparisons. Floats: x + 0 drops the sign of
// a negative zero; x * 0 stays (NaN, infinities).
#include "graph/simplify/Match.h"
#include "graph/simplify/Sign.h"
#include "graph/simplify/Simplify.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

static bool isFloat(Value value) {
  return isa<FloatType>(elementTypeOf(value));
}

/// Replaces by one of the op's operands.
static LogicalResult forward(PatternRewriter &rewriter, Operation *op,
                             Value value) {
  rewriter.replaceOp(op, value);
  return success();
}

static LogicalResult simplifyAdd(AddOp op, PatternRewriter &rewriter) {
  for (unsigned i : {0, 1})
    if (isSplat(op->getOperand(i), 0))
      return forward(rewriter, op, op->getOperand(1 - i));
  // x + (-y) is x - y
  for (unsigned i : {0, 1})
    if (auto neg = op->getOperand(i).getDefiningOp<NegOp>()) {
      rewriter.replaceOpWithNewOp<SubOp>(op, op->getOperand(1 - i),
                                         neg.getInput());
      return success();
    }
  return failure();
}

static LogicalResult simplifySub(SubOp op, PatternRewriter &rewriter) {
  if (isSplat(op.getRhs(), 0))
    return forward(rewriter, op, op.getLhs());
  if (auto neg = op.getRhs().getDefiningOp<NegOp>()) {
    rewriter.replaceOpWithNewOp<AddOp>(op, op.getLhs(), neg.getInput());
    return success();
  }
  return failure();
}

static LogicalResult simplifyMul(MulOp op, PatternRewriter &rewriter) {
  for (unsigned i : {0, 1}) {
    Value number = op->getOperand(i), other = op->getOperand(1 - i);
    std::optional<double> value = splatOf(number);
    if (!value)
      continue;
    if (*value == 1)
      return forward(rewriter, op, other);
    if (*value == -1) {
      rewriter.replaceOpWithNewOp<NegOp>(op, other);
      return success();
    }
    if (*value == 0 && !isFloat(op))
      return forward(rewriter, op, number);
  }
  return failure();
}

static LogicalResult simplifyDiv(DivOp op, PatternRewriter &rewriter) {
  std::optional<double> value = splatOf(op.getRhs());
  if (!value)
    return failure();
  if (*value == 1)
    return forward(rewriter, op, op.getLhs());
  // The reciprocal of a power of two is exact (for any normal result).
  int exponent;
  double mantissa = std::frexp(*value, &exponent);
  if (!isFloat(op) || std::abs(mantissa) != 0.5 || std::abs(exponent) > 13)
    return failure();
  Value reciprocal =
      makeSplat(rewriter, op.getLoc(), cast<RankedTensorType>(op.getType()),
                1.0 / *value);
  rewriter.replaceOpWithNewOp<MulOp>(op, op.getLhs(), reciprocal);
  return success();
}

/// pow(x, 1/2) or pow(x, -1/2). Unlike roots, powers of -0 and of -infinity are
/// those of +0 and of infinity.
static Value halfPower(PatternRewriter &rewriter, PowOp op, bool reciprocal) {
  Value x = op.getLhs();
  Location loc = op.getLoc();
  Value root = reciprocal ? RsqrtOp::create(rewriter, loc, x).getResult()
                          : SqrtOp::create(rewriter, loc, x).getResult();
  if (isNeverNegative(x))
    return root;
  auto type = cast<RankedTensorType>(op.getType());
  auto number = [&](double value) {
    return makeSplat(rewriter, loc, type, value);
  };
  Value isLeast = CompareOp::create(rewriter, loc, ComparePredicate::eq, x,
                                    number(-INFINITY));
  return SelectOp::create(rewriter, loc, isLeast,
                          number(reciprocal ? 0 : INFINITY),
                          AbsOp::create(rewriter, loc, root));
}

/// Small powers as products: at most one rounding more than a correctly
/// rounded power.
static LogicalResult simplifyPow(PowOp op, PatternRewriter &rewriter) {
  std::optional<double> exponent = splatOf(op.getRhs());
  if (!exponent)
    return failure();
  Value x = op.getLhs();
  Location location = op.getLoc();
  if (*exponent == 1)
    return forward(rewriter, op, x);
  if (*exponent == 2 || *exponent == 3) {
    Value result = MulOp::create(rewriter, location, x, x);
    if (*exponent == 3)
      result = MulOp::create(rewriter, location, result, x);
    return forward(rewriter, op, result);
  }
  if (!isFloat(op))
    return failure();
  if (*exponent == 0.5 || *exponent == -0.5)
    rewriter.replaceOp(op, halfPower(rewriter, op, *exponent < 0));
  else if (*exponent == -1)
    rewriter.replaceOpWithNewOp<DivOp>(
        op,
        makeSplat(rewriter, location, cast<RankedTensorType>(op.getType()), 1),
        x);
  else
    return failure();
  return success();
}

static LogicalResult simplifyNeg(NegOp op, PatternRewriter &rewriter) {
  if (auto inner = op.getInput().getDefiningOp<NegOp>())
    return forward(rewriter, op, inner.getInput());
  return failure();
}

static LogicalResult simplifyNot(NotOp op, PatternRewriter &rewriter) {
  if (auto inner = op.getInput().getDefiningOp<NotOp>())
    return forward(rewriter, op, inner.getInput());
  auto compare = op.getInput().getDefiningOp<CompareOp>();
  if (!compare || isFloat(compare.getLhs()))
    return failure();
  static constexpr ComparePredicate inverse[] = {
      ComparePredicate::ne, ComparePredicate::eq, ComparePredicate::ge,
      ComparePredicate::gt, ComparePredicate::le, ComparePredicate::lt};
  rewriter.replaceOpWithNewOp<CompareOp>(
      op, inverse[static_cast<uint32_t>(compare.getPredicate())],
      compare.getLhs(), compare.getRhs());
  return success();
}

static bool holds(ComparePredicate predicate, double a, double b) {
  switch (predicate) {
  case ComparePredicate::eq:
    return a == b;
  case ComparePredicate::ne:
    return a != b;
  case ComparePredicate::lt:
    return a < b;
  case ComparePredicate::le:
    return a <= b;
  case ComparePredicate::gt:
    return a > b;
  case ComparePredicate::ge:
    return a >= b;
  }
  llvm_unreachable("a predicate that is not listed");
}

/// A comparison of a choice between two numbers with a third one is the
/// condition or its opposite: exporters write triangles as tril(ones) == 0.
static LogicalResult compareOfChoice(CompareOp op, PatternRewriter &rewriter) {
  bool swapped = !op.getLhs().getDefiningOp<SelectOp>();
  Value choice = swapped ? op.getRhs() : op.getLhs();
  auto select = choice.getDefiningOp<SelectOp>();
  if (!select)
    return failure();
  std::optional<double> known = splatOf(swapped ? op.getLhs() : op.getRhs()),
                        onTrue = splatOf(select.getOnTrue()),
                        onFalse = splatOf(select.getOnFalse());
  if (!known || !onTrue || !onFalse)
    return failure();
  // Integers past 2^53 may be others as f64.
  if (!isFloat(choice) &&
      llvm::any_of(ArrayRef{*known, *onTrue, *onFalse},
                   [](double number) { return std::abs(number) > 0x1p53; }))
    return failure();
  auto outcome = [&](double number) {
    return swapped ? holds(op.getPredicate(), *known, number)
                   : holds(op.getPredicate(), number, *known);
  };
  bool yes = outcome(*onTrue), no = outcome(*onFalse);
  Value condition = select.getCondition();
  if (yes == no)
    return forward(rewriter, op,
                   makeSplat(rewriter, op.getLoc(),
                             cast<RankedTensorType>(op.getType()), yes));
  if (condition.getType() != op.getType())
    return failure();
  if (no)
    condition = NotOp::create(rewriter, op.getLoc(), condition);
  return forward(rewriter, op, condition);
}

/// and/or with a known operand, or with itself.
template <typename Op>
static LogicalResult simplifyLogic(Op op, PatternRewriter &rewriter) {
  if (op.getLhs() == op.getRhs())
    return forward(rewriter, op, op.getLhs());
  if (!elementTypeOf(op).isInteger(1))
    return failure();
  constexpr double neutral = std::is_same_v<Op, AndOp> ? 1 : 0;
  for (unsigned i : {0, 1})
    if (std::optional<double> value = splatOf(op->getOperand(i)))
      return forward(rewriter, op,
                     op->getOperand(*value == neutral ? 1 - i : i));
  return failure();
}

static LogicalResult simplifySelect(SelectOp op, PatternRewriter &rewriter) {
  if (op.getOnTrue() == op.getOnFalse())
    return forward(rewriter, op, op.getOnTrue());
  if (std::optional<double> value = splatOf(op.getCondition()))
    return forward(rewriter, op,
                   *value != 0 ? op.getOnTrue() : op.getOnFalse());
  if (auto inner = op.getCondition().getDefiningOp<NotOp>()) {
    rewriter.replaceOpWithNewOp<SelectOp>(op, inner.getInput(), op.getOnFalse(),
                                          op.getOnTrue());
    return success();
  }
  if (elementTypeOf(op).isInteger(1)) {
    std::optional<double> a = splatOf(op.getOnTrue()),
                          b = splatOf(op.getOnFalse());
    if (a == 1.0 && b == 0.0)
      return forward(rewriter, op, op.getCondition());
    if (a == 0.0 && b == 1.0) {
      rewriter.replaceOpWithNewOp<NotOp>(op, op.getCondition());
      return success();
    }
  }
  return failure();
}

/// Every number of `from` is one of `to`.
static bool isLossless(Type from, Type to) {
  if (from == to)
    return true;
  // Floats of eight and four bits hold few of anything's values; all theirs fit
  // into f32.
  if (isa<FloatType>(to) && isStorage(to))
    return false;
  if (isa<FloatType>(from) && isStorage(from))
    return to.isF32() || to.isF64();
  if (from.isInteger(1))
    return true;
  auto mantissa = [](Type type) {
    return static_cast<int>(
        APFloat::semanticsPrecision(cast<FloatType>(type).getFloatSemantics()));
  };
  auto bits = [](Type type) { return type.getIntOrFloatBitWidth(); };
  if (isa<FloatType>(from) && isa<FloatType>(to))
    return bits(from) < bits(to);
  if (isa<FloatType>(from))
    return false;
  if (isa<FloatType>(to))
    return static_cast<int>(bits(from)) <= mantissa(to) && !to.isF16();
  if (from.isUnsignedInteger() == to.isUnsignedInteger())
    return bits(from) <= bits(to);
  return from.isUnsignedInteger() && bits(from) < bits(to);
}

static LogicalResult simplifyConvert(ConvertOp op, PatternRewriter &rewriter) {
  Location location = op.getLoc();
  Type to = elementTypeOf(op);
  if (auto inner = op.getInput().getDefiningOp<ConvertOp>()) {
    Value x = inner.getInput();
    // Anything to i1 is x != 0, which a lossless step keeps; otherwise the
    // first step must not change the number.
    if (!isLossless(elementTypeOf(x), elementTypeOf(inner)))
      return failure();
    // A float saturates on its way to an integer, an integer wraps.
    if (isFloat(inner) && !isFloat(x) && !isFloat(op) && !to.isInteger(1) &&
        !isLossless(elementTypeOf(x), to))
      return failure();
    rewriter.replaceOpWithNewOp<ConvertOp>(op, op.getType(), x,
                                           op.getSaturate(), op.getRounding());
    return success();
  }
  // i1 of a choice between zero and another number is the condition.
  auto select = op.getInput().getDefiningOp<SelectOp>();
  if (!select || !to.isInteger(1))
    return failure();
  std::optional<double> a = splatOf(select.getOnTrue()),
                        b = splatOf(select.getOnFalse());
  if (!a || !b)
    return failure();
  auto type = cast<RankedTensorType>(op.getType());
  rewriter.replaceOpWithNewOp<SelectOp>(
      op, select.getCondition(), makeSplat(rewriter, location, type, *a != 0),
      makeSplat(rewriter, location, type, *b != 0));
  return success();
}

/// max(x, x), and max(x, `neutral`) of floats.
static LogicalResult simplifyExtremum(Operation *op, double neutral,
                                      PatternRewriter &rewriter) {
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  if (lhs == rhs)
    return forward(rewriter, op, lhs);
  if (!isFloat(lhs))
    return failure();
  if (isSplat(rhs, neutral))
    return forward(rewriter, op, lhs);
  return isSplat(lhs, neutral) ? forward(rewriter, op, rhs) : failure();
}
static LogicalResult simplifyMax(MaxOp op, PatternRewriter &rewriter) {
  return simplifyExtremum(op, -std::numeric_limits<double>::infinity(),
                          rewriter);
}
static LogicalResult simplifyMin(MinOp op, PatternRewriter &rewriter) {
  return simplifyExtremum(op, std::numeric_limits<double>::infinity(),
                          rewriter);
}

/// Lines of one element; nothing is before it.
static LogicalResult simplifyScan(ScanOp op, PatternRewriter &rewriter) {
  if (!dimOf(op.getInput(), op.getDim()).isConstant(1))
    return failure();
  if (!op.getExclusive())
    return forward(rewriter, op, op.getInput());
  if (op.getKind() != ReduceKind::add)
    return failure();
  return forward(rewriter, op,
                 makeSplat(rewriter, op.getLoc(),
                           cast<RankedTensorType>(op.getType()), 0));
}

void knapper::populateAlgebraPatterns(RewritePatternSet &patterns) {
  patterns.add(simplifyAdd);
  patterns.add(simplifySub);
  patterns.add(simplifyMul);
  patterns.add(simplifyDiv);
  patterns.add(simplifyPow);
  patterns.add(simplifyNeg);
  patterns.add(simplifyNot);
  patterns.add(compareOfChoice);
  patterns.add(simplifyLogic<AndOp>);
  patterns.add(simplifyLogic<OrOp>);
  patterns.add(simplifySelect);
  patterns.add(simplifyConvert);
  patterns.add(simplifyMax);
  patterns.add(simplifyMin);
  patterns.add(simplifyScan);
}
