#include "graph/fold/FoldConstants.h"
#include "ir/tensor/ConstantExpression.h"
#include "ir/tensor/Fourier.h"
#include "ir/tensor/Heroes.h"
#include "ir/tensor/reference/Evaluate.h"

using namespace mlir;

namespace knapper {
namespace {

using namespace ts;

/// Static bytes of a type; a large number when it has none or they overflow.
int64_t bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  std::optional<int64_t> count;
  if (tensor.hasStaticShape())
    count = elementCountOf(tensor.getShape());
  // Far above any limit, and safe to add up.
  constexpr int64_t many = int64_t(1) << 40;
  return count ? std::min(many, *count) * elementBytes(tensor.getElementType())
               : many;
}

/// Multiplications, comparisons, copies: roughly, for a bound on time.
int64_t workOf(Operation *op) {
  int64_t work = 0;
  for (Value result : op->getResults())
    work += bytesOf(result.getType());
  int64_t loops = 0;
  auto consider = [&](Dim count) {
    std::optional<int64_t> known = count.asConstant();
    loops = std::max(loops, known && *known >= 0 ? *known : int64_t(1) << 40);
  };
  if (auto indexed = dyn_cast<IndexingOpInterface>(op))
    consider(indexed.indexing().iterations(op->getContext()));
  // The loops of attention are not in its index maps.
  if (auto hero = dyn_cast<KernelHeroOpInterface>(op)) {
    Dim flops = hero.matmulFlops();
    consider(flops.floorDiv(flops.like(2)));
  }
  // The reference sums up every element for each.
  if (auto transform = dyn_cast<DftOp>(op))
    consider(elementCount(op->getResult(0).getType()) *
             Dim(transform.getLength()));
  work += loops;
  return work;
}

struct Folder {
  const FoldConstantsLimits &limits;
  int64_t left = limits.total;
  int64_t positionsLeft = limits.positions;
  llvm::DenseMap<Value, HostTensor> positions{};
  int64_t folded = 0;

  /// The constant behind an operand; a broadcast of one counts.
  std::optional<HostTensor> constantOf(Value value) {
    if (bytesOf(value.getType()) > limits.resultBytes)
      return std::nullopt;
    Operation *op = value.getDefiningOp();
    if (auto constant = dyn_cast_if_present<ConstantOp>(op)) {
      Expected<HostTensor> tensor =
          HostTensor::fromAttribute(constant.getValue());
      if (tensor)
        return *tensor;
      return std::nullopt;
    }
    auto broadcast = dyn_cast_if_present<BroadcastOp>(op);
    if (!broadcast || !broadcast.getInput().getDefiningOp<ConstantOp>())
      return std::nullopt;
    std::optional<HostTensor> input = constantOf(broadcast.getInput());
    if (!input)
      return std::nullopt;
    left -= bytesOf(value.getType());
    auto result = evaluate(broadcast, {*input});
    if (!result)
      return std::nullopt;
    return (*result)[0];
  }

  void fold(Operation *op) {
    // A broadcast of a constant is as small as it gets; ops without operands
    // (iota, sizes) say more than their values.
    if (op->getNumOperands() == 0 || isa<BroadcastOp>(op) || !keepsConstant(op))
      return;
    for (Type type : op->getResultTypes())
      if (bytesOf(type) > limits.resultBytes)
        return;
    if (llvm::any_of(op->getOperands(), [](Value operand) {
          return !operand.getDefiningOp<ConstantOp>() &&
                 !operand.getDefiningOp<BroadcastOp>();
        }))
      return;
    int64_t work = workOf(op);
    if (work > limits.operations || work > left)
      return;
    SmallVector<HostTensor> operands;
    for (Value operand : op->getOperands()) {
      std::optional<HostTensor> tensor = constantOf(operand);
      if (!tensor)
        return;
      operands.push_back(*tensor);
    }
    left -= work;
    Expected<SmallVector<HostTensor>> results = evaluate(op, operands);
    if (!results)
      return;
    OpBuilder builder(op);
    for (auto [result, tensor] : llvm::zip(op->getResults(), *results))
      result.replaceAllUsesWith(build(builder, op->getLoc(), tensor));
    ++folded;
  }

  /// Integers that follow from positions: what they are is noted, and only one
  /// repeated number replaces the op.
  void foldPositions(Operation *op) {
    if (op->getNumResults() != 1 || !keepsConstant(op) || isa<ConstantOp>(op) ||
        isa<FloatType>(elementTypeOf(op->getResult(0))))
      return;
    int64_t bytes = bytesOf(op->getResult(0).getType());
    if (bytes > limits.positionBytes || bytes > positionsLeft ||
        workOf(op) > limits.operations)
      return;
    SmallVector<HostTensor> operands;
    bool follows = isa<IotaOp>(op);
    for (Value operand : op->getOperands()) {
      auto known = positions.find(operand);
      follows |= known != positions.end();
      std::optional<HostTensor> tensor =
          known != positions.end() ? known->second : constantOf(operand);
      if (!tensor)
        return;
      operands.push_back(*tensor);
    }
    if (!follows)
      return;
    positionsLeft -= bytes;
    Expected<SmallVector<HostTensor>> results = evaluate(op, operands);
    if (!results)
      return;
    const HostTensor &made = results->front();
    if (op->getNumOperands() > 0 && isUniform(made)) {
      OpBuilder builder(op);
      op->getResult(0).replaceAllUsesWith(build(builder, op->getLoc(), made));
      ++folded;
      return;
    }
    positions.try_emplace(op->getResult(0), made);
  }

  static bool isUniform(const HostTensor &tensor) {
    size_t size = byteSize(tensor.dtype());
    bool uniform = tensor.rank() > 0 && tensor.elements() > 0;
    for (size_t i = size; uniform && i < tensor.bytes(); ++i)
      uniform = tensor.data()[i] == tensor.data()[i - size];
    return uniform;
  }

  Value build(OpBuilder &builder, Location location, const HostTensor &tensor) {
    MLIRContext *context = builder.getContext();
    if (!isUniform(tensor))
      return ConstantOp::create(builder, location, tensor.toAttribute(context));
    HostTensor scalar = HostTensor::borrow(tensor.dtype(), {}, tensor.data());
    Value number =
        ConstantOp::create(builder, location, scalar.toAttribute(context));
    Type type = RankedTensorType::get(
        tensor.dims(), ts::elementTypeOf(context, tensor.dtype()));
    return BroadcastOp::create(builder, location, type, number,
                               ArrayRef<int64_t>());
  }
};

struct FoldConstantsPass
    : PassWrapper<FoldConstantsPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FoldConstantsPass)
  StringRef getArgument() const override { return "fold-constants"; }
  StringRef getDescription() const override {
    return "evaluates ops on small constants";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<TsDialect>();
  }
  void runOnOperation() override { foldConstants(getOperation()); }
};

} // namespace

int64_t foldConstants(func::FuncOp function,
                      const FoldConstantsLimits &limits) {
  Folder folder{limits};
  SmallVector<Operation *> ops;
  function.walk([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : ops) {
    folder.fold(op);
    folder.foldPositions(op);
  }
  ops.clear();
  function.walk([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : llvm::reverse(ops)) // users before operands
    if (isOpTriviallyDead(op))
      op->erase();
  return folder.folded;
}

void registerFoldConstantsPass() { PassRegistration<FoldConstantsPass>(); }

} // namespace knapper
