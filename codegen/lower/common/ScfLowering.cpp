// Blocks, scf loops and branches; which file lowers which operation.
#include "codegen/lower/common/TileLowering.h"

#include "mlir/Dialect/UB/IR/UBOps.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/MDBuilder.h"

using namespace mlir;

namespace knapper::lower {

llvm::BasicBlock *TileLowering::newBlock(const char *name) {
  return llvm::BasicBlock::Create(module.getContext(), name, fn);
}

Parts TileLowering::phis(Type type, const char *name) {
  Parts result;
  for (llvm::Type *part : partTypes(type))
    result.push_back(b.CreatePHI(part, 2, name));
  return result;
}

void TileLowering::addIncoming(const Parts &phis, const Parts &values,
                               llvm::BasicBlock *from) {
  for (auto [phi, value] : llvm::zip_equal(phis, values))
    cast<llvm::PHINode>(phi)->addIncoming(value, from);
}

LogicalResult TileLowering::block(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(operation(op)))
      return failure();
  return success();
}

LogicalResult TileLowering::operation(Operation &op) {
  for (Type type : op.getResultTypes())
    if (!isa<tile::BufferType>(type) && partTypes(type).empty())
      return op.emitError("no lowering for a value of type ") << type;
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](scf::ForOp op) { return forLoop(op); })
      .Case([&](scf::IfOp op) { return ifElse(op); })
      .Case([&](scf::WhileOp op) { return whileLoop(op); })
      .Case([&](scf::IndexSwitchOp op) { return indexSwitch(op); })
      .Case([&](tile::ProgramIdOp op) {
        set(op.getResult(), {programId});
        return success();
      })
      .Case([&](ub::PoisonOp op) {
        Parts result;
        for (llvm::Type *type : partTypes(op.getType()))
          result.push_back(llvm::PoisonValue::get(type));
        set(op.getResult(), result);
        return success();
      })
      .Case([&](arith::ConstantOp op) {
        if (auto dense = dyn_cast<DenseElementsAttr>(op.getValue()))
          return constantTile(op.getResult(), dense);
        set(op.getResult(), {constant(op.getType(), op.getValue())});
        return success();
      })
      .Default([&](Operation *) -> LogicalResult {
        if (isa<vector::VectorDialect>(op.getDialect()))
          return vectorOp(op);
        if (isa<tile::TileDialect>(op.getDialect()))
          return tileOp(op);
        if (isa<arith::MulSIExtendedOp, arith::MulUIExtendedOp,
                arith::AddUIExtendedOp>(op))
          return extended(op);
        if (op.getNumResults() != 1 || op.getNumRegions())
          return op.emitOpError("has no lowering from the tile level");
        // Elementwise: part by part; scalar operands of vector operations
        // (the condition of a select) serve every part.
        unsigned count = partTypes(op.getResult(0).getType()).size();
        Parts result;
        for (unsigned part = 0; part < count; ++part) {
          llvm::SmallVector<llvm::Value *, 3> operands;
          for (Value operand : op.getOperands()) {
            Parts &p = parts(operand);
            operands.push_back(p[p.size() == count ? part : 0]);
          }
          llvm::Value *value = ofSharedLanes(&op, operands);
          if (!value)
            value = elementwise(&op, operands);
          if (!value)
            return op.emitOpError("has no lowering from the tile level");
          result.push_back(value);
        }
        set(op.getResult(0), std::move(result));
        return success();
      });
}

// LLVM does not move what may trap, or takes several instructions, out of the
// lanes itself.
llvm::Value *
TileLowering::ofSharedLanes(Operation *op,
                            llvm::ArrayRef<llvm::Value *> operands) {
  if (!hasGroups)
    return nullptr;
  auto shared = [](llvm::Value *value) {
    return value->getType()->isVectorTy() ? llvm::getSplatValue(value) : value;
  };
  if (isa<arith::SelectOp>(op)) {
    llvm::Value *condition = shared(operands[0]);
    return condition ? b.CreateSelect(condition, operands[1], operands[2])
                     : nullptr;
  }
  auto *part = llvm::dyn_cast<llvm::FixedVectorType>(operands[0]->getType());
  auto isFloat = [](Value value) {
    return isa<FloatType>(getElementTypeOrSelf(value));
  };
  if (!part || isFloat(op->getOperand(0)) || isFloat(op->getResult(0)))
    return nullptr;
  llvm::SmallVector<llvm::Value *, 3> scalars;
  for (llvm::Value *operand : operands)
    scalars.push_back(shared(operand));
  if (llvm::is_contained(scalars, nullptr))
    return nullptr;
  llvm::Value *value = elementwise(op, scalars);
  return value ? splat(value, part->getNumElements()) : nullptr;
}

// Loops are emitted with their test at the end and a guard before them: what is
// invariant can then be hoisted without proving that it may be executed early.
LogicalResult TileLowering::forLoop(scf::ForOp op) {
  llvm::Value *lower = scalar(op.getLowerBound());
  llvm::Value *upper = scalar(op.getUpperBound());
  llvm::Value *stride = scalar(op.getStep());
  auto less = [&](llvm::Value *x) {
    return op.getUnsignedCmp() ? b.CreateICmpULT(x, upper)
                               : b.CreateICmpSLT(x, upper);
  };
  auto number = [](llvm::Value *v) { return dyn_cast<llvm::ConstantInt>(v); };
  if (number(lower) && number(upper) && number(stride) &&
      number(lower)->getSExtValue() < number(upper)->getSExtValue() &&
      number(upper)->getSExtValue() - number(lower)->getSExtValue() <=
          number(stride)->getSExtValue()) {
    // Once: no loop, so that what is read twice is seen to be the same.
    set(op.getInductionVar(), {lower});
    for (auto [arg, init] : llvm::zip(op.getRegionIterArgs(), op.getInitArgs()))
      set(arg, Parts(parts(init)));
    if (failed(this->block(*op.getBody())))
      return failure();
    for (auto [result, value] : llvm::zip(
             op.getResults(), op.getBody()->getTerminator()->getOperands()))
      set(result, Parts(parts(value)));
    return success();
  }
  FailureOr<llvm::BasicBlock *> copied = copiedAtOnce(op);
  if (failed(copied))
    return failure();
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::BasicBlock *body = newBlock("for");
  llvm::BasicBlock *after = newBlock("for.end");
  b.CreateCondBr(less(lower), body, after);
  if (*copied) {
    b.SetInsertPoint(*copied);
    b.CreateBr(after);
  }

  b.SetInsertPoint(body);
  llvm::PHINode *iv = b.CreatePHI(lower->getType(), 2, "i");
  iv->addIncoming(lower, before);
  set(op.getInductionVar(), {iv});
  for (auto [arg, init] : llvm::zip(op.getRegionIterArgs(), op.getInitArgs())) {
    Parts p = phis(arg.getType(), "carried");
    addIncoming(p, parts(init), before);
    set(arg, p);
  }
  if (failed(block(*op.getBody())))
    return failure();
  llvm::Value *next = b.CreateNSWAdd(iv, stride);
  llvm::BasicBlock *latch = b.GetInsertBlock();
  iv->addIncoming(next, latch);
  auto yielded = op.getBody()->getTerminator()->getOperands();
  for (auto [arg, value] : llvm::zip(op.getRegionIterArgs(), yielded))
    addIncoming(parts(arg), parts(value), latch);
  b.CreateCondBr(less(next), body, after);

  b.SetInsertPoint(after);
  for (auto [result, init, value] :
       llvm::zip(op.getResults(), op.getInitArgs(), yielded)) {
    Parts p = phis(result.getType(), "result");
    addIncoming(p, parts(init), before);
    addIncoming(p, parts(value), latch);
    set(result, p);
  }
  return success();
}

/// Whether the first region is entered where something may be wrong: what it
/// does belongs out of the way.
static bool isUnlikely(scf::IfOp op) {
  return !op.getThenRegion().getOps<tile::SetStatusOp>().empty();
}

LogicalResult TileLowering::ifElse(scf::IfOp op) {
  llvm::BasicBlock *then = newBlock("then");
  llvm::BasicBlock *otherwise = newBlock("else");
  llvm::BasicBlock *after = newBlock("endif");
  b.CreateCondBr(
      scalar(op.getCondition()), then, otherwise,
      isUnlikely(op)
          ? llvm::MDBuilder(module.getContext()).createUnlikelyBranchWeights()
          : nullptr);
  llvm::BasicBlock *ends[2];
  Region *regions[2] = {&op.getThenRegion(), &op.getElseRegion()};
  llvm::BasicBlock *starts[2] = {then, otherwise};
  for (unsigned i = 0; i < 2; ++i) {
    b.SetInsertPoint(starts[i]);
    if (!regions[i]->empty() && failed(block(regions[i]->front())))
      return failure();
    ends[i] = b.GetInsertBlock();
    b.CreateBr(after);
  }
  b.SetInsertPoint(after);
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    Parts p = phis(result.getType(), "result");
    for (unsigned r = 0; r < 2; ++r)
      addIncoming(p, parts(regions[r]->front().getTerminator()->getOperand(i)),
                  ends[r]);
    set(result, p);
  }
  return success();
}

LogicalResult TileLowering::whileLoop(scf::WhileOp op) {
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::BasicBlock *test = newBlock("while");
  llvm::BasicBlock *body = newBlock("while.body");
  llvm::BasicBlock *after = newBlock("while.end");
  b.CreateBr(test);
  b.SetInsertPoint(test);
  for (auto [arg, init] : llvm::zip(op.getBeforeArguments(), op.getInits())) {
    Parts p = phis(arg.getType(), "carried");
    addIncoming(p, parts(init), before);
    set(arg, p);
  }
  if (failed(block(*op.getBeforeBody())))
    return failure();
  scf::ConditionOp condition = op.getConditionOp();
  for (auto [arg, result, value] : llvm::zip(
           op.getAfterArguments(), op.getResults(), condition.getArgs())) {
    set(arg, parts(value));
    set(result, parts(value));
  }
  b.CreateCondBr(scalar(condition.getCondition()), body, after);
  b.SetInsertPoint(body);
  if (failed(block(*op.getAfterBody())))
    return failure();
  for (auto [arg, value] :
       llvm::zip(op.getBeforeArguments(), op.getYieldOp().getOperands()))
    addIncoming(parts(arg), parts(value), b.GetInsertBlock());
  b.CreateBr(test);
  b.SetInsertPoint(after);
  return success();
}

LogicalResult TileLowering::indexSwitch(scf::IndexSwitchOp op) {
  llvm::BasicBlock *after = newBlock("switch.end");
  llvm::BasicBlock *otherwise = newBlock("default");
  llvm::SwitchInst *branch =
      b.CreateSwitch(scalar(op.getArg()), otherwise, op.getNumCases());
  llvm::SmallVector<std::pair<llvm::BasicBlock *, Block *>> ends;
  auto region = [&](llvm::BasicBlock *start, Block &body) {
    b.SetInsertPoint(start);
    if (failed(block(body)))
      return failure();
    ends.push_back({b.GetInsertBlock(), &body});
    b.CreateBr(after);
    return success();
  };
  if (failed(region(otherwise, op.getDefaultBlock())))
    return failure();
  for (auto [i, number] : llvm::enumerate(op.getCases())) {
    llvm::BasicBlock *start = newBlock("case");
    branch->addCase(b.getInt64(number), start);
    if (failed(region(start, op.getCaseBlock(i))))
      return failure();
  }
  b.SetInsertPoint(after);
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    Parts p = phis(result.getType(), "result");
    for (auto [end, body] : ends)
      addIncoming(p, parts(body->getTerminator()->getOperand(i)), end);
    set(result, p);
  }
  return success();
}

} // namespace knapper::lower
