// Broadcast, reshape and transpose move below elementwise ops when the op's
// other operands can be had in the shape before the movement.
#include "graph/simplify/Match.h"
#include "graph/simplify/Simplify.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

/// f(broadcast(a), broadcast(b), number) to broadcast(f(a, b, number)).
struct SinkBroadcast : OpInterfaceRewritePattern<ElementwiseOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(ElementwiseOpInterface op,
                                PatternRewriter &rewriter) const override {
    BroadcastOp first;
    for (Value operand : op->getOperands()) {
      if (splatOf(operand))
        continue;
      auto broadcast = operand.getDefiningOp<BroadcastOp>();
      if (!broadcast)
        return failure();
      if (!first)
        first = broadcast;
      else if (first.getDims() != broadcast.getDims() ||
               dimsOf(first.getInput()) != dimsOf(broadcast.getInput()))
        return failure();
    }
    if (!first)
      return failure();
    SmallVector<Dim> small = dimsOf(first.getInput());
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      if (Value scalar = scalarOf(rewriter, operand))
        operands.push_back(
            makeBroadcast(rewriter, op.getLoc(), scalar, small, {}));
      else
        operands.push_back(operand.getDefiningOp<BroadcastOp>().getInput());
    }
    Value result = cloneElementwise(rewriter, op, operands);
    rewriter.replaceOp(op, makeBroadcast(rewriter, op.getLoc(), result,
                                         dimsOf(op->getResult(0)),
                                         first.getDims()));
    return success();
  }
};

/// A broadcast operand as it is before a reshape.
struct BroadcastBefore {
  SmallVector<Dim> dims;    ///< of what is broadcast, none of size 1
  SmallVector<int64_t> map; ///< the reshape's input dim of each
};

/// Nothing when the reshape takes a dim apart, or joins it with others, that
/// the operand only has a part of.
std::optional<BroadcastBefore> broadcastBefore(BroadcastOp broadcast,
                                               ArrayRef<DimGroup> groups,
                                               ArrayRef<Dim> in,
                                               ArrayRef<Dim> out) {
  SmallVector<Dim> dims = dimsOf(broadcast.getInput());
  llvm::SmallBitVector present(out.size());
  for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
    if (!dims[i].isConstant(1)) // else it repeats, or is one there, too
      present.set(dim);
  BroadcastBefore result;
  for (const DimGroup &group : groups) {
    bool any = false, all = true;
    for (unsigned dim = group.outBegin; dim < group.outEnd; ++dim) {
      any |= present[dim];
      all &= present[dim] || out[dim].isConstant(1);
    }
    if (!any)
      continue;
    if (!all)
      return std::nullopt;
    for (unsigned dim = group.inBegin; dim < group.inEnd; ++dim)
      if (!in[dim].isConstant(1)) {
        result.dims.push_back(in[dim]);
        result.map.push_back(dim);
      }
  }
  return result;
}

struct SinkReshape : OpInterfaceRewritePattern<ElementwiseOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(ElementwiseOpInterface op,
                                PatternRewriter &rewriter) const override {
    ReshapeOp reshape;
    for (Value operand : op->getOperands())
      if (auto candidate = operand.getDefiningOp<ReshapeOp>();
          candidate && !isPackedConstant(operand)) {
        reshape = candidate;
        break;
      }
    if (!reshape)
      return failure();
    Location location = op.getLoc();
    SmallVector<Dim> in = dimsOf(reshape.getInput()),
                     out = dimsOf(reshape.getResult());
    auto groups = reshapeGroups(in, out);
    auto sameReshape = [&](Value operand) {
      auto other = operand.getDefiningOp<ReshapeOp>();
      return other && dimsOf(other.getInput()) == in ? other : ReshapeOp();
    };
    auto map = [&](Value operand) -> std::optional<BroadcastBefore> {
      auto broadcast = operand.getDefiningOp<BroadcastOp>();
      return broadcast && groups ? broadcastBefore(broadcast, *groups, in, out)
                                 : std::nullopt;
    };
    for (Value operand : op->getOperands())
      if (!sameReshape(operand) && !splatOf(operand) && !map(operand) &&
          !isPackedConstant(operand))
        return failure();

    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      if (auto other = sameReshape(operand)) {
        operands.push_back(other.getInput());
      } else if (Value scalar = scalarOf(rewriter, operand)) {
        operands.push_back(makeBroadcast(rewriter, location, scalar, in, {}));
      } else if (auto before = map(operand)) {
        Value small = operand.getDefiningOp<BroadcastOp>().getInput();
        operands.push_back(
            makeBroadcast(rewriter, location,
                          makeReshape(rewriter, location, small, before->dims),
                          in, before->map));
      } else {
        operands.push_back(makeReshape(rewriter, location, operand, in));
      }
    }
    Value result = cloneElementwise(rewriter, op, operands);
    rewriter.replaceOp(op, makeReshape(rewriter, location, result, out));
    return success();
  }
};

/// reshape(f(reshape(a), b)) to f(a, reshape(b)) where the dims are a's again.
LogicalResult reshapeThereAndBack(ReshapeOp op, PatternRewriter &rewriter) {
  Operation *inner = op.getInput().getDefiningOp();
  if (!inner || !isElementwise(inner) || !inner->hasOneUse())
    return failure();
  SmallVector<Dim> dims = dimsOf(op.getResult());
  auto leads = [&](Value operand) {
    auto reshape = operand.getDefiningOp<ReshapeOp>();
    return reshape && !isPackedConstant(operand) &&
           dimsOf(reshape.getInput()) == dims;
  };
  if (llvm::none_of(inner->getOperands(), leads))
    return failure();
  SmallVector<Value> operands;
  for (Value operand : inner->getOperands())
    operands.push_back(leads(operand)
                           ? operand.getDefiningOp<ReshapeOp>().getInput()
                           : makeReshape(rewriter, op.getLoc(), operand, dims));
  rewriter.replaceOp(op, cloneElementwise(rewriter, inner, operands));
  return success();
}

struct SinkTranspose : OpInterfaceRewritePattern<ElementwiseOpInterface> {
  SinkTranspose(MLIRContext *context, bool shared)
      : OpInterfaceRewritePattern(context), shared(shared) {}

  LogicalResult matchAndRewrite(ElementwiseOpInterface op,
                                PatternRewriter &rewriter) const override {
    TransposeOp transpose;
    for (Value operand : op->getOperands())
      if (auto candidate = operand.getDefiningOp<TransposeOp>();
          candidate && !isPackedConstant(operand)) {
        transpose = candidate;
        break;
      }
    if (!transpose)
      return failure();
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    SmallVector<int64_t> inverse = inversePermutation(permutation);
    // A transpose with other users would stay beside the new one.
    auto mayGo = [&](TransposeOp other) {
      return other.getPermutation() == permutation &&
             (shared || llvm::all_of(other->getUsers(), [&](Operation *user) {
                return user == op.getOperation();
              }));
    };
    SmallVector<Dim> in = dimsOf(transpose.getInput());
    for (Value operand : op->getOperands()) {
      auto other = operand.getDefiningOp<TransposeOp>();
      if (!(other && mayGo(other)) && !splatOf(operand) &&
          !operand.getDefiningOp<BroadcastOp>() && !isPackedConstant(operand))
        return failure();
    }
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      auto other = operand.getDefiningOp<TransposeOp>();
      if (other && mayGo(other))
        operands.push_back(other.getInput());
      else if (Value scalar = scalarOf(rewriter, operand))
        operands.push_back(
            makeBroadcast(rewriter, op.getLoc(), scalar, in, {}));
      else // transposeOfBroadcast takes it into the small tensor
        operands.push_back(
            makeTranspose(rewriter, op.getLoc(), operand, inverse));
    }
    Value result = cloneElementwise(rewriter, op, operands);
    rewriter.replaceOp(
        op, makeTranspose(rewriter, op.getLoc(), result, permutation));
    return success();
  }

  bool shared;
};

} // namespace

/// softmax(reshape(x)) and layer_norm(reshape(x)), when the reshape leaves the
/// dims alone that they work along.
static LogicalResult softmaxOfReshape(SoftmaxOp op, PatternRewriter &rewriter) {
  auto reshape = op.getInput().getDefiningOp<ReshapeOp>();
  if (!reshape)
    return failure();
  auto groups =
      reshapeGroups(dimsOf(reshape.getInput()), dimsOf(reshape.getResult()));
  if (!groups)
    return failure();
  for (const DimGroup &group : *groups)
    if (group.isSame() && group.outBegin == op.getDim()) {
      Value softmax =
          SoftmaxOp::create(rewriter, op.getLoc(), reshape.getInput(),
                            static_cast<int64_t>(group.inBegin), op.getLog());
      rewriter.replaceOp(op, makeReshape(rewriter, op.getLoc(), softmax,
                                         dimsOf(op.getResult())));
      return success();
    }
  return failure();
}

static LogicalResult layerNormOfReshape(LayerNormOp op,
                                        PatternRewriter &rewriter) {
  auto reshape = op.getInput().getDefiningOp<ReshapeOp>();
  if (!reshape)
    return failure();
  SmallVector<Dim> in = dimsOf(reshape.getInput()),
                   out = dimsOf(reshape.getResult());
  size_t normalised = out.size() - op.getDim();
  if (in.size() <= normalised || ArrayRef<Dim>(in).take_back(normalised) !=
                                     ArrayRef<Dim>(out).take_back(normalised))
    return failure();
  Value norm = LayerNormOp::create(
      rewriter, op.getLoc(), reshape.getInput(), op.getScale(), op.getBias(),
      rewriter.getI64IntegerAttr(in.size() - normalised), op.getEpsilonAttr(),
      op.getRmsAttr());
  rewriter.replaceOp(op, makeReshape(rewriter, op.getLoc(), norm, out));
  return success();
}

static bool isOfDot(Value value) {
  Operation *op = value.getDefiningOp();
  while (isa_and_present<ReshapeOp, TransposeOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return isa_and_present<DotOp>(op);
}

/// gather_elements(x, i) * number to gather_elements(x * number, i) for an x
/// that a dot gives: the arithmetic is then its epilogue.
template <typename Op>
static LogicalResult scaleBeforeGather(Op op, PatternRewriter &rewriter) {
  auto gather = op.getLhs().template getDefiningOp<GatherElementsOp>();
  Value scalar = scalarOf(rewriter, op.getRhs());
  if (!gather || !scalar || !gather->hasOneUse() ||
      !gather.getInput().hasOneUse() || !isOfDot(gather.getInput()))
    return failure();
  Value number = makeBroadcast(rewriter, op.getLoc(), scalar,
                               dimsOf(gather.getInput()), {});
  Value scaled = cloneElementwise(rewriter, op, {gather.getInput(), number});
  rewriter.replaceOpWithNewOp<GatherElementsOp>(op, scaled, gather.getIndices(),
                                                gather.getDim());
  return success();
}

/// A constant of equal elements is one element, broadcast.
static LogicalResult splatConstant(ConstantOp op, PatternRewriter &rewriter) {
  auto type = cast<RankedTensorType>(op.getType());
  auto data = dyn_cast<DenseElementsAttr>(op.getValue());
  if (type.getRank() == 0 || !data || !data.isSplat() || data.empty())
    return failure();
  auto scalar = RankedTensorType::get({}, type.getElementType());
  Value element = ConstantOp::create(
      rewriter, op.getLoc(), scalar,
      DenseElementsAttr::get(scalar, data.getSplatValue<Attribute>()));
  rewriter.replaceOpWithNewOp<BroadcastOp>(op, type, element,
                                           ArrayRef<int64_t>{});
  return success();
}

void knapper::populateSinkPatterns(RewritePatternSet &patterns,
                                   bool sinkTransposes) {
  patterns.add(splatConstant);
  patterns.add(softmaxOfReshape);
  patterns.add(layerNormOfReshape);
  patterns.add(reshapeThereAndBack);
  patterns.add(scaleBeforeGather<MulOp>);
  patterns.add(scaleBeforeGather<DivOp>);
  patterns.add<SinkBroadcast, SinkReshape>(patterns.getContext());
  patterns.add<SinkTranspose>(patterns.getContext(), sinkTransposes);
}
