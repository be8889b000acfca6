#include "graph/fusion/Prepare.h"
#include "ir/tensor/GroupedMatmul.h"
#include "ir/tensor/PackedDot.h"
#include "ir/tensor/PagedAttention.h"
#include "ir/tensor/ScaledDot.h"

#include "graph/fusion/Constants.h"
#include "graph/fusion/Rules.h"
#include "graph/fusion/Views.h"
#include "ir/tensor/Decompose.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::fusion;
using namespace knapper::ts;

namespace {

/// Constant work whose result is much larger than what it is made of.
constexpr int64_t smallConstantBytes = 64 << 10;

int64_t staticBytes(Type type) {
  return byteCount(type).asConstant().value_or(0);
}

/// Bytes that a kernel reads which evaluates a constant expression: those of
/// constants, weights and results of kernels.
int64_t leafBytes(Value value) {
  llvm::SmallDenseSet<Operation *> seen;
  SmallVector<Value> work{value};
  int64_t bytes = 0;
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!seen.insert(op).second)
      continue;
    if (isa<WeightOp>(op) || heroOf(op)) {
      bytes += staticBytes(op->getResult(0).getType());
      continue;
    }
    if (auto constant = dyn_cast<ConstantOp>(op))
      bytes += isSplatConstant(constant) ? 8 : staticBytes(constant.getType());
    llvm::append_range(work, op->getOperands());
  }
  return bytes;
}

/// Better evaluated by the kernel that uses it than stored. Matmuls read their
/// constants as they lie in memory, packed: those are evaluated once.
bool isInflated(Operation *op, Operation *user) {
  if (isa<ScaledDotOp, PackedDotOp>(user))
    return false;
  if (isa<BroadcastOp>(op))
    return true;
  if (isa<ConstantOp, WeightOp>(op) || heroOf(op) ||
      isa<DotOp, ConvOp, GroupedMatmulOp>(user))
    return false;
  int64_t bytes = staticBytes(op->getResult(0).getType());
  return bytes > smallConstantBytes && bytes > 2 * leafBytes(op->getResult(0));
}

/// Only these are worth a copy a consumer; a conversion or addition is not.
bool isCopied(Operation *op) { return isReindex(op); }

} // namespace

llvm::DenseSet<Operation *> fusion::prepare(func::FuncOp function) {
  Block &block = function.getBody().front();
  ts::decomposeAll(function.getBody(), [](Operation *op) {
    auto paged = dyn_cast<PagedAttentionOp>(op);
    return paged && !hasPlainPages(paged);
  });
  // These have no schedule in f64; their parts have.
  ts::decomposeAll(function.getBody(), [](Operation *op) {
    return isa<AttentionOp, GroupedMatmulOp>(op) &&
           elementTypeOf(op->getResult(0)).isF64();
  });
  llvm::DenseSet<Operation *> constants = constantExpressions(block);

  // From consumers to producers: a copy's operands are met later.
  for (Operation &user : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (constants.contains(&user) || isa<func::ReturnOp>(user))
      continue;
    SmallVector<Operation *> work{&user};
    while (!work.empty()) {
      Operation *op = work.pop_back_val();
      for (OpOperand &operand : op->getOpOperands()) {
        Operation *producer = operand.get().getDefiningOp();
        if (!producer || !constants.contains(producer) ||
            !isInflated(producer, op))
          continue;
        OpBuilder builder(op);
        Operation *copy = builder.clone(*producer);
        operand.set(
            copy->getResult(cast<OpResult>(operand.get()).getResultNumber()));
        work.push_back(copy);
      }
    }
  }

  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (!isCopied(&op) || constants.contains(&op))
      continue;
    // The first user keeps the op; an op that uses it twice counts once.
    Operation *first = nullptr;
    llvm::SmallDenseMap<Operation *, Operation *> copies;
    for (OpOperand &use :
         llvm::make_early_inc_range(op.getResult(0).getUses())) {
      Operation *user = use.getOwner();
      if (!first)
        first = user;
      if (user == first)
        continue;
      Operation *&copy = copies[user];
      if (!copy)
        copy = OpBuilder(&op).clone(op);
      use.set(copy->getResult(0));
    }
  }

  // Constant expressions that lost their last use.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (constants.contains(&op) && op.use_empty()) {
      constants.erase(&op);
      op.erase();
    }
  return constants;
}

void fusion::uniteViews(Block &block) {
  llvm::DenseMap<Value, SmallVector<Operation *, 2>> known;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (!isView(&op))
      continue;
    auto &list = known[op.getOperand(0)];
    auto *same = llvm::find_if(list, [&](Operation *other) {
      return OperationEquivalence::isEquivalentTo(
          &op, other, OperationEquivalence::IgnoreLocations);
    });
    if (same == list.end()) {
      list.push_back(&op);
      continue;
    }
    op.replaceAllUsesWith(*same);
    op.erase();
  }
}
