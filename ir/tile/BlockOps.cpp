#include "ir/tile/BlockOps.h"
#include "ir/tile/GridOps.h"

using namespace mlir;

namespace knapper::tile {

LogicalResult verifyScan(Operation *op, vector::CombiningKind kind, Type type) {
  using K = vector::CombiningKind;
  Type element = getElementTypeOrSelf(type);
  bool isFloat = element.isF32() || element.isF64();
  if (!isFloat && (!element.isSignlessInteger() || element.isInteger(1)))
    return op->emitOpError("C1: elements are ") << element;
  bool known =
      kind == K::ADD || kind == K::MUL ||
      (isFloat ? kind == K::MAXIMUMF || kind == K::MINIMUMF
               : kind == K::MAXSI || kind == K::MINSI || kind == K::MAXUI ||
                     kind == K::MINUI);
  if (!known)
    return op->emitOpError("C2: the kind is ")
           << vector::stringifyCombiningKind(kind) << " of " << element;
  return success();
}

LogicalResult ScanOp::verify() {
  Type element = getElementTypeOrSelf(getTile().getType());
  if (failed(verifyScan(*this, getKind(), element)))
    return failure();
  if (getTotal().getType() != element ||
      (getInit() && getInit().getType() != element))
    return emitOpError("C3: 'total' and 'init' are ") << element;
  return success();
}

LogicalResult ScanRowsOp::verify() {
  VectorType type = cast<VectorType>(getTile().getType());
  if (failed(verifyScan(*this, getKind(), type)))
    return failure();
  int64_t columns = getColumns();
  if (columns < 1 || !llvm::isPowerOf2_64(columns) ||
      type.getNumElements() % columns)
    return emitOpError("C3: ")
           << columns << " columns are no power of two that divides "
           << type.getNumElements() << " lanes";
  return success();
}

LogicalResult ClusterScanOp::verify() {
  auto function = (*this)->getParentOfType<FuncOp>();
  if (!function || !function->hasAttr("tile.cluster"))
    return emitOpError("C1: 'tile.cluster' of its function is missing");
  return verifyScan(*this, getKind(), getValue().getType());
}

LogicalResult SharedOp::verify() {
  if (static_cast<int64_t>(getCount()) < 1)
    return emitOpError("C1: ") << getCount() << " elements";
  if (!isa<FuncOp>((*this)->getParentOp()))
    return emitOpError("C2: stands in a region");
  return success();
}

static bool isShared(Value buffer) {
  return bool(buffer.getDefiningOp<SharedOp>());
}

/// C1 and C2 of what goes from lists to lists.
static LogicalResult verifyLists(Operation *op, OperandRange from,
                                 OperandRange to) {
  for (auto [source, target] : llvm::zip_equal(from, to)) {
    Type element = cast<BufferType>(source.getType()).getElementType();
    if (source.getType() != target.getType() || !element.isInteger() ||
        element.isInteger(1))
      return op->emitOpError("C1: ")
             << source.getType() << " to " << target.getType();
  }
  if (!llvm::all_of(from, isShared) || !llvm::all_of(to, isShared))
    return op->emitOpError("C2: a list is no tile.shared");
  return success();
}

LogicalResult RankOp::verify() {
  return verifyLists(*this, getFrom(), getTo());
}

LogicalResult ClusterCollectOp::verify() {
  auto function = (*this)->getParentOfType<FuncOp>();
  if (!function || !function->hasAttr("tile.cluster"))
    return emitOpError("C3: 'tile.cluster' of its function is missing");
  return verifyLists(*this, getFrom(), getTo());
}

LogicalResult AppendOp::verify() {
  if (getValues().size() != getLists().size())
    return emitOpError("C1: ") << getValues().size() << " values for "
                               << getLists().size() << " lists";
  auto elementOf = [](Value buffer) {
    return cast<BufferType>(buffer.getType()).getElementType();
  };
  auto lanes = cast<VectorType>(getMask().getType()).getShape();
  for (auto [value, list] : llvm::zip(getValues(), getLists())) {
    auto type = cast<VectorType>(value.getType());
    if (type.getElementType() != elementOf(list) || type.getShape() != lanes)
      return emitOpError("C1: ") << type << " for a list of " << elementOf(list)
                                 << " and " << lanes[0] << " lanes";
  }
  if (!elementOf(getCounter()).isInteger(32))
    return emitOpError("C2: the counter is ") << elementOf(getCounter());
  if (!isShared(getCounter()) || !llvm::all_of(getLists(), isShared))
    return emitOpError("C3: a list or the counter is no tile.shared");
  return success();
}

} // namespace knapper::tile

#define GET_OP_CLASSES
#include "ir/tile/BlockOps.cpp.inc"
