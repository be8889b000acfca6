// Reductions of a tile to one value: the order of lanes is free unless a
// floating-point sum or product has not been marked reassociable.
#include "codegen/lower/common/TileLowering.h"

#include "llvm/IR/Intrinsics.h"

using namespace mlir;
using llvm::Intrinsic::ID;

namespace knapper::lower {

static bool isHalf(Type type) { return type.isF16() || type.isBF16(); }

llvm::Value *TileLowering::combine(vector::CombiningKind kind,
                                   arith::FastMathFlags fastmath,
                                   llvm::Value *x, llvm::Value *y) {
  using K = vector::CombiningKind;
  bool isFloat = x->getType()->isFPOrFPVectorTy();
  auto call = [&](ID id) { return b.CreateBinaryIntrinsic(id, x, y); };
  // Without NaNs a comparison decides, which is one instruction with its
  // selection; a GPU has the maximum of numbers instead.
  bool gpu = target.simt;
  bool plain = bitEnumContainsAll(fastmath, arith::FastMathFlags::nnan);
  switch (kind) {
  case K::ADD:
    return isFloat ? b.CreateFAdd(x, y) : b.CreateAdd(x, y);
  case K::MUL:
    return isFloat ? b.CreateFMul(x, y) : b.CreateMul(x, y);
  case K::MINUI:
    return call(llvm::Intrinsic::umin);
  case K::MINSI:
    return call(llvm::Intrinsic::smin);
  case K::MINNUMF:
    return call(llvm::Intrinsic::minnum);
  case K::MAXUI:
    return call(llvm::Intrinsic::umax);
  case K::MAXSI:
    return call(llvm::Intrinsic::smax);
  case K::MAXNUMF:
    return call(llvm::Intrinsic::maxnum);
  case K::AND:
    return b.CreateAnd(x, y);
  case K::OR:
    return b.CreateOr(x, y);
  case K::XOR:
    return b.CreateXor(x, y);
  case K::MINIMUMF:
    if (plain)
      return gpu ? call(llvm::Intrinsic::minnum)
                 : b.CreateSelect(b.CreateFCmpOLT(x, y), x, y);
    return call(llvm::Intrinsic::minimum);
  case K::MAXIMUMF:
    if (plain)
      return gpu ? call(llvm::Intrinsic::maxnum)
                 : b.CreateSelect(b.CreateFCmpOGT(x, y), x, y);
    return call(llvm::Intrinsic::maximum);
  }
  return nullptr;
}

llvm::Value *TileLowering::combine(vector::ReductionOp op, llvm::Value *x,
                                   llvm::Value *y) {
  return combine(op.getKind(), op.getFastmath(), x, y);
}

bool TileLowering::isOrdered(vector::ReductionOp op) {
  return isa<FloatType>(op.getSourceVectorType().getElementType()) &&
         !bitEnumContainsAll(op.getFastmath(), arith::FastMathFlags::reassoc) &&
         (op.getKind() == vector::CombiningKind::ADD ||
          op.getKind() == vector::CombiningKind::MUL);
}

Parts TileLowering::wideParts(vector::ReductionOp op) {
  Parts p = parts(op.getVector());
  Type element = op.getSourceVectorType().getElementType();
  if (isHalf(element))
    for (llvm::Value *&part : p)
      part = widen(part, element);
  return p;
}

// Parts are combined lane by lane first, so that one tree is left at the end; a
// part narrower than the rest joins when the others have reached its width.
llvm::Value *TileLowering::combineAll(vector::ReductionOp op,
                                      llvm::ArrayRef<llvm::Value *> p) {
  auto width = [](llvm::Value *v) { return laneCount(v->getType()); };
  auto halve = [&](llvm::Value *v) {
    unsigned half = width(v) / 2;
    llvm::SmallVector<int> low, high;
    for (unsigned i = 0; i < half; ++i)
      low.push_back(i), high.push_back(half + i);
    return combine(op, b.CreateShuffleVector(v, low),
                   b.CreateShuffleVector(v, high));
  };
  llvm::Value *tree = nullptr;
  for (size_t i = 0; i < p.size();) {
    llvm::Value *sum = p[i];
    for (++i; i < p.size() && width(p[i]) == width(sum); ++i)
      sum = combine(op, sum, p[i]);
    while (tree && width(tree) > width(sum))
      tree = halve(tree);
    tree = tree ? combine(op, tree, sum) : sum;
  }
  while (width(tree) > 1)
    tree = halve(tree);
  return b.CreateExtractElement(tree, uint64_t(0));
}

void TileLowering::finishReduction(vector::ReductionOp op,
                                   llvm::Value *result) {
  Type element = op.getSourceVectorType().getElementType();
  if (op.getAcc()) {
    llvm::Value *acc = scalar(op.getAcc());
    result = combine(op, isHalf(element) ? widen(acc, element) : acc, result);
  }
  set(op.getDest(), {isHalf(element) ? narrow(result, element) : result});
}

} // namespace knapper::lower
