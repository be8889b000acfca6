#include "graph/quantize/ConvertFloat.h"

#include "graph/quantize/QuantizePasses.h"
#include "graph/simplify/Match.h"
#include "graph/simplify/Simplify.h"
#include "ir/tensor/Heroes.h"
#include "ir/tensor/PackedDot.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_CONVERTFLOAT
#include "graph/quantize/QuantizePasses.h.inc"
} // namespace knapper

/// A sum of integers, made where the operator's integers are exact: 16 bits
/// would not hold it.
static bool isIntegerSum(Operation *op) {
  return isa<ConvOp>(op) && !op->use_empty() &&
         llvm::all_of(op->getUsers(), [](Operation *user) {
           return isa<ConvertOp>(user) &&
                  isa<IntegerType>(elementTypeOf(user->getResult(0)));
         });
}

static bool isSplatNumber(Value value) {
  if (auto broadcast = value.getDefiningOp<BroadcastOp>())
    value = broadcast.getInput();
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant && isa<SplatElementsAttr>(constant.getValue());
}

/// Whether a value is integers converted to floats, as positions that are
/// multiplied by the frequencies of a rotary embedding: 16 bits hold them up to
/// 256 (bf16) or 2,048 (f16) alone.
static bool isOfIntegers(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto convert = dyn_cast<ConvertOp>(op))
      if (isa<IntegerType>(elementTypeOf(convert.getInput())))
        return !elementTypeOf(convert.getInput()).isInteger(1);
    if (isa<ConvertOp, ReshapeOp, TransposeOp, SliceOp, BroadcastOp, DimCastOp>(
            op)) {
      value = op->getOperand(0);
      continue;
    }
    // An offset or a scale.
    if (!isa<AddOp, SubOp, MulOp, DivOp>(op))
      return false;
    bool right = isSplatNumber(op->getOperand(1));
    if (!right && !isSplatNumber(op->getOperand(0)))
      return false;
    value = op->getOperand(right ? 0 : 1);
  }
  return false;
}

/// A matmul with such a factor.
static bool multipliesIntegers(Operation *op) {
  return isa<DotOp>(op) && llvm::any_of(op->getOperands(), isOfIntegers);
}

/// narrow(movement(x)) to movement(narrow(x)), until it meets what widened x or
/// computed it.
static LogicalResult narrowBeforeMovement(ConvertOp op,
                                          PatternRewriter &rewriter) {
  Operation *movement = op.getInput().getDefiningOp();
  Type to = elementTypeOf(op);
  if (!elementTypeOf(op.getInput()).isF32() || !(to.isF16() || to.isBF16()) ||
      !isa_and_present<TransposeOp, ReshapeOp, SliceOp, ConcatOp, BroadcastOp>(
          movement))
    return failure();
  SmallVector<Value> operands;
  for (Value operand : movement->getOperands())
    operands.push_back(ConvertOp::create(
        rewriter, op.getLoc(), withElement(operand.getType(), to), operand));
  Operation *clone = rewriter.clone(*movement);
  clone->setOperands(operands);
  clone->getResult(0).setType(cast<RankedTensorType>(op.getType()));
  rewriter.replaceOp(op, clone->getResults());
  return success();
}

/// concat(widen(a), widen(b), ..) to widen(concat(a, b, ..)): what reads the
/// narrow operands reads the same concatenation.
static LogicalResult widenBehindConcat(ConcatOp op, PatternRewriter &rewriter) {
  SmallVector<Value> narrow;
  for (Value operand : op.getInputs()) {
    auto widening = operand.getDefiningOp<ConvertOp>();
    if (!widening || !elementTypeOf(widening).isF32())
      return failure();
    narrow.push_back(widening.getInput());
    Type stored = elementTypeOf(narrow.back());
    if (!(stored.isF16() || stored.isBF16()) ||
        stored != elementTypeOf(narrow.front()))
      return failure();
  }
  Value joined = ConcatOp::create(rewriter, op.getLoc(), narrow, op.getDim());
  rewriter.replaceOpWithNewOp<ConvertOp>(op, op.getType(), joined);
  return success();
}

/// Of integers: they are exact only times what it is.
static bool isScale(OpOperand &operand) {
  return isa<PackedDotOp>(operand.getOwner()) && operand.getOperandNumber() > 0;
}

/// Whether a value is results of matmuls alone, moved, added up, scaled or
/// offset by channel: what 16 bits hold as far as they hold the matmuls.
static bool isOfMatmuls(Value value, unsigned depth = 0) {
  constexpr unsigned most = 24;
  Operation *op = value.getDefiningOp();
  if (!op || depth > most)
    return false;
  if (isa<DotOp, ConvOp>(op))
    return true;
  if (auto widened = dyn_cast<ConvertOp>(op))
    return isOfMatmuls(widened.getInput(), depth + 1);
  if (isa<ReshapeOp, TransposeOp, SliceOp, DimCastOp, BroadcastOp>(op))
    return isOfMatmuls(op->getOperand(0), depth + 1);
  if (!isa<AddOp, SubOp, ConcatOp>(op))
    return false;
  bool any = false;
  return llvm::all_of(
             op->getOperands(),
             [&](Value operand) {
               bool matmul = isOfMatmuls(operand, depth + 1);
               any |= matmul;
               return matmul || isPackedConstant(operand) ||
                      (operand.getDefiningOp<BroadcastOp>() &&
                       isPackedConstant(
                           operand.getDefiningOp<BroadcastOp>().getInput()));
             }) &&
         any;
}

static bool readsStored(Operation *op) {
  auto hero = dyn_cast<KernelHeroOpInterface>(op);
  if (auto gather = dyn_cast<GatherElementsOp>(op)) {
    Value from = gather.getInput();
    while (Operation *before = from.getDefiningOp()) {
      bool isScaled =
          isa<MulOp, DivOp>(before) && isSplatNumber(before->getOperand(1));
      if (!isScaled && !isa<ReshapeOp, TransposeOp>(before))
        break;
      from = before->getOperand(0);
    }
    return isOfMatmuls(from);
  }
  return (hero && hero.readsNarrow()) || isa<RopeOp, GatherOp>(op);
}

/// A mask that gains nothing from 16 bits: one of keys, the same for every
/// query, is small beside the scores, and what is computed from positions is
/// exact in f32 alone; one computed for this attention is so where it is read.
static bool isWideMask(OpOperand &operand) {
  auto attention = dyn_cast<AttentionOp>(operand.getOwner());
  Value mask = attention ? attention.getMask() : Value();
  if (!mask || operand.get() != mask)
    return false;
  Operation *made = mask.getDefiningOp();
  return dimOf(mask, 2).isConstant(1) ||
         (made && isElementwise(made) && made->hasOneUse());
}

namespace {

struct Converter {
  FloatType type;
  llvm::MapVector<Value, Value> narrowed;

  Value narrow(Value value) {
    Value &result = narrowed[value];
    if (!result) {
      OpBuilder builder(type.getContext());
      builder.setInsertionPointAfterValue(value);
      result = ConvertOp::create(builder, value.getLoc(),
                                 withElement(value.getType(), type), value);
    }
    return result;
  }

  void convert(Operation *op) {
    if (llvm::none_of(op->getOperands(), [](Value operand) {
          return elementTypeOf(operand).isF32();
        }))
      return;
    for (OpOperand &operand : op->getOpOperands())
      if (elementTypeOf(operand.get()).isF32() && !isScale(operand) &&
          !isWideMask(operand))
        operand.set(narrow(operand.get()));
    if (isa<PackedDotOp>(op))
      return; // its result is the accumulator's
    Value result = op->getResult(0);
    if (!elementTypeOf(result).isF32())
      return;
    if (auto dot = dyn_cast<DotOp>(op)) {
      dot.setResultTypeAttr(TypeAttr::get(elementTypeOf(result)));
      return;
    }
    Type wide = result.getType();
    result.setType(cast<RankedTensorType>(withElement(wide, type)));
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    auto widened = ConvertOp::create(builder, op->getLoc(), wide, result);
    result.replaceAllUsesExcept(widened, widened);
  }

  /// Whether `sum` is taken from what it is the sum of: a mean.
  static bool returnsTo(ReduceOp sum, Value value) {
    SmallVector<Value> work{sum.getResult()};
    llvm::SmallDenseSet<Value> of{work.begin(), work.end()};
    constexpr size_t most = 64;
    while (!work.empty() && of.size() < most)
      for (Operation *user : work.pop_back_val().getUsers()) {
        if (auto sub = dyn_cast<SubOp>(user); sub && sub.getLhs() == value)
          return true;
        if ((isElementwise(user) || isa<ReshapeOp, BroadcastOp>(user)) &&
            of.insert(user->getResult(0)).second)
          work.push_back(user->getResult(0));
      }
    return false;
  }

  /// Rounds what the mean of a norm that is no composite, as a group norm, is
  /// taken from: it is stored, for the statistics and again for the norm.
  void roundNormalised(ReduceOp reduce) {
    Value value = reduce.getInput();
    if (reduce.getKind() == ReduceKind::add && elementTypeOf(value).isF32() &&
        isOfMatmuls(value) && returnsTo(reduce, value))
      roundProducers(value);
  }

  /// Rounds what a value is moved from as a whole: other readers of a part of
  /// it would be rounded with it.
  void roundProducers(Value value) {
    Operation *op = value.getDefiningOp();
    if (isa_and_present<TransposeOp, ReshapeOp, ConcatOp>(op) &&
        llvm::none_of(op->getOperands(), isConstantTensor)) {
      for (Value operand : op->getOperands())
        roundProducers(operand);
      return;
    }
    auto widening = dyn_cast_if_present<ConvertOp>(op);
    if (!widening || elementTypeOf(widening.getInput()) != type)
      narrow(value);
  }

  static bool isConstantTensor(Value value) {
    auto broadcast = value.getDefiningOp<BroadcastOp>();
    return isPackedConstant(broadcast ? broadcast.getInput() : value);
  }

  /// Other readers of a value that is stored narrow read what is stored.
  void shareRounded() {
    for (auto &[value, stored] : narrowed) {
      Operation *narrowing = stored.getDefiningOp();
      // Inputs and constants are stored as they are.
      if (!value.getDefiningOp() || isPackedConstant(value) ||
          value.getDefiningOp<ConvertOp>())
        continue;
      bool shared = llvm::any_of(value.getUsers(), [&](Operation *user) {
        return user != narrowing && !isa<func::ReturnOp>(user);
      });
      if (!shared)
        continue;
      // It may stand behind other readers, or in a body.
      narrowing->moveAfter(value.getDefiningOp());
      OpBuilder builder(narrowing->getContext());
      builder.setInsertionPointAfter(narrowing);
      Value widened =
          ConvertOp::create(builder, value.getLoc(), value.getType(), stored);
      value.replaceUsesWithIf(widened, [&](OpOperand &use) {
        return use.getOwner() != narrowing &&
               !isa<func::ReturnOp>(use.getOwner());
      });
    }
  }
};

} // namespace

LogicalResult knapper::convertFloat(func::FuncOp function, FloatType type) {
  function->setAttr(kStorageAttr, TypeAttr::get(type));
  Converter converter{type, {}};
  SmallVector<Operation *> ops;
  function.walk([&](Operation *op) {
    if (readsStored(op) && !isIntegerSum(op) && !multipliesIntegers(op))
      ops.push_back(op);
  });
  for (Operation *op : ops)
    converter.convert(op);

  // Narrowing first meets its producer, so that sharing sees the value that a
  // kernel stores and not a view of it.
  RewritePatternSet patterns(function.getContext());
  patterns.add(narrowBeforeMovement);
  populateAlgebraPatterns(patterns);
  rewrite(function, std::move(patterns));
  if (failed(simplify(function)))
    return failure();
  converter.narrowed.clear();
  function.walk([&](ConvertOp op) {
    if (elementTypeOf(op.getInput()).isF32() && elementTypeOf(op) == type)
      converter.narrowed[op.getInput()] = op;
  });
  SmallVector<ReduceOp> reductions;
  function.walk([&](ReduceOp op) { reductions.push_back(op); });
  for (ReduceOp op : reductions)
    converter.roundNormalised(op);
  converter.shareRounded();
  RewritePatternSet joins(function.getContext());
  joins.add(widenBehindConcat);
  rewrite(function, std::move(joins));
  return simplify(function);
}

namespace {
struct ConvertFloatPass : knapper::impl::ConvertFloatBase<ConvertFloatPass> {
  using ConvertFloatBase::ConvertFloatBase;
  void runOnOperation() override {
    MLIRContext *context = &getContext();
    if (type != "bf16" && type != "f16") {
      getOperation().emitError("convert-float: type is bf16 or f16, not ")
          << type.getValue();
      return signalPassFailure();
    }
    FloatType to = type == "f16" ? FloatType(Float16Type::get(context))
                                 : FloatType(BFloat16Type::get(context));
    if (failed(convertFloat(getOperation(), to)))
      signalPassFailure();
  }
};
} // namespace
